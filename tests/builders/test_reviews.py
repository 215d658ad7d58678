"""What people said of rows: it takes rows out, lifts quarantine, and none of it gets lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import PairSpec, PromptSpec

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

SET = "a__t0#d0"
LABEL = f"{SET}|-|-|0"


def _review(item_id: str, verdict: str, day: int = 1, reviewer: str = "r") -> dict[str, Any]:
    time = f"2026-01-{day:02}T00:00:00Z"
    return {"item_id": item_id, "verdict": verdict, "note": "", "reviewer": reviewer, "time": time}


def _build(toy: Toy, *reviews: dict[str, Any], **changes: Any) -> Build:
    given = toy.lay("reviews", "review", "reviews.jsonl", list(reviews))
    changes.setdefault("pairs", PairSpec(PromptSpec("scalar/1"), 0))
    build = toy.build(sources=(*toy.sources(), given), **changes)
    assert build.balanced()
    return build


def _reasons(build: Build) -> dict[str, tuple[str, str]]:
    """Unit of bt_pairs -> (reason, status)."""
    rows = build.rows("exclusions", stage="bt_pairs")
    return {row["source_id"].removeprefix(f"{LABEL}|"): (row["reason"], row["status"]) for row in rows}


@pytest.fixture
def scene(toy: Toy) -> Toy:
    """One set: a picked answer, another answer (quarantined by rule), a click, and the pick once more."""
    toy.scene("a", 'stop("1")', 'stop("2")', "click(1, 1)", '<think>x</think>stop("1")')
    return toy


@pytest.mark.parametrize("item", [f"{LABEL}|1", f"{LABEL}|1|scalar/1"])
def test_keep_lifts_a_quarantine(scene: Toy, item: str) -> None:
    """By the id that exclusions show, or by that of the pair it becomes."""
    assert _reasons(_build(scene))["1"] == ("done_vs_done", "quarantined")
    build = _build(scene, _review(item, "keep"))
    assert sorted(row["rejected_index"] for row in build.rows("bt_pairs")) == [1, 2]
    assert build.row("bt_pairs", rejected_index=1)["relation"] == "done_vs_done"
    assert build.identity["ledger"]["reviews"]["out"] == 1


def test_keep_makes_no_pair_of_one_action(scene: Toy) -> None:
    build = _build(scene, _review(f"{LABEL}|3", "keep"))
    assert _reasons(build)["3"] == ("identical", "dropped")


@pytest.mark.parametrize(
    ("item", "taken"),
    [
        (f"{LABEL}|2", ["2"]), (f"{LABEL}|2|scalar/1", ["2"]), (LABEL, ["1", "2", "3"]), (SET, ["1", "2", "3"]),
        ("a__t0", ["1", "2", "3"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("verdict", "status"), [("drop", "dropped"), ("relabel", "quarantined")])
def test_what_a_person_takes_out(scene: Toy, item: str, taken: list[str], verdict: str, status: str) -> None:
    build = _build(scene, _review(item, verdict))
    found = _reasons(build)
    assert [unit for unit in sorted(found) if found[unit] == (f"review_{verdict}", status)] == taken
    assert build.rows("bt_pairs") == []
    sft = build.rows("exclusions", stage="selection_sft", reason=f"review_{verdict}")
    assert [(row["source_id"], row["status"]) for row in sft] == ([(LABEL, status)] if len(taken) == 3 else [])
    assert build.identity["ledger"]["reviews"] == {
        "unit": "reviews", "in": 1, "out": 1, "excluded": {}, "status": {},
    }  # fmt: skip


def test_the_newest_verdict_counts(scene: Toy) -> None:
    """Whatever its place in the file, and under whichever of the pair's ids."""
    drop, keep = _review(f"{LABEL}|2", "drop", 1), _review(f"{LABEL}|2", "keep", 2)
    build = _build(scene, keep, drop)
    assert [row["rejected_index"] for row in build.rows("bt_pairs")] == [2]
    assert build.excluded("reviews") == {"superseded": [f"{LABEL}|2"]}
    later = _review(f"{LABEL}|2|scalar/1", "drop", 3)
    assert _build(scene, later, keep).rows("bt_pairs") == []
    earlier = _review(f"{LABEL}|2|scalar/1", "drop", 1)
    assert len(_build(scene, earlier, keep).rows("bt_pairs")) == 1


def test_every_review_ends_counted(scene: Toy) -> None:
    items = ["a__t0", SET, LABEL, f"{LABEL}|1", "gone", f"{LABEL}|9", f"{LABEL}|selection/1"]
    build = _build(scene, *(_review(item, "drop") for item in items))
    account = build.identity["ledger"]["reviews"]
    assert (account["in"], account["out"], account["excluded"]) == (7, 4, {"no_item": 3})
    assert build.excluded("reviews")["no_item"] == sorted(items[4:])  # the last: no row is made of a dropped label


def test_a_dropped_row_of_another_table_leaves_its_pairs(scene: Toy) -> None:
    build = _build(scene, _review(f"{LABEL}|selection/1", "drop"))
    assert build.excluded("selection_sft") == {"review_drop": [LABEL]}
    assert len(build.rows("bt_pairs")) == 1


def test_reviews_find_their_bucket(toy: Toy) -> None:
    for n in range(12):
        toy.scene(f"p{n}", "click(1, 1)", "stop()", picture=n + 1)
    reviews = [_review(f"p{n}__t0#d0|-|-|0|1", "drop") for n in range(6)]
    build = _build(toy, *reviews, shards=4)
    assert len(build.rows("bt_pairs")) == 6
    assert build.identity["ledger"]["reviews"]["out"] == 6


ROW = f"{LABEL}|selection/1"


def _answer(index: int, day: int) -> dict[str, Any]:
    return _review(LABEL, "relabel", day) | {"selected_index": index}


def test_a_pick_named_later_is_what_a_relabelled_row_waited_for(scene: Toy) -> None:
    """The row comes back with it, and so does a pair; what was relabelled after the pick waits."""
    pair = f"{LABEL}|1|scalar/1"
    waiting = [_review(ROW, "relabel", 1), _review(pair, "relabel", 1)]
    assert not _build(scene, *waiting).rows("selection_sft")
    build = _build(scene, *waiting, _answer(2, 2))
    row = build.row("selection_sft")
    assert row["completion"][0]["content"][0]["text"].endswith(f'{{"selection": {row["order"].index(2) + 1}}}')
    assert build.row("bt_pairs", rejected_index=1)["chosen_index"] == 2
    build = _build(scene, *(review | {"time": "2026-01-03T00:00:00Z"} for review in waiting), _answer(2, 2))
    assert not build.rows("selection_sft")
    assert _reasons(build)["1"] == ("review_relabel", "quarantined")


def test_a_pick_named_later_brings_no_dropped_row_back(scene: Toy) -> None:
    assert not _build(scene, _review(ROW, "drop", 1), _answer(2, 2)).rows("selection_sft")


@pytest.mark.parametrize("said", ["drop", "relabel"])
def test_a_row_that_was_taken_out_comes_back_by_the_id_that_exclusions_show(scene: Toy, said: str) -> None:
    before = _build(scene, _review(ROW, said, 2))
    (row,) = before.rows("exclusions", stage="selection_sft")
    assert (row["source_id"], row["reason"]) == (LABEL, f"review_{said}")
    assert _build(scene, _review(ROW, said, 2), _review(LABEL, "keep", 3)).rows("selection_sft")
    assert not _build(scene, _review(ROW, said, 2), _review(LABEL, "keep", 1)).rows("selection_sft")
