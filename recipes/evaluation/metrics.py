"""Every figure of an evaluation, from its predictions alone: whoever has those can compute it again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...schemas.ids import canonical_json, sha256_hex
from . import statistics
from .statistics import Column

Prediction = Mapping[str, Any]  # eval_prediction/1
BINS = 10  # of the probability that a scalar model gives the side that it prefers, 0.5 to 1
SELF_AGREEMENT = "teacher_self_agreement"
DIGITS = 6  # of every published figure


@dataclass(frozen=True)
class Metric:
    """states, ids: of each item. column: its mean is the value. valid: items with an ok outcome.

    baselines: columns over the same items; weight 0 where a baseline has no value.
    """

    name: str
    states: Sequence[str]
    ids: Sequence[str]
    column: Column
    valid: int
    count: int
    baselines: Mapping[str, Column] = field(default_factory=dict)


def recompute(
    predictions: Sequence[Prediction], kind: str, stamp: Mapping[str, Any] | None = None, draws: int = statistics.DRAWS
) -> dict[str, Any]:
    """The part of an evaluation (`model_manifest/1`) that follows from its predictions.

    kind: selection_arm or scalar. stamp: protocol_sha256, prompt_sha256, dataset_commit, model_commit of the reports.
    """
    sets = [p for p in predictions if p["unit"] == "set" and p["order_index"] == 0]
    pairs = [p for p in predictions if p["unit"] == "pair"]
    asked = [p for p in predictions if p["unit"] == "set"]
    found = _set_metrics(sets) if sets else []
    differences: list[float] = []
    if kind == "selection_arm":
        found += [_consistency(asked)] if any(p["order_index"] for p in asked) else []
    else:
        found, differences = _scalar_metrics(found, sets, pairs)
    bins = calibration(differences)
    reports = [r for population in _by_population(found) for r in _reports(population, stamp or {}, draws)]
    if differences:
        gap = sum(one["n"] * abs(one["predicted"] - one["observed"]) for one in bins if one["n"]) / len(differences)
        name, whose = ("calibration_error", pairs or sets)
        reports.append(
            _report(name, gap, len(differences), len(differences), [p["item_id"] for p in whose], stamp or {})
        )
    return {
        "items": len(sets),
        "pairs": len(pairs),
        "states": len({state_of(p) for p in (*sets, *pairs)}),
        "orders": max((p["order_index"] + 1 for p in asked), default=0),
        "outcomes": dict(sorted(Counter(p["status"] for p in sets).items())),
        "slots": slots(asked) if kind == "selection_arm" else [],
        "reports": reports,
        "breakdown": breakdown(found[0], sets or pairs) if found else [],
        "calibration": bins if differences else [],
    }


# -- sets ----------------------------------------------------------------------------------------------------------


def _set_metrics(sets: Sequence[Prediction]) -> list[Metric]:
    """exact_agreement and equivalent_agreement: an item without an ok outcome agrees with nothing."""
    return [_agreement(sets, how) for how in ("exact", "equivalent")]


def _agreement(sets: Sequence[Prediction], how: str) -> Metric:
    ones = [1.0] * len(sets)
    same = [_same(p, how) for p in sets]
    actions = [p["action_index"] for p in sets]
    distinct = [len({a[i] for i in s}) / len(set(a)) for a, s in zip(actions, same, strict=True)]
    sampled = [len(s) / len(a) for a, s in zip(actions, same, strict=True)]
    # By lot among the different actions, and among the candidates as they were sampled: the policy alone.
    baselines = {"uniform": Column(distinct, ones), "one_sample": Column(sampled, ones)}
    for name in dict.fromkeys(pick["name"] for p in sets for pick in p["picks"]):
        picks = [{pick["name"]: pick["index"] for pick in p["picks"]}.get(name) for p in sets]
        baselines[name] = Column(
            [float(pick in s) for pick, s in zip(picks, same, strict=True)], [float(pick is not None) for pick in picks]
        )
    if any(p["repeats"]["pairs"] for p in sets):
        asked = [p["repeats"] for p in sets]
        baselines[SELF_AGREEMENT] = Column(
            [r[how] / r["pairs"] if r["pairs"] else 0.0 for r in asked], [float(r["pairs"] > 0) for r in asked]
        )
    right = [float(bool(p[how])) for p in sets]
    return _metric(f"{how}_agreement", sets, Column(right, ones), baselines)


def _same(prediction: Prediction, how: str) -> set[int]:
    """Candidates that would agree with the reference."""
    actions = prediction["action_index"]
    same = {i for i, action in enumerate(actions) if action == actions[prediction["reference_index"]]}
    return same if how == "exact" else same | set(prediction["near_index"])


def _consistency(asked: Sequence[Prediction]) -> Metric:
    """Share of the sets that were shown in several orders in which the same action was picked in all of them."""
    by_item: dict[str, list[Prediction]] = {}
    for prediction in asked:
        by_item.setdefault(prediction["item_id"], []).append(prediction)
    several = [found for found in by_item.values() if len(found) > 1]
    picked = [{_action(p) for p in found} for found in several]
    right = [float(len(actions) == 1 and None not in actions) for actions in picked]
    firsts = [min(found, key=lambda p: int(p["order_index"])) for found in several]
    valid = sum(None not in actions for actions in picked)
    return _metric("consistency", firsts, Column(right, [1.0] * len(firsts)), {}, valid)


def _action(prediction: Prediction) -> int | None:
    picked = prediction["predicted_index"]
    return None if picked is None else int(prediction["action_index"][picked])


def slots(asked: Sequence[Prediction]) -> list[int]:
    """How often each shown place was picked, over all orders."""
    found = [0] * max((len(p["order"]) for p in asked), default=0)
    for prediction in asked:
        if prediction["predicted_index"] is not None:
            found[prediction["order"].index(prediction["predicted_index"])] += 1
    return found


# -- scores --------------------------------------------------------------------------------------------------------


def _scalar_metrics(
    found: list[Metric], sets: Sequence[Prediction], pairs: Sequence[Prediction]
) -> tuple[list[Metric], list[float]]:
    """The metrics of a scalar model, and the differences of scores that its calibration is measured on: of the pairs of
    the table; without any, of the reference against every other action of its set."""
    ties = [float(p["status"] == "tie") for p in sets]
    if sets:
        found.append(_metric("ties", sets, Column(ties, [1.0] * len(sets)), {}))
    tables = {
        "pair_accuracy": (pairs, [[_difference(p, 0, 1)] for p in pairs]),
        "set_pair_accuracy": (sets, [_set_differences(p) for p in sets]),
    }
    measured: list[float] = []
    for name, (rows, differences) in tables.items():
        if not rows:
            continue
        weight = [float(len(several)) for several in differences]
        right = [sum(_won(d) for d in several) for several in differences]
        known = [[d for d in several if d is not None] for several in differences]
        valid, count = sum(map(len, known)), sum(map(len, differences))
        coin = {"uniform": Column([w / 2 for w in weight], weight)}
        found.append(_metric(name, rows, Column(right, weight), coin, valid, count))
        margin = Column([sum(several) for several in known], [float(len(several)) for several in known])
        found.append(_metric(name.replace("pair_accuracy", "margin"), rows, margin, {}, valid, count))
        measured = measured or [d for several in known for d in several]
    return found, measured


def _won(difference: float | None) -> float:
    """A tie counts half; a pair that could not be scored counts nothing."""
    return 0.0 if difference is None else 0.5 if difference == 0 else float(difference > 0)


def _difference(prediction: Prediction, chosen: int, other: int) -> float | None:
    first, second = (prediction["scores"][i] if prediction["scores"] else None for i in (chosen, other))
    return None if first is None or second is None else float(first - second)


def _set_differences(prediction: Prediction) -> list[float | None]:
    """Score of the reference less that of each other action of the set, which its first candidate stands for; actions
    that are near_coordinates to the reference are no other ones."""
    others = sorted(set(prediction["action_index"]) - _same(prediction, "equivalent"))
    return [_difference(prediction, prediction["reference_index"], other) for other in others]


def calibration(differences: Sequence[float]) -> list[dict[str, Any]]:
    """Bins of the probability that the preferred side of a pair gets."""
    bins: list[list[tuple[float, float]]] = [[] for _ in range(BINS)]
    for difference in differences:
        sure = 1 / (1 + math.exp(-min(abs(difference), 700.0)))
        bins[min(int((sure - 0.5) * 2 * BINS), BINS - 1)].append((sure, _won(difference)))
    return [
        {
            "low": round(0.5 + number / (2 * BINS), DIGITS),
            "high": round(0.5 + (number + 1) / (2 * BINS), DIGITS),
            "n": len(found),
            "predicted": _rounded(_mean([sure for sure, _ in found])),
            "observed": _rounded(_mean([won for _, won in found])),
        }
        for number, found in enumerate(bins)
    ]


# -- reports -------------------------------------------------------------------------------------------------------


def breakdown(metric: Metric, predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """The leading metric by verb, host and turn; groups in the order of their items."""
    found = []
    for by in ("verb", "host", "turn"):
        groups: dict[str, list[int]] = {}
        for place, prediction in enumerate(predictions):
            value = prediction[by]
            groups.setdefault("not recorded" if value is None else str(value), []).append(place)
        for value, places in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
            part = Column([metric.column.right[i] for i in places], [metric.column.weight[i] for i in places])
            if part.value is not None:
                found.append({"by": by, "value": value, "n": len(places), "metric": metric.name,
                              "score": round(part.value, DIGITS)})  # fmt: skip
    return found


def _metric(
    name: str, rows: Sequence[Prediction], column: Column, baselines: Mapping[str, Column], valid: int | None = None,
    count: int | None = None,
) -> Metric:  # fmt: skip
    ok = sum(p["status"] == "ok" for p in rows) if valid is None else valid
    ids = [p["item_id"] for p in rows]
    return Metric(name, [state_of(p) for p in rows], ids, column, ok, len(rows) if count is None else count, baselines)


def state_of(prediction: Prediction) -> str:
    """A pair that came ready-made, without a state, stands for itself."""
    return str(prediction["state_id"] or f"\n{prediction['item_id']}")


def _by_population(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """Metrics over the same items, which are drawn together; in their order."""
    found: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        found.setdefault(tuple(metric.ids), []).append(metric)
    return list(found.values())


def _reports(metrics: Sequence[Metric], stamp: Mapping[str, Any], draws: int) -> list[dict[str, Any]]:
    columns = [
        column
        for metric in metrics
        for column in (metric.column, *(_less(metric.column, other) for other in metric.baselines.values()))
    ]
    found = iter(statistics.intervals(metrics[0].states, columns, draws))
    made = []
    for metric in metrics:
        own, others = next(found), {name: next(found) for name in metric.baselines}
        report = _report(metric.name, metric.column.value, metric.count, metric.valid, metric.ids, stamp)
        if own.low is not None:
            states = len({s for s, w in zip(metric.states, metric.column.weight, strict=True) if w})
            method = statistics.METHOD.format(states=states, draws=draws, seed=statistics.SEED)
            report |= {
                "interval_low": _rounded(own.low),
                "interval_high": _rounded(own.high),
                "interval_method": method,
            }
        for name, column in metric.baselines.items():
            value = column.value
            if value is not None:
                report["baselines"].append({"name": name, "value": round(value, DIGITS)})
            report["differences"].append({
                "baseline": name,
                "n": int(sum(column.weight)),  # of what the metric counts: pairs, where that is pairs
                "value": _rounded(_less(metric.column, column).value),
                "low": _rounded(others[name].low),
                "high": _rounded(others[name].high),
            })  # fmt: skip
        made.append(report)
    return made


def _less(column: Column, other: Column) -> Column:
    """The difference, on the items that the other has a value of."""
    right = [a - b if w else 0.0 for a, b, w in zip(column.right, other.right, other.weight, strict=True)]
    return Column(right, other.weight)


def _report(
    name: str, value: float | None, n: int, valid: int, ids: Sequence[str], stamp: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "metric": name,
        "value": _rounded(value),
        "n": n,
        "n_valid": valid,
        "interval_low": None,
        "interval_high": None,
        "interval_method": None,
        "baselines": [],
        "differences": [],
        "judge": None,
        "protocol_sha256": stamp.get("protocol_sha256"),
        "prompt_sha256": stamp.get("prompt_sha256"),
        "task_set_sha256": task_set(ids),
        "dataset_commit": stamp.get("dataset_commit"),
        "model_commit": stamp.get("model_commit"),
    }


def task_set(ids: Sequence[str]) -> str:
    """sha256 over the ids of what was asked, sorted."""
    return sha256_hex(canonical_json(sorted(set(ids))))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
