"""Pairs of whole episodes of one task: by outcome, by hash within the budget, and never across tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from action_reward_models.builders.spec import PairSpec, PromptSpec, TrajectorySpec

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy


def _episode(toy: Toy, name: str, task: str, reward: float | None, *actions: str) -> None:
    messages = []
    for number, action in enumerate(actions):
        text = f"Task: {task}" if number == 0 else f"page {number}"
        messages += [toy.message("user", text, number), toy.message("assistant", toy.response(action, f"t{number}"))]
    metadata = {} if reward is None else {"reward": reward}
    toy.episode(name, *messages, metadata=metadata)


def _build(toy: Toy, min_gap: float = 0.5, most: int = 4, **changes: Any) -> Build:
    prompt = PromptSpec("trajectory/1", options={"history_window": 1000})
    spec = PairSpec(PromptSpec("scalar/1"), trajectories=TrajectorySpec(prompt, min_gap, most))
    return toy.build(pairs=spec, tables=("states", "bt_pairs"), images={"states": "embed"}, **changes)


def test_the_better_episode_is_chosen_with_all_its_steps(toy: Toy) -> None:
    _episode(toy, "good", "Buy.", 1, "click(1, 1)", "stop()")
    _episode(toy, "bad", "Buy.", 0, "click(2, 2)", "click(2, 2)", "stop()")
    build = _build(toy)
    row = build.row("bt_pairs")
    assert row["pair_id"] == "good|bad|trajectory/1"
    assert (row["unit"], row["label_source"], row["margin"], row["state_id"]) == (
        "trajectory",
        "outcome",
        1,
        "good__t1",
    )
    assert (row["set_id"], row["chosen_index"], row["relation"], row["images"]) == (None, None, None, [])
    assert row["chosen"][0]["content"][0]["text"] == (
        "Step 1: t0\n   Action: click(1, 1)\nStep 2: t1\n   Action: stop()"
    )
    assert row["rejected"][0]["content"][0]["text"].count("click(2, 2)") == 2
    assert "Task: Buy." in row["prompt"][-1]["content"][0]["text"]
    assert build.balanced()


def test_only_outcomes_of_one_task_that_differ_enough(toy: Toy) -> None:
    _episode(toy, "a", "Buy.", 1, "stop()")
    _episode(toy, "b", "buy", 0.75, "click(1, 1)")  # the same task in other writing
    _episode(toy, "c", "Sell.", 0, "click(2, 2)")
    _episode(toy, "d", "Buy.", None, "click(3, 3)")  # nobody observed its outcome
    _episode(toy, "e", "Buy.", 1, "click(4, 4)")
    build = _build(toy)
    assert build.rows("bt_pairs") == []
    assert build.excluded("bt_pairs") == {"small_gap": ["a|b|trajectory/1", "e|b|trajectory/1"]}
    assert build.balanced()


def test_equal_episodes_teach_nothing(toy: Toy) -> None:
    _episode(toy, "a", "Buy.", 1, "stop()")
    _episode(toy, "b", "Buy.", 0, "stop()")
    assert _build(toy).excluded("bt_pairs") == {"equal_as_shown": ["a|b|trajectory/1"]}


def test_the_budget_is_a_tasks_and_spent_by_hash(toy: Toy) -> None:
    for number in range(6):
        _episode(toy, f"e{number}", "Buy.", number % 2, f"click({number}, 1)")
    build = _build(toy, most=2)
    kept = {row["pair_id"] for row in build.rows("bt_pairs")}
    assert len(kept) == 2
    assert len(build.excluded("bt_pairs")["over_budget"]) == 7
    toy.episodes.reverse()
    again = _build(toy, most=2, shards=4)
    assert again.digests == build.digests
    _episode(toy, "later", "Sell.", 1, "stop()")  # another task
    assert {row["pair_id"] for row in _build(toy, most=2).rows("bt_pairs")} == kept
    assert len(_build(toy, most=0).rows("bt_pairs")) == 9


def test_a_pair_follows_its_task_into_the_split(toy: Toy) -> None:
    for number in range(8):
        _episode(toy, f"g{number}", f"Task {number}.", 1, "stop()")
        _episode(toy, f"b{number}", f"Task {number}.", 0, "click(1, 1)")
    build = _build(toy, validation=0.5)
    splits = {row["state_id"]: row["split"] for row in build.rows("states")}
    pairs = build.rows("bt_pairs")
    assert len(pairs) == 8
    assert {row["state_id"]: row["split"] for row in pairs}.items() <= splits.items()
    assert {row["split"] for row in pairs} == {"train", "validation"}
