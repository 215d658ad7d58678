"""Orders in which the candidates of a set are shown, so that an answer does not hang on the place of a candidate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..schemas.ids import hash_order


def several(set_id: str, first: Sequence[int], most: int) -> Iterator[list[int]]:
    """Up to ``most`` different orders of the candidates in ``first`` (0-based): that one, then others by hash of the
    set's id. Of two candidates there are two."""
    seen: set[tuple[int, ...]] = set()
    possible = 1
    for number in range(2, len(first) + 1):
        possible *= number
    tried = 0
    while len(seen) < min(most, possible):
        order = tuple(first)
        if tried:
            order = tuple(sorted(first, key=lambda index: hash_order("asked", set_id, tried, index)))
        tried += 1
        if order not in seen:
            seen.add(order)
            yield list(order)
