"""Finds JSON objects with a ``selection`` key in any text, in linear time.

A text of 100 KB may be one hundred thousand opening braces, so nothing is scanned twice from the same brace: an
attempt at an outer object settles all objects nested in it, and where the outer one turns out to be no JSON, only
braces that it took for part of a string are tried again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

_SPACE = re.compile(r"[ \t\r\n]*+")
_START = re.compile(r'\{[ \t\r\n]*+["}]')
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(  # a scalar ends where something follows that may follow; at the end of the text it may go on
    r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+|true|false|null)(?=[ \t\r\n,}\]])"
)
_CUT_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+\\?\Z', re.DOTALL)
_CUT_NUMBER = re.compile(r"-?(?:[0-9][0-9.eE+-]*+)?\Z")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_TOO_LONG: Final = 18  # digits; Python refuses to convert thousands of them, and no set has that many candidates

# What may come next.
_FIRST_KEY, _KEY, _COLON, _VALUE, _FIRST_ITEM, _NEXT = range(6)


@dataclass(frozen=True)
class Verdict:
    """One object: where it stands, and what its ``selection`` says.

    number: the integer, or None. valued: some value ended. conflict: two keys, different values.
    complete: the object was closed; otherwise it is open at the end of the text.
    """

    start: int
    end: int
    number: int | None
    valued: bool
    conflict: bool
    complete: bool


@dataclass(slots=True)
class _Frame:
    """An open object or array. ``hidden``: it stands inside the value of a ``selection``."""

    start: int
    is_object: bool
    hidden: bool
    key: str = ""
    values: list[int | str] = field(default_factory=list)


def verdicts(text: str) -> tuple[list[Verdict], bool]:
    """Return the objects of ``text`` in the order of their starts, and whether the text ends inside one.

    Complete objects are listed if they have a ``selection`` key; objects open at the end of the text always.
    """
    found: dict[int, Verdict] = {}
    failed: set[int] = set()
    start, cut = _START.search(text), False
    while start and not cut:
        end, cut = _Attempt(text, found, failed).run(start.start())
        start = _START.search(text, end)
    return [found[k] for k in sorted(found)], cut


class _Attempt:
    """One walk from one brace."""

    def __init__(self, text: str, found: dict[int, Verdict], failed: set[int]) -> None:
        self.text, self.found, self.failed = text, found, failed
        self.stack: list[_Frame] = []

    def run(self, start: int) -> tuple[int, bool]:
        """Return where to go on searching, and whether the text ended inside the object."""
        if start in self.failed:
            return start + 1, False
        text, stack = self.text, self.stack
        position, want = start + 1, _FIRST_KEY
        stack.append(_Frame(start, True, False))
        while stack:
            position = _skip(text, position)
            if position == len(text):
                return self._cut()
            step = self._step(position, want)
            if step is None:
                if _cut_token(text, position, want):
                    return self._cut()
                self.failed.update(f.start for f in stack if f.is_object)
                return start + 1, False
            position, want = step
        return position, False

    def _step(self, position: int, want: int) -> tuple[int, int] | None:
        """Take one token: return the place behind it and what may follow, or None if it may not stand here."""
        text, frame = self.text, self.stack[-1]
        character = text[position]
        if want == _NEXT:
            if character == ",":
                return position + 1, _KEY if frame.is_object else _VALUE
            return self._close(position) if character == ("}" if frame.is_object else "]") else None
        if want == _COLON:
            return (position + 1, _VALUE) if character == ":" else None
        if want in (_FIRST_KEY, _KEY):
            if character == "}" and want == _FIRST_KEY:
                return self._close(position)
            token = _STRING.match(text, position)
            if token is None:
                return None
            frame.key = _decoded(token[0])
            return token.end(), _COLON
        if character == "]" and want == _FIRST_ITEM:
            return self._close(position)
        if character in "{[":
            return self._open(position, character == "{")
        token = _STRING.match(text, position) if character == '"' else _SCALAR.match(text, position)
        if token is None:
            return None
        if frame.is_object and frame.key == "selection":
            frame.values.append(_value(token[0]))
        return token.end(), _NEXT

    def _open(self, position: int, is_object: bool) -> tuple[int, int] | None:
        if is_object and position in self.failed:
            return None
        parent = self.stack[-1]
        hidden = parent.hidden or (parent.is_object and parent.key == "selection")
        self.stack.append(_Frame(position, is_object, hidden))
        return position + 1, _FIRST_KEY if is_object else _FIRST_ITEM

    def _close(self, position: int) -> tuple[int, int]:
        frame = self.stack.pop()
        if frame.is_object and frame.values and not frame.hidden:
            self.found[frame.start] = _verdict(frame, position + 1, complete=True)
        if self.stack and self.stack[-1].is_object and self.stack[-1].key == "selection":
            self.stack[-1].values.append("a list or an object")
        return position + 1, _NEXT

    def _cut(self) -> tuple[int, bool]:
        end = len(self.text)
        self.found |= {f.start: _verdict(f, end, complete=False) for f in self.stack if f.is_object and not f.hidden}
        return end, True


def _verdict(frame: _Frame, end: int, *, complete: bool) -> Verdict:
    values = set(frame.values)
    only = next(iter(values)) if len(values) == 1 else None
    number = only if isinstance(only, int) else None
    return Verdict(frame.start, end, number, bool(values), len(values) > 1, complete)


def _value(token: str) -> int | str:
    """The integer that a scalar or a string stands for; any other token as it is."""
    text = _decoded(token) if token[0] == '"' else token
    if not _INTEGER.match(text):
        return token
    if len(text) > _TOO_LONG:
        return -(10**_TOO_LONG) if text[0] == "-" else 10**_TOO_LONG
    return int(text)


def _decoded(token: str) -> str:
    """The content of a JSON string; as written if its escapes are not JSON."""
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token[1:-1]


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None  # the pattern matches the empty string
    return match.end()


def _cut_token(text: str, position: int, want: int) -> bool:
    """Whether the text ends inside a token that may stand here."""
    if want in (_COLON, _NEXT):
        return False
    if text[position] == '"':
        return _CUT_STRING.match(text, position) is not None
    if want in (_FIRST_KEY, _KEY):
        return False
    rest = text[position : position + 6]
    if any(word.startswith(rest) for word in ("true", "false", "null")):
        return position + len(rest) == len(text)
    return _CUT_NUMBER.match(text, position) is not None
