"""The reserve: picks that no pair could use, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from action_reward_models.builders.spec import NegativeSpec, PairSpec, PromptSpec

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

TABLES = ("states", "candidate_sets", "teacher_labels", "bt_pairs", "reserve")


def _build(toy: Toy, **changes: Any) -> Build:
    changes.setdefault("pairs", PairSpec(PromptSpec("scalar/1")))
    build = toy.build(tables=TABLES, images={"states": "embed", "bt_pairs": "embed", "reserve": "embed"}, **changes)
    assert build.balanced()
    return build


def test_a_pick_without_a_usable_loser_is_kept_for_the_actor(toy: Toy) -> None:
    """In one lab a quarter of all picks had no loser, and were thrown away."""
    toy.scene("a", "<think>so</think><action>click(1, 1)</action>", "<think>y</think>click(1,1)", "no action")
    toy.scene("b", "click(1, 1)", "stop()", picture=2)
    build = _build(toy)
    row = build.row("reserve")
    assert row["row_id"] == "a__t0#d0|-|-|0|reserve"
    assert (row["label_id"], row["set_id"], row["state_id"]) == ("a__t0#d0|-|-|0", "a__t0#d0", "a__t0")
    assert row["reason"] == "identical, unparsed"
    assert (row["selected_by"], row["quality"]) == ("teacher", None)
    (text,) = row["completion"][0]["content"]
    assert text["text"] == "<think>so</think><action>click(1, 1)</action>"
    assert [block["type"] for message in row["prompt"] for block in message["content"]] == ["text", "image"]
    assert row["images"] == [build.row("states", state_id="a__t0")["screenshot"]]
    assert build.identity["ledger"]["reserve"] == {
        "unit": "picks without a usable loser", "in": 1, "out": 1, "excluded": {}, "status": {},
    }  # fmt: skip


def test_why_there_was_no_loser(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)", picture=1)
    toy.scene("b", 'stop("1")', 'stop("2")', picture=2)
    toy.scene("c", "click(1, 1)", "stop()", pick=None, picture=3)
    reasons = {row["state_id"]: row["reason"] for row in _build(toy).rows("reserve")}
    assert reasons == {"a__t0": "no_other_candidate", "b__t0": "done_vs_done"}


def test_a_budget_leaves_no_pick_over(toy: Toy) -> None:
    """A loser that a budget cut off was usable."""
    state_id = toy.page("a")
    for number in range(3):
        toy.label(toy.draw(state_id, "click(1, 1)", "stop()", number=number), 0)
    build = _build(toy, pairs=PairSpec(PromptSpec("scalar/1"), max_pairs_per_state=1))
    assert len(build.rows("bt_pairs")) == 1
    assert build.rows("reserve") == []


def test_a_made_up_loser_makes_a_pair(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)")
    build = _build(toy, pairs=PairSpec(PromptSpec("scalar/1"), negatives=NegativeSpec(1)))
    assert len(build.rows("bt_pairs")) == 1
    assert build.rows("reserve") == []


def test_without_the_actors_messages_there_is_no_row(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)")
    toy.states.append({"state_id": "b", "episode_id": "b", "turn": 0, "prompt_text": "Task: x", "images": []})
    toy.label(toy.draw("b", "click(1, 1)"), 0)
    build = _build(toy)
    assert [row["state_id"] for row in build.rows("reserve")] == ["a__t0"]
    assert build.excluded("reserve") == {"no_messages": ["b#d0|-|-|0|reserve"]}


def test_people_take_rows_out_of_the_reserve(toy: Toy) -> None:
    toy.scene("a", "click(1, 1)")
    toy.scene("b", "click(1, 1)", picture=2)
    said = {"verdict": "drop", "note": "", "reviewer": "r", "time": "2026-01-01T00:00:00Z"}
    items = ("a__t0#d0|-|-|0|reserve", "b__t0#d0|-|-|0")
    given = toy.lay("reviews", "review", "reviews.jsonl", [{"item_id": item, **said} for item in items])
    build = _build(toy, sources=(*toy.sources(), given))
    assert build.rows("reserve") == []
    assert build.excluded("reserve") == {"review_drop": [items[0]]}  # the other is no usable pick any more


def test_a_prompt_of_train_leaves_the_validation_reserve(toy: Toy) -> None:
    """The actor was trained on it."""
    for n in range(12):
        said = toy.message("user", "Task: x", 1), toy.message("assistant", toy.response("click(1, 1)"))
        toy.episode(f"p{n}", *said, metadata={"intent": f"Task {n}"})
        toy.label(toy.draw(f"p{n}__t0", "click(1, 1)"), 0)
    build = _build(toy, validation=0.4)
    held = build.rows("states", split="validation")
    assert held
    assert {row["split"] for row in build.rows("reserve")} == {"train"}
    assert build.excluded("reserve") == {
        "crosses_split": sorted(f"{row['state_id']}#d0|-|-|0|reserve" for row in held)
    }  # fmt: skip
