"""The one parser of a selector's reply, for teacher, evaluation and serving alike."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal, get_args

from ..schemas.errors import ArmError
from .objects import Verdict, verdicts

ReplyStatus = Literal["ok", "ambiguous", "out_of_range", "unparsed", "truncated", "refused", "content_filter"]
REPLY_STATUSES: tuple[str, ...] = get_args(ReplyStatus)

_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>")


@dataclass(frozen=True)
class Reply:
    """What a reply says.

    selected: 1-based place in the shown order; None unless status is ``ok``.
    salvaged: the object was cut off after its value, and no complete object says the same.
    detail: one clause for a person; empty when there is nothing to add.
    """

    status: ReplyStatus
    selected: int | None = None
    salvaged: bool = False
    detail: str = ""


def parse_selection(text: str | None, n: int, finish_reason: str | None = None, refusal: str | None = None) -> Reply:
    """Return what ``text`` selects out of ``n`` shown candidates.

    Looked at are JSON objects with a ``selection`` key, wherever they stand: alone, in fences, in prose, nested in
    other objects or in braces that are no JSON. Not looked at: text inside the strings of an object, and whatever
    stands inside the value of ``selection``. Strings of further keys are skipped, not judged: raw line breaks and
    illegal backslashes in them do no harm. Digits in prose are never read.

    In this order:

    - finish_reason ``content_filter`` -> content_filter; a non-empty ``refusal`` -> refused.
    - The text ends inside an object, or finish_reason is ``length``, and no value stands outside the thinking blocks
      (one that is still open counts as a block with ``length`` only): the verdict was cut away -> truncated.
    - Exactly one distinct integer in 1..n over all objects, in thinking blocks or not -> ok, whatever else they hold.
    - Two or more -> ambiguous, unless all but the last stand only in closed thinking blocks (``<think>..</think>``,
      also when the opening tag was part of the prompt) and the last outside -> ok, the last.
      One object with two ``selection`` keys of different value counts as two.
    - Only integers outside 1..n -> out_of_range.
    - Only other values (``2.0``, ``"third"``, true, null, a list, an object) -> unparsed. ``"3"`` is 3; digits are
      ASCII, without sign +, leading zeros or spaces.
    - No value -> unparsed.

    So a draft decides where the verdict after it is no number in range: ``<think>{"selection": 1}</think>
    {"selection": 9}`` is ok, 1.

    An object cut off after its value (``{"selection": 3, "tho``) counts like a complete one; ok is then flagged
    ``salvaged``. A number at the very end (``{"selection": 1``) may go on, so it has no value. Time is linear in the
    length of the text. Raises ArmError if ``n`` is not positive.
    """
    if n < 1:
        raise ArmError(f"a reply about {n} candidates cannot be read; at least one must have been shown")
    if finish_reason == "content_filter":
        return Reply("content_filter", detail="finish_reason content_filter")
    if refusal:
        return Reply("refused", detail=refusal)
    text = text or ""
    found, cut = verdicts(text)
    was_cut = finish_reason == "length"
    outside = _outside(text, found, was_cut)
    if (cut or was_cut) and not any(v.valued for v in outside):
        said = "finish_reason length before a verdict" if was_cut else "the text ends before a selection"
        return Reply("truncated", detail=said)
    return _judge(found, outside, n)


def _judge(found: list[Verdict], outside: set[Verdict], n: int) -> Reply:
    picks = [v for v in found if v.conflict or (v.number is not None and 1 <= v.number <= n)]
    if picks:
        last = picks[-1].number  # None for a conflict
        distinct = list(dict.fromkeys(v.number for v in picks))
        if last is not None and (distinct == [last] or {v.number for v in picks if v in outside} == {last}):
            whole = any(v.complete and v.number == last for v in picks)
            return Reply("ok", last, salvaged=not whole)
        if any(v.conflict for v in picks):
            return Reply("ambiguous", detail="one object has two selection keys that differ")
        return Reply("ambiguous", detail=f"selections {', '.join(map(str, distinct))}")
    numbers = {v.number for v in found if v.number is not None}
    if numbers:
        return Reply("out_of_range", detail=f"selection {min(numbers)} of 1..{n}")
    if any(v.valued for v in found):
        return Reply("unparsed", detail="selection is not an integer")
    return Reply("unparsed", detail="no JSON object with a selection")


def _outside(text: str, found: list[Verdict], was_cut: bool) -> set[Verdict]:
    """Those of ``found`` that stand in no thinking block."""
    blocks = _thinking_blocks(text, was_cut)
    starts = [start for start, _ in blocks]
    outside: set[Verdict] = set()
    for verdict in found:
        before = bisect_right(starts, verdict.start) - 1
        if before < 0 or verdict.end > blocks[before][1]:
            outside.add(verdict)
    return outside


def _thinking_blocks(text: str, keep_open: bool) -> list[tuple[int, int]]:
    """Spans of closed thinking blocks in order; ``keep_open`` adds one that never closes."""
    blocks: list[tuple[int, int]] = []
    opened: int | None = 0  # a closing tag without an opening one closes the block the prompt opened
    explicit = False
    for tag in _THINK_TAG.finditer(text):
        if tag[1]:
            if opened is not None:
                blocks.append((opened, tag.start()))
            opened = None
        elif opened is None or not explicit:
            opened, explicit = tag.start(), True
    if keep_open and opened is not None and explicit:
        blocks.append((opened, len(text)))
    return blocks
