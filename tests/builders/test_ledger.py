"""The account: a closed vocabulary of reasons, and no unit gets lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.ledger import REASONS, UNITS, Ledger, account
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.store import load

if TYPE_CHECKING:
    from tests.builders.conftest import Toy


def test_a_reason_outside_the_vocabulary_is_refused() -> None:
    rows: list[dict[str, Any]] = []
    ledger = Ledger(rows.append)
    with pytest.raises(ArmError, match="'bad_luck' is not a reason of the stage states; known are invalid_record"):
        ledger.exclude("states", "states", "s", "bad_luck")
    assert rows == []
    assert not ledger.excluded


def test_a_reason_belongs_to_its_stage() -> None:
    with pytest.raises(ArmError, match="'duplicate_loser' is not a reason of the stage selection_sft"):
        Ledger(lambda row: None).exclude("selection_sft", "teacher_labels", "l", "duplicate_loser")


def test_every_outcome_of_a_label_without_a_pick_is_a_reason() -> None:
    outcomes = set(load("teacher_label/1")["properties"]["status"]["enum"]) - {"ok"}
    assert len(outcomes) > 8
    assert outcomes <= set(REASONS["selection_sft"])


def test_every_exclusion_is_a_row_and_a_count() -> None:
    rows: list[dict[str, Any]] = []
    ledger = Ledger(rows.append)
    ledger.exclude("bt_pairs", "comparisons", "l|1", "scroll_amount", status="quarantined")
    assert ledger.excluded == {("bt_pairs", "scroll_amount", "quarantined"): 1}
    assert rows == [
        {
            "stage": "bt_pairs", "source_table": "comparisons", "source_id": "l|1",
            "reason": "scroll_amount", "detail": "", "status": "quarantined",
        }
    ]  # fmt: skip


def test_a_lost_unit_is_a_defect() -> None:
    with pytest.raises(ArmError, match="states: 3 assistant turns went in, but 1 came out and 1 were excluded"):
        account({"states": 3}, {"states": 1}, {("states", "truncated", "dropped"): 1})


def test_a_unit_out_of_nowhere_is_a_defect() -> None:
    with pytest.raises(ArmError, match="this is a defect of the builder"):
        account({"states": 1}, {"states": 2}, {})


def test_the_account_says_its_units_and_adds_up_statuses() -> None:
    found = account(
        {"bt_pairs": 5},
        {"bt_pairs": 2},
        {("bt_pairs", "identical", "dropped"): 1, ("bt_pairs", "wait_duration", "quarantined"): 2},
    )
    assert list(UNITS) == list(REASONS)
    assert list(found) == ["states", "candidate_sets", "teacher_labels", "coverage", "selection_sft", "bt_pairs"]
    assert found["bt_pairs"] == {
        "unit": "comparisons",
        "in": 5,
        "out": 2,
        "excluded": {"identical": 1, "wait_duration": 2},
        "status": {"dropped": 1, "quarantined": 2},
    }


def test_units_of_a_build(toy: Toy) -> None:
    """States count assistant turns, selection_sft counts labels, bt_pairs counts (label, loser) comparisons."""
    first, again = toy.message("user", "Task: x", 1), toy.message("tool", "moved", 2)
    said = toy.message("assistant", toy.response("click(1, 1)"))
    toy.episode("e", first, said, again, said)
    toy.label(toy.draw("e__t0", "click(1, 1)", "click(7, 7)", "stop()"), 0)
    ledger = toy.build().identity["ledger"]
    assert {stage: (ledger[stage]["unit"], ledger[stage]["in"]) for stage in ledger} == {
        "states": ("assistant turns", 2),
        "candidate_sets": ("candidate records", 1),
        "teacher_labels": ("label records", 1),
        "coverage": ("states and candidate sets", 3),
        "selection_sft": ("labels", 1),
        "bt_pairs": ("comparisons", 2),
    }
