"""Chosen responses as targets of the actor: the floor, the control, and what is not good enough by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import BASE_TABLES, ActorSpec, SplitSpec

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

TABLES = (*BASE_TABLES, "actor_sft")
IMAGES = {"states": "embed", "actor_sft": "embed"}
PLACE = "<|vision_start|><|image_pad|><|vision_end|>"
RESPONSES = ("click(1, 1)", "click(7, 7)", "stop()")


def _page(toy: Toy, number: int, shown: int | None = None, place: str = PLACE) -> None:
    """A state of its own task; ``shown`` is the number of its picture, ``place`` stands for it in the prompt."""
    said = f"<|im_start|>user\nTask: Do {number}.{place}<|im_end|>\n<|im_start|>assistant\n"
    record = {"state_id": f"{number}", "episode_id": f"e{number}", "turn": 0, "prompt_text": said}
    toy.states.append({**record, "images": [toy.data_url(number if shown is None else shown)]})


def _scored(toy: Toy, number: int, *scores: float | None) -> Any:
    cands = [{"action_str": a} | ({} if s is None else {"score": s}) for a, s in zip(RESPONSES, scores, strict=True)]
    records = [{"state_id": number, "cands": cands}]
    return toy.lay("candidate_scores", "molmoweb", f"scores-{number}.jsonl", records, dialect="function", space="pixel")


def _build(toy: Toy, spec: ActorSpec, *more: Any, **changes: Any) -> Build:
    return toy.build(sources=(*toy.sources(), *more), tables=TABLES, images=IMAGES, actor_sft=spec, **changes)


def test_the_pick_is_the_target_in_the_actors_own_prompt(toy: Toy) -> None:
    _page(toy, 1)
    set_id = toy.draw("1", *RESPONSES)
    label_id = toy.label(set_id, 1)
    build = _build(toy, ActorSpec())
    row = build.row("actor_sft")
    assert row["row_id"] == f"{label_id}|teacher"
    assert (row["label_id"], row["set_id"], row["selected_by"], row["quality"]) == (label_id, set_id, "teacher", None)
    assert row["completion"][0]["content"][0]["text"] == "<think></think>\n<action>click(7, 7)</action>"
    assert [block["type"] for block in row["prompt"][0]["content"]] == ["text", "image"]
    assert build.row("states")["screenshot"] == row["images"][0]
    assert build.balanced()


def test_a_label_without_a_pick_is_no_choice(toy: Toy) -> None:
    _page(toy, 1)
    toy.label(toy.draw("1", *RESPONSES), None)
    build = _build(toy, ActorSpec())
    assert build.rows("actor_sft") == []
    assert "actor_sft" not in build.identity["ledger"]


def test_a_control_stands_beside_each_target(toy: Toy) -> None:
    for number in range(1, 13):
        _page(toy, number)
        toy.label(toy.draw(f"{number}", *RESPONSES), 0)
    build = _build(toy, ActorSpec(random_control=True))
    targets, controls = (
        build.rows("actor_sft", selected_by="teacher"),
        build.rows("actor_sft", selected_by="random_control"),
    )
    assert len(targets) == len(controls) == 12
    assert {row["completion"][0]["content"][0]["text"] for row in targets} == {toy.response("click(1, 1)")}
    assert len({row["completion"][0]["content"][0]["text"] for row in controls}) == 3  # any candidate, also the pick
    assert build.balanced()


def test_the_best_scored_is_the_target_and_has_to_be_good_enough(toy: Toy) -> None:
    _page(toy, 1)
    _page(toy, 2)
    _page(toy, 3)
    scores = _scored(toy, 1, 0.2, 0.9, 0.9), _scored(toy, 2, 0.1, None, 0.6), _scored(toy, 3, None, None, None)
    build = _build(toy, ActorSpec("scores", quality_floor=0.7), *scores)
    row = build.row("actor_sft")
    assert row["completion"][0]["content"][0]["text"] == "<action>click(7, 7)</action>"  # the first of equal ones
    assert (row["quality"], row["selected_by"], row["label_id"]) == (0.9, "prm_argmax", None)
    assert build.excluded("actor_sft") == {
        "below_quality_floor": ["2#d1|prm_argmax"],
        "unscored": ["3#d1|prm_argmax"],
    }
    assert build.balanced()


def test_rows_of_train_take_equal_prompts_out_of_validation(toy: Toy) -> None:
    """One page under two tasks: the prompts differ, so that both stay; under one task, all stand in one split."""
    for number in range(1, 9):
        _page(toy, number)
        toy.label(toy.draw(f"{number}", *RESPONSES), 0)
    build = _build(toy, ActorSpec(), validation=0.5)
    splits = {row["state_id"]: row["split"] for row in build.rows("states")}
    assert {row["state_id"]: row["split"] for row in build.rows("actor_sft")} == splits
    assert set(splits.values()) == {"train", "validation"}


@pytest.mark.parametrize(("verdict", "status"), [("drop", "dropped"), ("relabel", "quarantined")])
def test_a_person_takes_a_target_out(toy: Toy, verdict: str, status: str) -> None:
    _page(toy, 1)
    choice = f"{toy.label(toy.draw('1', *RESPONSES), 1)}|teacher"
    said = {"item_id": choice, "verdict": verdict, "note": "", "reviewer": "r", "time": "2026-01-01T00:00:00Z"}
    build = _build(toy, ActorSpec(), toy.lay("reviews", "review", "reviews.jsonl", [said]))
    (excluded,) = build.rows("exclusions", stage="actor_sft")
    assert (excluded["source_id"], excluded["reason"]) == (choice, f"review_{verdict}")
    assert excluded["status"] == status
    assert build.rows("actor_sft") == []
    assert build.balanced()


def test_a_prompt_without_a_place_for_the_screenshot_is_no_target(toy: Toy) -> None:
    _page(toy, 1, place="")
    label_id = toy.label(toy.draw("1", *RESPONSES), 1)
    build = _build(toy, ActorSpec())
    assert build.excluded("actor_sft") == {"no_messages": [label_id]}
    assert build.balanced()


def test_a_target_that_shows_a_screenshot_of_train_stays_out_of_validation(toy: Toy) -> None:
    """Two tasks on one page, in two splits."""
    for number in range(1, 13):
        _page(toy, number, shown=1)
        toy.label(toy.draw(f"{number}", *RESPONSES), 0)
    build = _build(toy, ActorSpec(), split=SplitSpec(0.5, 1, isolate_screenshots=True))
    out = build.excluded("actor_sft")["crosses_split"]
    assert len(out) + len(build.rows("actor_sft")) == 12
    assert 0 < len(out) == sum(row["split"] == "validation" for row in build.rows("teacher_labels"))
    assert {row["split"] for row in build.rows("actor_sft")} == {"train"}
