"""Two models on the items that both were asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import statistics
from .metrics import DIGITS, Prediction, state_of, task_set
from .statistics import Column

_SAME = ("reference_index", "action_index", "near_index")  # of what is asked and what counts as right
METRICS = (("exact_agreement", "set", "exact"), ("equivalent_agreement", "set", "equivalent"),
           ("pair_accuracy", "pair", "exact"))  # fmt: skip


def compare(first: Sequence[Prediction], second: Sequence[Prediction], draws: int = statistics.DRAWS) -> dict[str, Any]:
    """What two sets of predictions say of the items that both have, each in its recorded order.

    Per metric: values on those items, second less first with its 95 % interval over states, on how many items only one
    of them is right (a tie is not right), and the exact p of McNemar's test, which takes items for independent.
    only_first, only_second: items that the other was not asked about. other_reference: items that both have and that
    are judged differently, which are not compared.
    """
    held = [{(p["unit"], p["item_id"]): p for p in side if p["order_index"] == 0} for side in (first, second)]
    both = [key for key in held[0] if key in held[1]]
    alike = [key for key in both if all(held[0][key][name] == held[1][key][name] for name in _SAME)]
    made = []
    for name, unit, how in METRICS:
        keys = [key for key in alike if key[0] == unit]
        if keys:
            made.append(_metric(name, [held[0][key] for key in keys], [held[1][key] for key in keys], how, draws))
    return {
        "metrics": made,
        "only_first": len(held[0].keys() - held[1].keys()),
        "only_second": len(held[1].keys() - held[0].keys()),
        "other_reference": len(both) - len(alike),
    }


def _metric(
    name: str, first: Sequence[Prediction], second: Sequence[Prediction], how: str, draws: int
) -> dict[str, Any]:
    right = [[_right(p, how) for p in side] for side in (first, second)]
    ones = [1.0] * len(first)
    difference = Column([b - a for a, b in zip(*right, strict=True)], ones)
    states = [state_of(p) for p in first]
    (interval,) = statistics.intervals(states, [difference], draws)
    whole = [[value == 1.0 for value in side] for side in right]
    only_first = sum(a and not b for a, b in zip(*whole, strict=True))
    only_second = sum(b and not a for a, b in zip(*whole, strict=True))
    values: Mapping[str, float | None] = {
        "first": Column(right[0], ones).value,
        "second": Column(right[1], ones).value,
        "difference": difference.value,
        "low": interval.low,
        "high": interval.high,
    }
    return {
        "metric": name,
        "n": len(first),
        **{key: None if value is None else round(value, DIGITS) for key, value in values.items()},
        "only_first": only_first,
        "only_second": only_second,
        "p": statistics.mcnemar(only_first, only_second),
        "task_set_sha256": task_set([p["item_id"] for p in first]),
    }


def _right(prediction: Prediction, how: str) -> float:
    if prediction["unit"] == "pair" and prediction["status"] == "tie":
        return 0.5  # as pair_accuracy counts it
    return float(bool(prediction[how]))
