"""Counters by path: what buckets count and the parent adds up, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
Counts = Counter[tuple[str, ...]]
NAMED = 20  # findings that are named; all are counted


def part(counts: Mapping[tuple[str, ...], int], *path: str) -> Counts:
    """The counters below ``path``, by the rest of their path."""
    return Counter({key[len(path) :]: n for key, n in counts.items() if key[: len(path)] == path})


def tree(counts: Mapping[tuple[str, ...], int]) -> Json:
    """Nested dictionaries with sorted keys."""
    made: Json = {}
    for path, n in sorted(counts.items()):
        inner = made
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = n
    return made


def rounded(value: float | Fraction) -> float:
    """Four significant digits: the last bits of a float are the machine's business."""
    return float(f"{float(value):.4g}")


def share(hits: int | Fraction, of: int) -> float | None:
    """``hits / of``, or None of nothing."""
    return rounded(Fraction(hits) / of) if of else None
