"""Which label is the reference of a set, and why a set has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from action_reward_models.recipes.evaluation.references import Reference, References, parsed_candidates
from action_reward_models.schemas.actions import View, parse

VIEW = View("pixel", 1000, 1000)
# 1 is near 0; 3 is the action of 0; 4 cannot be read.
TEXTS = ("click(100, 100)", "click(103, 100)", 'type(5, 5, "a")', "click(100, 100)", "what?")


def candidate_set() -> dict[str, Any]:
    found = [parse("function", text) for text in TEXTS]
    return {
        "set_id": "s#d0",
        "candidates": [
            {"index": i, "thought": p.thought, "action": p.action, "action_json": p.json, "action_key": p.key,
             "parse_error": p.parse_error}
            for i, p in enumerate(found)
        ],
    }  # fmt: skip


def label(
    picked: int | None, repeat: int = 0, *, status: str | None = None, teacher: str | None = "t", **more: Any
) -> Any:
    said = {"prompt_id": "selection/1", "prompt_sha256": "0" * 64, **more}
    return {
        "label_id": f"s#d0|{teacher}|{said['prompt_id']}|{repeat}", "set_id": "s#d0", "teacher": teacher,
        "repeat": repeat, "selected_index": picked, "status": status or ("ok" if picked is not None else "abstain"),
        **said,
    }  # fmt: skip


def found(
    labels: Sequence[Any], rule: str = "first", teacher: str | None = None, row: Any = None, taken_out: Any = None
) -> Reference | str:
    set_row = candidate_set()
    references = References(rule, teacher, {"s#d0": list(labels)}, {"s#d0": row} if row else {}, taken_out or {})
    return references.of_set(set_row, parsed_candidates(set_row), VIEW)


def sft(of: Any, order: Sequence[int], number: int) -> dict[str, Any]:
    completion = [{"role": "assistant", "content": [{"type": "text", "text": f'{{"selection": {number}}}'}]}]
    return {"label_id": of["label_id"], "set_id": "s#d0", "order": list(order), "completion": completion}


def index(*args: Any, **more: Any) -> int:
    reference = found(*args, **more)
    assert isinstance(reference, Reference), reference
    return reference.index


def test_the_first_usable_answer_counts() -> None:
    assert index([label(2, 1), label(0, 0)]) == 0
    assert index([label(2, 1), label(None, 0)]) == 2
    assert index([label(2, 1), label(4, 0)]) == 2  # nobody can agree with what cannot be read


def test_a_declared_teacher_counts_alone() -> None:
    both = [label(0, teacher="a"), label(2, teacher="b")]
    assert index(both, teacher="b") == 2
    assert found(both[:1], teacher="b") == "other_teacher"


def test_a_majority_is_of_actions() -> None:
    assert index([label(2, 0), label(0, 1), label(3, 2)], "majority") == 0  # 0 and 3 are one action
    assert found([label(2, 0), label(0, 1)], "majority") == "no_majority"


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([], "no_label"),
        ([label(None)], "abstain"),
        ([label(None, status="null_in_source")], "null_in_source"),
        ([label(4)], "pick_unparsed"),
        ([label(0, teacher="other"), label(None, 1, status="refused", teacher="t")], "refused"),
    ],
)
def test_a_set_without_a_reference_says_why(labels: Any, reason: str) -> None:
    assert found(labels, teacher="t") == reason


@pytest.mark.parametrize("reason", ["crosses_split", "conflicting_pick", "review_drop"])
def test_what_the_build_took_out_is_not_asked(reason: str) -> None:
    one = label(0)
    assert found([one], taken_out={one["label_id"]: reason}) == reason
    assert index([one], taken_out={"s#d0": reason}) == 0  # of another label


def test_the_row_says_which_label_it_is_of() -> None:
    first, second = label(0, 0), label(2, 1)
    assert index([first, second], row=sft(second, [2, 0, 1], 1)) == 2


def test_a_person_answered_for_the_teacher() -> None:
    one = label(0)
    assert index([one], row=sft(one, [2, 0, 1], 1)) == 2
    assert index([label(3)], row=sft(label(3), [2, 0, 1], 2)) == 3  # the same action: the teacher's own pick stands


def test_repeats_are_pairs_of_one_question() -> None:
    four = [label(0, 0), label(3, 1), label(1, 2), label(2, 3)]
    others = [label(0, 4, prompt_sha256="1" * 64), label(0, 5, teacher="other"), label(None, 6)]
    reference = found([*four, *others])
    assert isinstance(reference, Reference)
    # 0 and 3 are one action; 1 is near both.
    assert reference.repeats == {"pairs": 6, "exact": 1, "equivalent": 3}


def test_crossings_are_those_of_the_table_that_is_asked_about() -> None:
    references = References("first", None)
    rows = [("bt_pairs", "l|1|scalar/1|2", "crosses_split"), ("selection_sft", "m", "crosses_split"),
            ("selection_sft", "n", "review_drop"), ("bt_pairs", "o|1", "identical")]  # fmt: skip
    for stage, source_id, reason in rows:
        references._exclude({"stage": stage, "source_id": source_id, "reason": reason}, "bt_pairs")
    assert references.taken_out["l|1"] == "crosses_split"
    assert references.taken_out["l"] == "crosses_split"
    assert references.taken_out["n"] == "review_drop"
    assert "m" not in references.taken_out
    assert "o" not in references.taken_out
