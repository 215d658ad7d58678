"""Scores of candidates whose common beginning is read once are those of whole conversations, for less; faults in that
are told at first use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_reward_models.tests.inference import process

ROUNDING = 1e-5  # of float32 over sums in another order; scores have a standard deviation of about 0.5


def explored(folder: Path, step: str, count: int) -> Any:
    return process.run("sharing", step, folder, process.base(), process.base(sees=False), count)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process found out; see `sharing`."""
    return explored(tmp_path_factory.mktemp("shared"), "explore", 3)


def compared(of: dict[str, Any]) -> None:
    assert of["spread"] > 0.2
    for way, apart in of["apart"].items():
        assert apart < ROUNDING, way
    assert of["read"]["shared"] < 0.8 * of["read"]["whole"]


@pytest.mark.parametrize("family", ["hybrid", "qwen3_vl", "text"])
def test_scores_are_those_of_whole_conversations(found: Any, family: str) -> None:
    compared(found["compare"][family])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", ["hybrid", "attention", "qwen3_vl", "text"])
def test_scores_of_many_sets_are_those_of_whole_conversations(tmp_path: Path, family: str) -> None:
    """200 sets; of one family 1,000 candidates of one set, and of the class that is ours every layout."""
    told = explored(tmp_path, family, 200)
    of = told["compare"][family]
    compared(of)
    assert of["scores"] > 500
    sees = [False] if family == "text" else [False, True]
    assert of["checked"] == [[pictures, several] for pictures in sees for several in (False, True)]
    if family == "hybrid":
        bounded(told["bound"], 1000)
    if family == "qwen3_vl":
        found = told["layouts"]
        for one, other in (("adapter", "merged"), ("adapter", "unpadded"), ("value_head", "without_lora")):
            assert found[one] == pytest.approx(found[other], abs=ROUNDING), one
        assert found["adapter"] != pytest.approx(found["without_lora"], abs=0.01)


@pytest.mark.parametrize("family", ["hybrid", "qwen3_vl", "text"])
def test_a_fault_that_changes_scores_is_told_at_first_use(found: Any, family: str) -> None:
    cases = found["planted"][family]
    assert set(cases) >= {"stale", "late", "swapped"}
    for name, case in cases.items():
        assert case["apart"] > 0.01, name
        assert "gives another state at the scored token" in case["told"], name
        assert "next: shared=False" in case["told"], name


def test_in_bfloat16_rounding_is_no_fault_and_a_fault_is(found: Any) -> None:
    assert 0 < found["halves"]["apart"] < 0.1
    told = found["halves"]["told"]
    for name in ("stale", "restart", "plain_count", "swapped"):
        assert "gives another state at the scored token" in told[name], name
    assert "puts what follows it at other positions than reading a whole conversation: from [" in told["late"]


def bounded(of: dict[str, Any], count: int) -> None:
    assert of["apart"] < ROUNDING
    beginnings, read, _ = of["first"]
    assert beginnings == 1
    assert sum(count for count, *_ in of["others"]) == count
    assert max(held for *_, held in of["others"]) + 2 * read <= 1024
    assert read + sum(read for _, read, _ in of["others"]) < of["whole"] / 5


def test_candidates_go_on_in_pieces_that_fit_into_memory(found: Any) -> None:
    bounded(found["bound"], 60)


def test_nothing_is_left_of_one_set_when_the_next_is_scored(found: Any) -> None:
    assert min(found["leaks"]["sets"]) > 1
    assert found["leaks"]["same"]


def test_what_differs_early_is_read_whole_and_what_begins_alike_in_other_sets_is_not(found: Any) -> None:
    of = found["edges"]
    for name in ("in_reply", "other_sight", "alone"):
        assert of[name]["apart"] < ROUNDING, name
    assert of["in_reply"]["read"] == of["in_reply"]["whole"]  # a picture that comes after the first difference
    for name in ("other_sight", "alone"):
        assert of[name]["read"] < 0.8 * of[name]["whole"], name


def test_conversations_that_a_model_cannot_tell_apart_have_one_score(found: Any) -> None:
    assert found["edges"]["twice"] == [True, True, False]
    assert found["edges"]["none"] == [[], [[], []]]


def test_the_check_is_made_once_and_changes_nothing(found: Any) -> None:
    first, second, without, whole = found["edges"]["runs"]
    assert first == [1, 4, 4, 4]  # the beginning, all that go on, those of the check again, and whole
    assert second == without == [1, 4]
    assert whole == [4]
    assert found["edges"]["check_changes_nothing"]


def test_what_cannot_be_scored_is_named_with_its_set(found: Any) -> None:
    assert "conversation 1 of set 1 has 6,0" in found["edges"]["long"]
    assert found["edges"]["damaged"] == "the score of conversation 0 of set 0 is nan; the weights are damaged"
