"""Every figure on cases small enough to be counted by hand."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from action_reward_models.recipes.evaluation.metrics import BINS, calibration, recompute, task_set
from action_reward_models.schemas.validate import for_schema

from .answers import answered, pair, scored


def reports(predictions: list[dict[str, Any]], kind: str = "selection_arm", **stamp: Any) -> dict[str, dict[str, Any]]:
    for prediction in predictions:
        assert for_schema("eval_prediction/1").problems(prediction) == []
    found = recompute(predictions, kind, stamp, draws=200)["reports"]
    for report in found:
        assert for_schema("eval_report/1").problems(report) == []
    return {report["metric"]: report for report in found}


def values(report: dict[str, Any]) -> dict[str, float]:
    return {one["name"]: one["value"] for one in report["baselines"]}


# The reference is candidate 0 of three actions unless it is said otherwise.
SETS = [
    answered("right", 0, picks={"first": 0, "most_common": 1}),
    answered("near", 2, near=[2], picks={"first": 0, "most_common": 1}),
    answered("same action", 3, actions=(0, 1, 1, 0), picks={"first": 0, "most_common": 0}),
    answered("other", 1, reference=2, picks={"first": 0, "most_common": 2}),
    answered("silent", None, picks={"first": 0, "most_common": 1}),
]


def test_agreement_counts_equal_actions_and_those_that_are_near() -> None:
    found = reports(SETS)
    assert found["exact_agreement"]["value"] == 2 / 5
    assert found["equivalent_agreement"]["value"] == 3 / 5
    assert {(r["n"], r["n_valid"]) for r in found.values()} == {(5, 4)}  # a silent one is asked, and not right


def test_baselines_on_the_same_items() -> None:
    found = reports(SETS)
    # By lot among actions: 1 of 3, 1 of 3, 1 of 2, 1 of 3, 1 of 3; among samples the third is 2 of 4.
    assert values(found["exact_agreement"]) == pytest.approx(
        {"uniform": (4 / 3 + 1 / 2) / 5, "one_sample": (4 / 3 + 1 / 2) / 5, "first": 4 / 5, "most_common": 2 / 5},
        abs=1e-6,
    )
    near = values(found["equivalent_agreement"])  # of the second one, two of three are right
    assert near["uniform"] == pytest.approx((3 * 1 / 3 + 2 / 3 + 1 / 2) / 5, abs=1e-6)
    differs = {one["baseline"]: one["value"] for one in found["exact_agreement"]["differences"]}
    assert differs == pytest.approx({"uniform": 2 / 5 - 11 / 30, "one_sample": 2 / 5 - 11 / 30, "first": -2 / 5,
                                     "most_common": 0}, abs=1e-6)  # fmt: skip


def test_one_sample_counts_candidates_and_uniform_actions() -> None:
    found = reports([answered("a", 0, actions=(0, 0, 0, 3))])
    assert values(found["exact_agreement"]) == {"uniform": 0.5, "one_sample": 0.75}


def test_the_teacher_agrees_with_itself_where_it_was_asked_again() -> None:
    found = reports([
        answered("a", 1, repeats=(3, 1, 2)), answered("b", 0, repeats=(1, 1, 1)), answered("c", 0),
    ])  # fmt: skip
    exact, near = found["exact_agreement"], found["equivalent_agreement"]
    assert values(exact)["teacher_self_agreement"] == pytest.approx((1 / 3 + 1) / 2, abs=1e-6)
    assert values(near)["teacher_self_agreement"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-6)
    (differs,) = [one for one in exact["differences"] if one["baseline"] == "teacher_self_agreement"]
    assert differs["n"] == 2
    assert differs["value"] == pytest.approx((0 + 1) / 2 - (1 / 3 + 1) / 2, abs=1e-6)  # on those two alone


def test_nobody_repeats_nobody_is_asked_again() -> None:
    assert "teacher_self_agreement" not in values(reports(SETS)["exact_agreement"])


def test_consistency_is_the_same_action_in_every_order() -> None:
    found = recompute(
        [
            answered("same", 0), answered("same", 3, number=1, actions=(0, 1, 2, 0), order=[3, 2, 1]),
            answered("moves", 1), answered("moves", 2, number=1, order=[2, 1, 0]),
            answered("silent once", 1), answered("silent once", None, number=1, order=[1, 0, 2]),
            answered("silent", None), answered("silent", None, number=1),
            answered("one order", 0),
        ],
        "selection_arm", draws=100,
    )  # fmt: skip
    (consistency,) = [r for r in found["reports"] if r["metric"] == "consistency"]
    assert (consistency["value"], consistency["n"], consistency["n_valid"]) == (0.25, 4, 2)
    assert found["orders"] == 2
    assert found["items"] == 5  # an item is counted once, in the order of training
    assert found["outcomes"] == {"ok": 4, "unparsed": 1}


def test_slots_are_places_that_were_shown() -> None:
    found = recompute(
        [
            answered("a", 2, order=[2, 0, 1]), answered("a", 2, number=1, order=[0, 1, 2]),
            answered("b", None), answered("c", 1, actions=(0, 1), order=[0, 1]),
        ],
        "selection_arm", draws=100,
    )  # fmt: skip
    assert found["slots"] == [1, 1, 1]


def test_a_tie_at_the_top_is_an_outcome_and_no_pick() -> None:
    rows = [
        scored("tied", [1.0, 1.0, 0.5]),
        scored("one action twice", [2.0, 2.0, 0.0], actions=(0, 0, 2)),
        scored("wrong", [0.0, 3.0, 0.0]),
    ]
    found = reports(rows, "scalar")
    assert found["ties"]["value"] == pytest.approx(1 / 3, abs=1e-6)
    assert found["exact_agreement"]["value"] == pytest.approx(1 / 3, abs=1e-6)
    assert found["exact_agreement"]["n_valid"] == 2
    assert recompute(rows, "scalar", draws=50)["outcomes"] == {"ok": 2, "tie": 1}


def test_pairs_of_a_set_are_the_reference_against_every_other_action() -> None:
    rows = [
        scored("a", [2.0, 1.0, 2.0, 9.0, 3.0], near=[4], actions=(0, 1, 2, 0, 4)),  # beats 1, ties with 2; 3 is its own
        scored("b", [0.0, 1.0]),
        answered("long", None, status="too_long", scores=(1.0, None, 0.5)),  # one of its two pairs is not known
    ]
    found = reports(rows, "scalar")
    pairs = found["set_pair_accuracy"]
    assert pairs["value"] == pytest.approx((1 + 0.5 + 0 + 0 + 1) / 5, abs=1e-6)
    assert (pairs["n"], pairs["n_valid"]) == (5, 4)
    assert values(pairs) == {"uniform": 0.5}
    assert [one["n"] for one in pairs["differences"]] == [5]
    margin = found["set_margin"]
    assert margin["value"] == pytest.approx((1 + 0 - 1 + 0.5) / 4, abs=1e-6)


def test_pairs_of_the_table() -> None:
    rows = [
        pair("a", 2.0, 0.0), pair("b", 0.5, 1.0), pair("c", 1.0, 1.0, "other"), pair("d", None, 1.0, None),
        pair("e", 4.0, 1.0, None),
    ]  # fmt: skip
    found = reports(rows, "scalar", model_commit="c" * 40)
    assert list(found) == ["pair_accuracy", "margin", "calibration_error"]
    accuracy, margin = found["pair_accuracy"], found["margin"]
    assert accuracy["value"] == (1 + 0 + 0.5 + 0 + 1) / 5
    assert (accuracy["n"], accuracy["n_valid"]) == (5, 4)
    assert margin["value"] == (2 - 0.5 + 0 + 3) / 4
    assert accuracy["model_commit"] == "c" * 40
    assert "over 4 states" in accuracy["interval_method"]  # s, other, and two that stand for themselves
    assert "over 3 states" in margin["interval_method"]


def test_calibration_bins_the_preferred_side() -> None:
    bins = calibration([math.log(3), -math.log(3), 0.0, 800.0, -0.0001])
    assert len(bins) == BINS
    assert [one["n"] for one in bins] == [2, 0, 0, 0, 0, 2, 0, 0, 0, 1]
    assert (bins[0]["low"], bins[0]["high"], bins[-1]["high"]) == (0.5, 0.55, 1.0)
    assert (bins[5]["predicted"], bins[5]["observed"]) == (0.75, 0.5)  # sigmoid(log 3) = 3/4, once right
    assert bins[0]["observed"] == 0.25  # a tie counts half
    assert bins[9] == {"low": 0.95, "high": 1.0, "n": 1, "predicted": 1.0, "observed": 1.0}
    assert (bins[1]["predicted"], bins[1]["observed"]) == (None, None)


def test_the_calibration_error_weighs_bins_by_their_pairs() -> None:
    rows = [pair(f"{i}", math.log(3), 0.0) for i in range(3)] + [pair("x", 0.0, math.log(3))]  # sure of 3/4, 3/4 right
    assert reports(rows, "scalar")["calibration_error"]["value"] == pytest.approx(0.0, abs=1e-6)
    rows += [pair(f"y{i}", 0.0, 800.0) for i in range(4)]  # sure, and wrong
    found = reports(rows, "scalar")["calibration_error"]
    assert found["value"] == pytest.approx(0.5, abs=1e-6)
    assert (found["interval_low"], found["n"]) == (None, 8)


def test_without_pairs_sets_are_what_calibration_is_measured_on() -> None:
    rows = [scored("a", [1.0, 0.0, 0.0])]
    assert sum(one["n"] for one in recompute(rows, "scalar", draws=50)["calibration"]) == 2
    rows.append(pair("p", 1.0, 0.0))
    assert sum(one["n"] for one in recompute(rows, "scalar", draws=50)["calibration"]) == 1


def test_the_leading_metric_by_verb_host_and_turn() -> None:
    rows = [
        answered("a", 0, verb="click", host="b.test", turn=0), answered("b", 1, verb="click", host=None, turn=1),
        answered("c", 0, verb="type", host="b.test", turn=1),
    ]  # fmt: skip
    found = recompute(rows, "selection_arm", draws=50)["breakdown"]
    assert {one["metric"] for one in found} == {"exact_agreement"}
    assert [(one["by"], one["value"], one["n"], one["score"]) for one in found] == [
        ("verb", "click", 2, 0.5), ("verb", "type", 1, 1.0),
        ("host", "b.test", 2, 1.0), ("host", "not recorded", 1, 0.0),
        ("turn", "1", 2, 0.5), ("turn", "0", 1, 1.0),
    ]  # fmt: skip


def test_nothing_asked_is_nothing_measured() -> None:
    found = recompute([], "scalar")
    assert found["reports"] == found["breakdown"] == found["calibration"] == []
    assert (found["items"], found["states"], found["orders"]) == (0, 0, 0)


def test_figures_follow_from_the_items_and_not_from_their_order() -> None:
    dice = random.Random(2)
    rows = [answered(f"{i}", dice.choice([0, 1, 2, None]), state=f"s{i % 9}", near=[dice.choice([1, 2])])
            for i in range(40)]  # fmt: skip
    first = recompute(rows, "selection_arm", draws=300)
    dice.shuffle(rows)
    assert recompute(rows, "selection_arm", draws=300) == first
    assert first["states"] == 9


def test_the_set_of_items_has_a_name_of_its_own() -> None:
    found = reports([*SETS, *(pair(f"p{i}", 1.0, 0.0) for i in range(3))], "scalar", prompt_sha256="a" * 64)
    assert found["exact_agreement"]["task_set_sha256"] == task_set([row["item_id"] for row in SETS])
    assert found["pair_accuracy"]["task_set_sha256"] == task_set(["p2", "p0", "p1"])
    assert found["pair_accuracy"]["prompt_sha256"] == "a" * 64
    assert task_set(["a"]) != task_set(["b"])
