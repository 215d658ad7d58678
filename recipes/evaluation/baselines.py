"""What a picker that learned nothing picks: what a model has to beat on the same items."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...schemas.actions import Parsed

PICKERS = ("first", "most_common", "word_overlap")
# Every ASCII character that is no letter or digit parts words; all beyond ASCII counts as letters.
_PARTS = bytes(b if b >= 128 or chr(b).isalnum() else 32 for b in range(256))


def picks(task: str | None, parsed: Sequence[Parsed], action_index: Sequence[int], *, thoughts: bool) -> list[int]:
    """What each of PICKERS picks (0-based); of several that tie, the one that was sampled first.

    first: the first sample. most_common: the action that most candidates have. word_overlap: the action whose text,
    with the thought where it is shown, has most of the task's words, of all words of both.
    """
    distinct = sorted(set(action_index))
    asked = set(words(task or ""))

    def overlap(index: int) -> Fraction:
        found = words(f"{parsed[index].thought} {parsed[index].action}" if thoughts else parsed[index].action)
        both = len(asked.intersection(found))
        return Fraction(both, len(found) + len(asked) - both) if both else Fraction(0)

    return [0, max(distinct, key=list(action_index).count), max(distinct, key=overlap)]


def words(text: str) -> list[bytes]:
    """Words in order, without case."""
    return text.casefold().encode("utf-8", "surrogatepass").translate(_PARTS).split()
