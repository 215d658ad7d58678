"""Intervals and tests over items that share states: items of one state are drawn together."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

DRAWS = 10_000
SEED = 0
_CELLS = 2_000_000  # drawn states at a time: 16 MB
METHOD = "95 % percentile bootstrap over {states} states, {draws} draws, seed {seed}"


class Column(NamedTuple):
    """A mean over items: right[i] of weight[i], such as 1 of 1, or 3 of 4 pairs of a set. Without weight, no part."""

    right: Sequence[float]
    weight: Sequence[float]

    @property
    def value(self) -> float | None:
        total = sum(self.weight)
        return sum(r for r, w in zip(self.right, self.weight, strict=True) if w) / total if total else None


class Interval(NamedTuple):
    low: float | None
    high: float | None


def intervals(states: Sequence[str], columns: Sequence[Column], draws: int = DRAWS) -> list[Interval]:
    """The 95 % interval of each column: states are drawn with replacement, as many as there are, with all their items.

    states: state of each item. All columns see the same draws, so that a difference of two is a column of its own.
    (None, None) with fewer than two states of weight.
    """
    names, place = np.unique(np.asarray(states, dtype=object).astype(str), return_inverse=True)
    count = len(names)
    if not columns or count < 2:
        return [Interval(None, None)] * len(columns)
    sums = np.zeros((count, 2 * len(columns)))  # (states, right and weight of each column)
    for number, column in enumerate(columns):
        weight = np.asarray(column.weight, float)
        np.add.at(sums[:, 2 * number], place, np.where(weight > 0, np.asarray(column.right, float), 0.0))
        np.add.at(sums[:, 2 * number + 1], place, weight)
    random = np.random.default_rng(SEED)
    found = np.empty((draws, 2 * len(columns)))
    step = max(1, _CELLS // count)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        drawn = random.integers(0, count, (size, count)) + count * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        found[start : start + size] = times @ sums
    return [
        _percentiles(found[:, 2 * number], found[:, 2 * number + 1], int((sums[:, 2 * number + 1] > 0).sum()))
        for number in range(len(columns))
    ]


def _percentiles(right: np.ndarray, weight: np.ndarray, states: int) -> Interval:
    if states < 2:
        return Interval(None, None)
    some = weight > 0
    low, high = np.percentile(right[some] / weight[some], [2.5, 97.5])
    return Interval(float(low), float(high))


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided exact p of two models that are equally often right where only one of them is: a fair coin thrown
    ``only_first + only_second`` times."""
    thrown, least = only_first + only_second, min(only_first, only_second)
    tail, term = 0, 1
    for heads in range(least + 1):
        tail += term  # comb(thrown, heads)
        term = term * (thrown - heads) // (heads + 1)
    return float(min(Fraction(1), Fraction(2 * tail, 2**thrown)))
