"""Conversations that begin alike: which of them share a beginning, and which of those fit into one run of a model.

The candidates of a set are scored in conversations that differ in their last turn only. A model that has read what
they share once can go on from there with each of them: of five candidates after a long prompt it reads the prompt once
and not five times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .processor import Encoded

WORTH = 8  # sharing has to save an eighth of the tokens that it is about; below that it costs more than it saves
WASTED = (
    0.25  # of what several families read in runs of their own, so much more in one: beginnings are cut, ends padded
)


@dataclass(frozen=True)
class Family:
    """Conversations that begin alike, and show the same pictures.

    rows: their places. common: so many first tokens are the same in all; every one has more. All pictures lie within
    the first ``least`` tokens, so the beginning that is run once may be cut down to those. lengths: in tokens.
    """

    rows: tuple[int, ...]
    common: int
    least: int
    lengths: tuple[int, ...]

    def cost(self, common: int | None = None) -> int:
        """Tokens that a model reads when it reads the first ``common`` once."""
        common = self.common if common is None else common
        return common + sum(self.lengths) - len(self.lengths) * common


def families(rows: Sequence[Encoded], sets: Sequence[Sequence[int]], picture: int) -> tuple[list[Family], list[int]]:
    """Families of two conversations and more, and the places of those that are better read alone.

    sets: places of ``rows`` that are known to belong together, each place once. picture: id of the token that stands
    for a part of a picture. What only one conversation of a family shows is never part of its beginning.
    """
    found = []
    for places in sets:
        seen: dict[tuple[str, ...], list[int]] = {}
        for place in places:
            seen.setdefault(rows[place].pictures_sha256, []).append(place)
        for alike in seen.values():
            family = _family(rows, alike, picture)
            found += [family] if _worth(family) else [_family(rows, [place], picture) for place in alike]
    found.sort(key=lambda family: (rows[family.rows[0]].pictures_sha256, rows[family.rows[0]].input_ids))
    joined: list[Family] = []
    for family in found:  # those that begin alike lie side by side
        if joined and (both := _join(rows, joined[-1], family)):
            joined[-1] = both
        else:
            joined.append(family)
    several = [family for family in joined if len(family.rows) > 1]
    return several, sorted(family.rows[0] for family in joined if len(family.rows) == 1)


def together(found: Sequence[Family], tokens: int) -> Iterator[tuple[list[Family], int]]:
    """Yield families that fit into one run, with the length that their beginnings are cut down to, the longest first.

    A run holds the beginnings twice, once to be copied from, and each conversation whole: all of that in ``tokens``,
    unless it is one family alone, whose conversations then go on in several `pieces`.
    """
    batch: list[Family] = []
    for family in sorted(found, key=lambda one: (-one.common, one.rows)):
        if batch and not _fits([*batch, family], tokens):
            yield batch, batch[-1].common
            batch = []
        batch.append(family)
    if batch:
        yield batch, batch[-1].common


def pieces(rows: Sequence[Encoded], places: Sequence[int], beginnings: int, tokens: int) -> Iterator[list[int]]:
    """Yield the places of conversations that go on at once, the longest first: as many as fit into ``tokens`` beside
    ``beginnings``, the tokens of what they go on from, which are held twice; one always does."""
    piece: list[int] = []
    for place in sorted(places, key=lambda at: (-len(rows[at].input_ids), at)):
        longest = len(rows[piece[0]].input_ids) if piece else 0
        if piece and 2 * beginnings + longest * (len(piece) + 1) > tokens:
            yield piece
            piece = []
        piece.append(place)
    if piece:
        yield piece


def _family(rows: Sequence[Encoded], places: Sequence[int], picture: int) -> Family:
    ids = [rows[place].input_ids for place in places]
    lengths = tuple(map(len, ids))
    common = min(_common(min(ids), max(ids)), min(lengths) - 1)
    least = max(_end(one, picture) for one in ids)
    return Family(tuple(places), common, least, lengths)


def _join(rows: Sequence[Encoded], one: Family, other: Family) -> Family | None:
    """Both as one family, where that saves enough."""
    first, second = rows[one.rows[0]], rows[other.rows[0]]
    if first.pictures_sha256 != second.pictures_sha256:
        return None
    common = min(one.common, other.common, _common(first.input_ids, second.input_ids))
    both = Family(one.rows + other.rows, common, max(one.least, other.least), one.lengths + other.lengths)
    saved = one.cost() + other.cost() - both.cost()
    return both if common >= both.least and saved * WORTH >= min(one.cost(), other.cost()) else None


def _worth(family: Family) -> bool:
    return family.common >= family.least and (sum(family.lengths) - family.cost()) * WORTH >= sum(family.lengths)


def _fits(batch: Sequence[Family], tokens: int) -> bool:
    """Whether the families of ``batch``, the last of which has the shortest beginning, are run at once."""
    common, longest = batch[-1].common, max(max(family.lengths) for family in batch)
    count = sum(len(family.rows) for family in batch)
    held = 2 * len(batch) * common + count * longest
    read = len(batch) * common + count * (longest - common)
    cut_too_far = any(family.least > common for family in batch)
    alone = sum(one.common + len(one.rows) * (max(one.lengths) - one.common) for one in batch)
    return not cut_too_far and held <= tokens and read <= (1 + WASTED) * alone


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """So many first tokens are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _end(ids: Sequence[int], picture: int) -> int:
    """Where the last picture ends; 1 without one, for a beginning holds a token."""
    places = [at for at, token in enumerate(ids) if token == picture]
    return places[-1] + 1 if places else 1
