"""What people read on two cards, line by line: a person's words apart from what is generated."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ...cards.blocks import generated
from ...cards.dataset import words
from ...schemas.errors import ArmError
from .model import CardDiff, Lines

MAX_LINES = 400  # of a difference
MAX_COMPARED = 2_000  # lines of a text; the time for longer ones has no bound
MAX_WIDTH = 1_000  # characters of a line


def card_diff(before: str | None, after: str | None) -> CardDiff:
    """Compare two cards; no card is an empty one. The YAML at the head counts as far as a person wrote it."""
    if before == after:
        return CardDiff(Lines([]), Lines([]))
    try:
        said = ["\n".join(part for part in words(text or "") if part).splitlines() for text in (before, after)]
        made = [generated(text or "") or [] for text in (before, after)]
    except ArmError as error:  # broken markers, or a head that is no YAML: nobody can tell whose a line is
        whole = [(text or "").splitlines() for text in (before, after)]
        return CardDiff(_lines(*whole), Lines([]), f"compared as one text: {error.message}")
    return CardDiff(_lines(*said), _lines(*made))


def _lines(before: Sequence[str], after: Sequence[str]) -> Lines:
    if before == after:
        return Lines([])
    if max(len(before), len(after)) > MAX_COMPARED:
        return Lines([], left_out=max(len(before), len(after)))
    found = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]  # without file names
    found = [line for line in found if not line.startswith("@@")]
    shown = [line if len(line) <= MAX_WIDTH else f"{line[:MAX_WIDTH]}…" for line in found[:MAX_LINES]]
    return Lines(shown, len(found) - len(shown))
