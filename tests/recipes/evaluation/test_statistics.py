"""Intervals and McNemar's test against formulas that share nothing with them."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from action_reward_models.recipes.evaluation import statistics
from action_reward_models.recipes.evaluation.comparing import compare
from action_reward_models.recipes.evaluation.statistics import Column, Interval, intervals, mcnemar

from .answers import answered, pair


def one(states: list[str], right: list[float], weight: list[float] | None = None, draws: int = 10_000) -> Interval:
    return intervals(states, [Column(right, weight or [1.0] * len(right))], draws)[0]


def test_the_interval_is_that_of_all_draws_there_are() -> None:
    """Four states have 4**4 draws: their exact 2.5th and 97.5th percentiles, on uneven states."""
    right = {"a": (2, 2), "b": (0, 1), "c": (1, 3), "d": (0, 2)}  # right, items
    means = sorted(
        sum(right[s][0] for s in drawn) / sum(right[s][1] for s in drawn)
        for drawn in itertools.product(right, repeat=4)
    )
    exact = np.percentile(means, [2.5, 97.5])
    states = [state for state, (_, n) in right.items() for _ in range(n)]
    values = [float(i < hits) for hits, n in right.values() for i in range(n)]
    assert one(states, values) == pytest.approx(tuple(exact), abs=0.03)


def test_it_is_as_wide_as_the_normal_one_where_that_holds() -> None:
    dice = random.Random(1)
    values = [float(dice.random() < 0.3) for _ in range(800)]
    low, high = one([f"s{i}" for i in range(800)], values)
    mean = sum(values) / 800
    half = 1.96 * math.sqrt(mean * (1 - mean) / 800)
    assert low == pytest.approx(mean - half, abs=0.004)
    assert high == pytest.approx(mean + half, abs=0.004)


def test_items_of_one_state_are_drawn_together() -> None:
    """Forty states of ten equal items are forty draws, not four hundred: the interval is as wide as that of forty."""
    values = [float(i % 2) for i in range(40)]
    alone = one([f"s{i}" for i in range(40)], values)
    together = one([f"s{i}" for i in range(40) for _ in range(10)], [v for v in values for _ in range(10)])
    apart = one([f"s{i}" for i in range(400)], [v for v in values for _ in range(10)])
    assert together == pytest.approx(alone, abs=1e-9)
    assert alone.high is not None
    assert alone.low is not None
    assert apart.high is not None
    assert apart.low is not None
    assert alone.high - alone.low > 2.5 * (apart.high - apart.low)


def test_it_covers_what_it_says() -> None:
    """Of 200 samples of 60 states, about 95 % have the true mean within their interval."""
    dice = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        low, high = one([f"s{i}" for i in range(60)], list((dice.random(60) < 0.5).astype(float)), draws=400)
        assert low is not None
        assert high is not None
        inside += low <= 0.5 <= high
    assert 0.88 <= inside / 200 <= 0.99


@pytest.mark.parametrize("seed", range(5))
def test_properties(seed: int) -> None:
    dice = random.Random(seed)
    n = dice.randrange(2, 60)
    states = [f"s{dice.randrange(max(2, n // 2))}" for _ in range(n)] + ["x", "y"]
    right = [float(dice.random() < 0.6) for _ in states]
    column = Column(right, [1.0] * len(right))
    other = Column([1 - value for value in right], column.weight)
    (low, high), mirrored, nothing = intervals(states, [column, other, Column([0.0] * len(right), column.weight)], 500)
    assert low is not None
    assert high is not None
    assert column.value is not None
    assert 0 <= low <= column.value <= high <= 1
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)  # the same draws for every column
    assert tuple(nothing) == (0, 0)
    renamed = [f"{state} of another name" for state in states]
    assert one(renamed, right, draws=500) == (low, high)


def test_items_without_weight_take_no_part() -> None:
    states = [f"s{i}" for i in range(30)]
    right, weight = [float(i % 3 == 0) for i in range(30)], [float(i < 20) for i in range(30)]
    low, high = one(states, right, weight)
    half = one(states[:20], right[:20])
    assert (low, high) == pytest.approx(half, abs=0.03)
    assert one(states, right, [0.0] * 30) == (None, None)
    assert Column(right, [0.0] * 30).value is None
    assert one(states, right, [1.0] + [0.0] * 29) == (None, None)  # one state says nothing of others


def test_one_state_has_no_interval() -> None:
    assert one(["a", "a", "a"], [1.0, 0.0, 1.0]) == (None, None)
    assert intervals([], []) == []


def test_how_many_draws_are_made_at_a_time_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    states, right = [f"s{i % 7}" for i in range(20)], [float(i % 2) for i in range(20)]
    whole = one(states, right, draws=1000)
    monkeypatch.setattr(statistics, "_CELLS", 7 * 13)
    assert one(states, right, draws=1000) == whole


# -- McNemar ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in range(7) for b in range(7)])
def test_mcnemar_counts_the_throws_of_a_coin(first: int, second: int) -> None:
    """Every sequence of throws, one by one: those at least as uneven as this one."""
    n = first + second
    uneven = abs(first - second)
    found = sum(abs(2 * sum(throws) - n) >= uneven for throws in itertools.product((0, 1), repeat=n))
    assert mcnemar(first, second) == pytest.approx(found / 2**n, abs=1e-12)
    assert mcnemar(second, first) == mcnemar(first, second)


def test_mcnemar_of_many_is_what_the_normal_law_says() -> None:
    expected = math.erfc((abs(560 - 440) - 1) / math.sqrt(1000) / math.sqrt(2))  # with the correction for continuity
    assert mcnemar(440, 560) == pytest.approx(expected, rel=0.02)
    assert mcnemar(0, 5000) == 0.0
    assert mcnemar(2500, 2500) == 1.0


def test_two_models_are_compared_on_what_both_were_asked() -> None:
    picks = {"a": 0, "b": 0, "c": 1, "d": None, "e": 0, "f": 0}
    first = [answered(name, pick) for name, pick in picks.items()]
    first += [answered("a", 1, number=1), pair("p", 1.0, 0.0), pair("q", 1.0, 1.0)]
    picks = {"a": 0, "b": 2, "c": 0, "d": 0, "g": 0}
    second = [answered(name, pick) for name, pick in picks.items()]
    second += [answered("f", 0, reference=1), pair("p", 0.0, 1.0), pair("q", 0.0, 1.0)]
    found = compare(first, second, draws=500)
    exact, near, pairs = found["metrics"]
    assert (found["only_first"], found["only_second"], found["other_reference"]) == (1, 1, 1)  # e, g, f
    assert (exact["metric"], exact["n"]) == ("exact_agreement", 4)
    assert (exact["first"], exact["second"], exact["difference"]) == (0.5, 0.75, 0.25)
    assert (exact["only_first"], exact["only_second"], exact["p"]) == (1, 2, 1.0)
    assert exact["low"] <= exact["difference"] <= exact["high"]
    assert near["metric"] == "equivalent_agreement"
    assert (pairs["first"], pairs["second"], pairs["only_first"], pairs["only_second"]) == (0.75, 0.0, 1, 0)


def test_near_counts_where_it_is_asked_for() -> None:
    first, second = ([answered(f"{i}", pick, near=[2]) for i in range(6)] for pick in (2, 0))
    exact, near = compare(first, second, draws=100)["metrics"]
    assert (exact["difference"], exact["p"]) == (1.0, 2 / 64)
    assert (near["difference"], near["p"]) == (0.0, 1.0)


def test_nothing_in_common() -> None:
    assert compare([answered("a", 0)], [answered("b", 0)]) == {
        "metrics": [], "only_first": 1, "only_second": 1, "other_reference": 0,
    }  # fmt: skip
