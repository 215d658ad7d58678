"""Which labels of a set feed training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import LabelSpec
from action_reward_models.builders.teacher_labels import choose
from action_reward_models.schemas.actions import parse

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

PARSED = [parse("function", action) for action in ("click(1, 1)", "click(2, 2)", "<think>b</think>click(1, 1)", "oops")]


def _label(selected: int | None, repeat: int = 0, teacher: str | None = "t", status: str = "ok") -> dict[str, Any]:
    label_id = f"s|{teacher}|-|{repeat}"
    return {"label_id": label_id, "repeat": repeat, "teacher": teacher, "selected_index": selected, "status": status}


def _chosen(labels: list[dict[str, Any]], **spec: Any) -> dict[str, str | None]:
    """Label id -> None if it feeds training rows, else the reason; the same for every order of the labels."""
    found = {label["label_id"]: reason for label, reason in choose(labels, PARSED, LabelSpec(**spec))}
    assert len(found) == len(labels)
    assert found == {label["label_id"]: reason for label, reason in choose(labels[::-1], PARSED, LabelSpec(**spec))}
    return found


def test_the_first_repeat_feeds() -> None:
    assert _chosen([_label(0, 2), _label(1, 10), _label(1, 1)]) == {
        "s|t|-|1": None, "s|t|-|2": "other_repeat", "s|t|-|10": "other_repeat",
    }  # fmt: skip


def test_of_equal_repeats_the_lowest_id_feeds() -> None:
    assert _chosen([_label(0, teacher="b"), _label(1, teacher="a")]) == {"s|a|-|0": None, "s|b|-|0": "other_repeat"}


def test_an_unusable_first_repeat_is_skipped() -> None:
    labels = [_label(None, 0, status="null_in_source"), _label(None, 1, status="refused"), _label(1, 2)]
    assert _chosen(labels) == {"s|t|-|0": "null_in_source", "s|t|-|1": "refused", "s|t|-|2": None}


def test_a_pick_without_an_action_feeds_nothing() -> None:
    assert _chosen([_label(3)]) == {"s|t|-|0": "pick_unparsed"}


def test_other_teachers_are_named() -> None:
    labels = [_label(0, teacher="a"), _label(1, teacher="b"), _label(1, teacher=None), _label(None, 1, "a", "error")]
    assert _chosen(labels, teacher="b") == {
        "s|a|-|0": "other_teacher", "s|b|-|0": None, "s|None|-|0": "other_teacher", "s|a|-|1": "other_teacher",
    }  # fmt: skip


def test_the_majority_is_of_actions_and_not_of_slots() -> None:
    """Candidates 0 and 2 are one action, so that it has two votes of three."""
    labels = [_label(1, 0), _label(2, 1), _label(0, 2)]
    assert _chosen(labels, rule="majority") == {"s|t|-|0": "other_repeat", "s|t|-|1": None, "s|t|-|2": "other_repeat"}


def test_a_shared_lead_is_no_majority() -> None:
    labels = [_label(0, 0), _label(1, 1), _label(1, 2), _label(2, 3)]
    assert set(_chosen(labels, rule="majority").values()) == {"no_majority"}


def test_unusable_labels_have_no_vote() -> None:
    labels = [_label(1, 0), _label(3, 1), _label(3, 2), _label(None, 3, status="unparsed")]
    assert _chosen(labels, rule="majority") == {
        "s|t|-|0": None, "s|t|-|1": "pick_unparsed", "s|t|-|2": "pick_unparsed", "s|t|-|3": "unparsed",
    }  # fmt: skip


@pytest.mark.parametrize("rule", ["first", "majority"])
def test_no_usable_label_is_no_error(rule: str) -> None:
    assert _chosen([], rule=rule) == {}
    assert _chosen([_label(None, status="abstain")], rule=rule) == {"s|t|-|0": "abstain"}


def test_only_chosen_labels_reach_rows_and_pairs(toy: Toy) -> None:
    """SFT rows and pairs come from the same labels, and every other label is named."""
    set_id = toy.scene("a", "click(1, 1)", 'press("Tab")', "stop()", pick=2)
    states, sets, labels = toy.sources()
    sources = [states, sets]
    for teacher, pick in (("x", 0), ("y", 1), ("z", 1)):
        file = toy.write(f"{teacher}.jsonl", [{"state_id": set_id, "selection": pick}])
        sources.append(replace(labels, files=((file.name, file),), constants={"teacher": teacher}))

    def picked(**spec: Any) -> tuple[set[str], set[tuple[str, int]], dict[str, list[str]]]:
        build = toy.build(sources=tuple(sources), **spec)
        assert build.balanced()
        sft = {row["label_id"] for row in build.rows("selection_sft")}
        return (
            sft,
            {(row["label_id"], row["chosen_index"]) for row in build.rows("bt_pairs")},
            build.excluded("selection_sft"),
        )

    x, y, z = (f"{set_id}|{teacher}|-|0" for teacher in "xyz")
    assert picked() == ({x}, {(x, 0)}, {"other_repeat": [y, z]})
    assert picked(rule="majority") == ({y}, {(y, 1)}, {"other_repeat": [x, z]})
    assert picked(teacher="z") == ({z}, {(z, 1)}, {"other_teacher": [x, y]})
    assert picked(teacher="nobody") == (set(), set(), {"other_teacher": [x, y, z]})
