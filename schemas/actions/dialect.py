"""What all dialects share: thought and action are told apart, results are remembered."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .canonical import identity, unreadable_key
from .model import Call, Parsed, UnreadableError

END_OF_TURN = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>")
_OPEN, _CLOSE = "<think>", "</think>"
_KEPT = 32_768  # remembered action texts a dialect; about 20 MB when full
_LONGEST = 2_000  # characters; longer texts hardly repeat
_TRIED = 8  # closing tags; with more, every reading would be tried: quadratic


class Scan(NamedTuple):
    """Calls read from a text, their text verbatim, and the (begin, end) offsets of each call or block of calls.

    thought: where the dialect's own form holds it (a JSON reply); None leaves it to the tags around actions.
    """

    calls: tuple[Call, ...]
    action: str
    spans: list[tuple[int, int]]
    thought: str | None = None


class _Known(NamedTuple):
    """What is remembered of an action text; see ``Parsed``."""

    thought: str | None
    action: str
    calls: tuple[Call, ...]
    json: str
    key: str


def without_end_of_turn(text: str) -> str:
    """``text`` stripped of surrounding whitespace and of end-of-turn tokens at its end."""
    text = text.strip()
    end = len(text)
    while token := next((token for token in END_OF_TURN if text.endswith(token, 0, end)), None):
        end -= len(token)
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _thought(text: str) -> str:
    """The opening tag may be missing: it can be part of the prompt."""
    return text.strip().removeprefix(_OPEN).strip()


@dataclass(frozen=True)
class Dialect:
    """One way to write actions.

    opener, closer: the tags around an action; both empty when it has none.
    scan: reads all calls of a text that starts after the thought; raises UnreadableError.
    render: calls -> text that ``parse`` reads back to equal calls (no thought in it); ArmError where the
        dialect has no words for a call. Names are the dialect's own: a call read by another is translated by verb.
    bare_opener: what an action starts with where its tags are missing, "" for what cannot be told from prose.
    texts: the dialect of ``Parsed.action`` where that is not this one; prompts show actions in it.
    """

    opener: str
    closer: str
    scan: Callable[[str], Scan]
    render: Callable[[Sequence[Call]], str]
    bare_opener: str = ""
    texts: Dialect | None = None
    _known: dict[str, _Known] = field(default_factory=dict, repr=False, compare=False)

    def parse(self, response: str) -> Parsed:
        """Splits a response. Never raises for what a model wrote: see ``Parsed.parse_error``."""
        whole = without_end_of_turn(response)
        cut = whole.rfind(_CLOSE)
        # An opener or a second closing tag before the last one: one of them may be typed text.
        opened = bool(self.opener) and whole.find(self.opener, 0, max(cut, 0)) >= 0
        if cut >= 0 and (opened or whole.find(_CLOSE, 0, cut) >= 0):
            careful = self._inside_call(whole)
            if careful is not None:
                return careful
        thought, tail = self._split(whole, cut)
        known = self._known.get(tail)
        if known is None:
            try:
                scan = self.scan(tail)
                known = _Known(scan.thought, scan.action, scan.calls, *identity(scan.calls))
            except UnreadableError as error:
                careful = self._inside_call(whole) if cut >= 0 else None
                return careful or Parsed(thought, self._bare(tail), (), str(error), unreadable_key(whole), "[]")
            if len(self._known) >= _KEPT:
                self._known.clear()
            if len(tail) <= _LONGEST:
                self._known[tail] = known
        own = known.thought
        return Parsed(thought if own is None else own, known.action, known.calls, None, known.key, known.json)

    def _split(self, whole: str, cut: int) -> tuple[str, str]:
        """``(thought, the rest)`` at the closing tag, or, without one, before the first opener."""
        if cut >= 0:
            return _thought(whole[:cut]), whole[cut + len(_CLOSE) :].strip()
        found = [whole.find(opener) for opener in (self.opener, self.bare_opener) if opener]
        begin = min((at for at in found if at >= 0), default=-1)
        if begin < 0:
            return (_thought(whole), "") if whole.startswith(_OPEN) else ("", whole)
        return _thought(whole[:begin]), whole[begin:]

    def _inside_call(self, whole: str) -> Parsed | None:
        """The reading in which each later ``</think>`` is part of a call's own text, or None.

        The thought ends at the last closing tag, unless that tag is something the agent types or answers.
        """
        closings = [match.start() for match in re.finditer(_CLOSE, whole)]
        if len(closings) > _TRIED:
            return None
        for index, start in enumerate([0, *(at + len(_CLOSE) for at in closings[:-1])]):
            try:
                calls, action, spans, own = self.scan(whole[start:])
                text, key = identity(calls)
            except UnreadableError:
                continue
            if all(any(begin <= at - start < end for begin, end in spans) for at in closings[index:]):
                thought = whole[: start - len(_CLOSE)] if start else whole[: spans[0][0]]
                return Parsed(_thought(thought) if own is None else own, action, calls, None, key, text)
        return None

    def _bare(self, tail: str) -> str:
        return tail.removeprefix(self.opener).removesuffix(self.closer).strip()
