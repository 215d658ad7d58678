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
    - Objects in a closed thinking block (``<think>..</think>``, also when the opening tag was part of the prompt) are
      drafts: with an object outside, only those outside count. With finish_reason ``length`` drafts never count, nor
      do objects in a thinking block that is still open: the verdict was cut away -> truncated.
    - One object with two ``selection`` keys of different value -> ambiguous.
    - Two or more distinct integers in 1..n -> ambiguous; exactly one -> ok, whatever else the objects hold.
    - Only integers outside 1..n -> out_of_range.
    - Only other values (``2.0``, ``"third"``, true, null, a list, an object) -> unparsed. ``"3"`` is 3; digits are
      ASCII, without sign +, leading zeros or spaces.
    - No value: the text ends inside an object, or finish_reason is ``length`` -> truncated; otherwise -> unparsed.

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
    drafts, final = _split_drafts(text, found, was_cut)
    if was_cut and not final:
        return Reply("truncated", detail="finish_reason length before a verdict")
    return _judge(final or drafts, n, cut or was_cut)


def _judge(found: list[Verdict], n: int, cut: bool) -> Reply:
    if any(v.conflict for v in found):
        return Reply("ambiguous", detail="one object has two selection keys that differ")
    numbers = {v.number for v in found if v.number is not None}
    fitting = sorted(k for k in numbers if 1 <= k <= n)
    if len(fitting) > 1:
        return Reply("ambiguous", detail=f"selections {', '.join(map(str, fitting))}")
    if fitting:
        whole = any(v.complete and v.number == fitting[0] for v in found)
        return Reply("ok", fitting[0], salvaged=not whole)
    if numbers:
        return Reply("out_of_range", detail=f"selection {min(numbers)} of 1..{n}")
    if any(v.valued for v in found):
        return Reply("unparsed", detail="selection is not an integer")
    if cut:
        return Reply("truncated", detail="the text ends before a selection")
    return Reply("unparsed", detail="no JSON object with a selection")


def _split_drafts(text: str, found: list[Verdict], was_cut: bool) -> tuple[list[Verdict], list[Verdict]]:
    blocks = _thinking_blocks(text, was_cut)
    starts = [start for start, _ in blocks]
    drafts: list[Verdict] = []
    final: list[Verdict] = []
    for verdict in found:
        before = bisect_right(starts, verdict.start) - 1
        inside = before >= 0 and verdict.end <= blocks[before][1]
        (drafts if inside else final).append(verdict)
    return drafts, final


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
