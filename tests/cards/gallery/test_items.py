"""Every kind of item: what it shows, and that a review of its id acts on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import ActorSpec, NegativeSpec, PairSpec, PromptSpec, SelectionSpec
from action_reward_models.schemas.store import ID_FIELDS

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy
    from tests.cards.gallery.conftest import Page

Shown = Callable[..., "Page"]
Item = dict[str, Any]
LABEL = "a__t0#d0|-|-|0"


def review(item_id: str, verdict: str, index: int | None = None) -> Item:
    said = {"item_id": item_id, "verdict": verdict, "note": "n", "reviewer": "r", "time": "2026-01-01T00:00:00Z"}
    return said if index is None else {**said, "selected_index": index}


def by_id(page: Page) -> dict[tuple[str, str], Item]:
    return {(item["table"], item["id"]): item for item in page[0]["items"]}


def test_every_item_can_be_reviewed_by_its_id(toy: Toy, many: Callable[..., Build], shown: Shown) -> None:
    """A verdict on any of them meets its item, and a dropped row is gone from the next build."""
    before = many()
    items = shown(before, items=2000)[0]["items"]
    tables = {(item["table"], item["excluded"] is None) for item in items}
    rows = {"selection_sft", "bt_pairs", "pointwise_scores", "actor_sft", "reserve"}
    assert tables == {(table, True) for table in rows} | {(table, False) for table in rows - {"reserve"}}
    labels = {item["id"] for item in items if item["id"] == item["label_id"]}
    others = {item["id"] for item in items} - labels
    for number, ids in enumerate((labels, others)):  # apart: with a label go the rows that are made of it
        said = [review(one, "drop") for one in sorted(ids)]
        after = many(toy.lay("reviews", "review", f"reviews-{number}.jsonl", said))
        assert after.excluded("reviews") == {}
        assert {row["item_id"] for row in after.rows("reviews")} == ids
    for table in rows:
        assert before.rows(table)
        assert not others & {row[ID_FIELDS[table]] for row in after.rows(table)}


def test_a_relabel_of_an_items_label_is_taken(toy: Toy, many: Callable[..., Build], shown: Shown) -> None:
    labels = {item["label_id"] for item in shown(many(), items=2000)[0]["items"]} - {None}
    said = [review(label, "relabel", 0) for label in sorted(labels)]
    after = many(toy.lay("reviews", "review", "reviews.jsonl", said))
    assert after.excluded("reviews") == {}
    page = shown(after, items=2000)
    followed = [
        item for item in page[0]["items"] if item["label_id"] and item["table"] in ("selection_sft", "bt_pairs")
    ]
    assert len(followed) > 40
    assert {item["chosen_index"] for item in followed} == {0}
    assert {label["selected_index"] for label in page[0]["labels"].values()} > {None, 1, 2}  # the teacher's own
    assert all(item["earlier"] == [{k: v for k, v in review("", "relabel", 0).items() if k != "item_id"}]
               for item in followed)  # fmt: skip


def test_what_was_taken_out_shows_who_took_it_out_and_comes_back_from_there(
    toy: Toy, many: Callable[..., Build], shown: Shown
) -> None:
    rows = [item for item in shown(many(), items=2000)[0]["items"] if item["excluded"] is None]
    dropped = [review(item["id"], "drop") | {"note": item["id"]} for item in rows if item["table"] != "reserve"]
    after = many(first := toy.lay("reviews", "review", "first.jsonl", dropped))
    out = [
        item for item in shown(after, items=2000)[0]["items"] if (item["excluded"] or {}).get("reason") == "review_drop"
    ]
    assert len(out) == len(dropped)
    assert {said["note"] for item in out for said in item["earlier"]} == {said["item_id"] for said in dropped}
    assert all(item["earlier"] for item in out)
    kept = [review(item["id"], "keep") | {"time": "2030-01-01T00:00:00Z"} for item in out]
    again = many(first, toy.lay("reviews", "review", "second.jsonl", kept))
    for table in {item["table"] for item in rows} - {"reserve"}:
        assert {item["id"] for item in rows if item["table"] == table} == {
            row[ID_FIELDS[table]] for row in again.rows(table)
        }


def test_what_rows_show(toy: Toy, shown: Shown) -> None:
    toy.scene("a", "click(1, 1)", "stop()", '<think>why</think>type(2, 5, "x")', "click(1, 1)", pick=2, picture=7)
    toy.labels.clear()
    toy.label("a__t0#d0", 2, reasoning="It types.")
    build = toy.build()
    data, pictures = shown(build)
    found = by_id((data, pictures))
    row = build.row("selection_sft")
    item = found["selection_sft", row["row_id"]]
    assert (item["chosen_index"], item["rejected_index"], item["order"]) == (2, None, row["order"])
    assert (item["state_id"], item["set_id"], item["label_id"]) == ("a__t0", "a__t0#d0", LABEL)
    assert item["prompt"] == row["prompt"]
    assert item["replies"] == [["completion", row["completion"]]]
    assert item["rendered_sha256"] == row["rendered_sha256"]
    assert (item["prompt_id"], item["prompt_sha256"]) == (row["prompt_id"], row["prompt_sha256"])
    (sha256,) = item["images"]
    assert f"sha256:{sha256}" == row["images"][0]
    assert pictures == {sha256: toy.png(7)}
    assert data["pictures"] == {sha256: {"type": "image/png", "bytes": len(toy.png(7)), "width": 8, "height": 8}}
    assert item["facets"] == {
        "table": "selection_sft", "split": "train", "pair_type": None, "reason": None, "host": None,
        "verbs": ["type"], "status": "ok", "tie": "no tie",
    }  # fmt: skip
    for pair in build.rows("bt_pairs"):
        item = found["bt_pairs", pair["pair_id"]]
        assert (item["chosen_index"], item["rejected_index"]) == (2, pair["rejected_index"])
        assert item["replies"] == [["chosen", pair["chosen"]], ["rejected", pair["rejected"]]]
        assert item["facets"]["pair_type"] == pair["pair_type"]
        assert ["relation", "different"] in item["facts"]
    state = data["states"]["a__t0"]
    assert (state["screenshot"], state["width"], state["height"], state["turn"]) == (sha256, 8, 8, 0)
    candidates = data["sets"]["a__t0#d0"]["candidates"]
    assert [one["same_as"] for one in candidates] == [None, None, None, 0]
    assert [one["index"] for one in candidates] == [0, 1, 2, 3]
    assert (candidates[2]["thought"], candidates[2]["verbs"]) == ("why", ["type"])
    assert candidates[2]["points"] == [{"name": "point", "x": 2.0, "y": 5.0}]
    assert data["labels"][LABEL]["reasoning"] == "It types."
    head = {key: data[key] for key in ("gallery", "title", "subtitle", "dataset", "version", "identity_sha256")}
    assert head == {
        "gallery": 1, "title": "someone/toy v1.0.0", "subtitle": "here", "dataset": "someone/toy", "version": "1.0.0",
        "identity_sha256": build.manifest["identity_sha256"],
    }  # fmt: skip


def test_excluded_comparisons_are_shown_with_both_sides(toy: Toy, shown: Shown) -> None:
    toy.scene("a", "click(1, 1)", "stop()", "click(1, 1)", "scroll(0, 0, 'down', 3)", "nonsense", pick=0)
    found = by_id(shown(toy.build()))
    same = found["bt_pairs", f"{LABEL}|2"]
    assert same["excluded"] == {
        "reason": "identical", "detail": "", "status": "dropped", "meaning": "the same action",
    }  # fmt: skip
    assert (same["chosen_index"], same["rejected_index"], same["label_id"]) == (0, 2, LABEL)
    assert (same["facets"]["pair_type"], same["facets"]["verbs"], same["facets"]["tie"]) == ("click", ["click"], "tie")
    assert (same["prompt"], same["replies"], same["split"]) == (None, [], "train")
    assert found["bt_pairs", f"{LABEL}|4"]["excluded"]["reason"] == "unparsed"


def test_quarantine_is_said(toy: Toy, shown: Shown) -> None:
    toy.scene("a", 'stop("1")', 'stop("2")', "click(1, 1)")
    item = by_id(shown(toy.build()))["bt_pairs", f"{LABEL}|1"]
    assert item["excluded"] == {
        "reason": "done_vs_done", "detail": "", "status": "quarantined",
        "meaning": "both only end the episode, with different answers",
    }  # fmt: skip


def test_labels_that_fed_nothing(toy: Toy, shown: Shown) -> None:
    toy.scene("a", pick=None)
    toy.scene("b", "click(1, 1)", "click(1, 1)", picture=2)
    found = by_id(shown(toy.build()))
    null = found["selection_sft", LABEL]
    assert (null["excluded"]["reason"], null["facets"]["status"], null["facets"]["tie"]) == (
        "null_in_source", "null_in_source", None,
    )  # fmt: skip
    assert null["facets"]["verbs"] == ["click", "stop"]  # nothing is preferred: those of all candidates
    assert found["selection_sft", "b__t0#d0|-|-|0"]["excluded"]["reason"] == "single_distinct_action"
    # Where no selections are made, no exclusion names it.
    found = by_id(shown(toy.build(tables=("states", "candidate_sets", "teacher_labels", "bt_pairs"))))
    label = found["teacher_labels", LABEL]
    assert (label["excluded"], label["facets"]["status"], label["label_id"]) == (None, "null_in_source", LABEL)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (("states", "candidate_sets", "teacher_labels"), ("teacher_labels", LABEL)),
        (("states", "candidate_sets"), ("candidate_sets", "a__t0#d0")),
        (("states",), ("states", "a__t0")),
    ],
)
def test_without_training_rows_what_they_would_be_made_of(
    toy: Toy, shown: Shown, tables: tuple[str, ...], expected: tuple[str, str]
) -> None:
    toy.scene("a")
    data, pictures = shown(toy.build(tables=tables))
    (item,) = data["items"]
    assert (item["table"], item["id"]) == expected
    assert item["state_id"] == "a__t0"
    assert len(pictures) == 1
    assert len(data["sets"]) == (len(tables) > 1)


def test_negatives_nobody_sampled(toy: Toy, shown: Shown) -> None:
    toy.scene("a", "click(1, 1)", "stop()")
    toy.scene("b", "wait(1)", "stop()", picture=2, task="Wait.")
    spec = PairSpec(PromptSpec("scalar/1"), negatives=NegativeSpec(corrupted=1))
    build = toy.build(pairs=spec)
    data, _ = shown(build)
    found = by_id((data, {}))
    (made,) = build.rows("bt_pairs", negative_source="corrupted")
    item = found["bt_pairs", made["pair_id"]]
    assert (item["chosen_index"], item["rejected_index"]) == (0, None)
    assert ["negative source", "corrupted"] in item["facts"]
    assert [stratum["kind"] for stratum in data["strata"] if "," in stratum["kind"]] == ["click, corrupted"]
    out = found["bt_pairs", "b__t0#d0|-|-|0|corrupted|0"]
    assert (out["chosen_index"], out["rejected_index"]) == (0, None)
    assert (out["excluded"]["reason"], out["facts"]) == ("not_corruptible", [["rejected", "corrupted 0"]])


def test_scores_say_which_side_is_better(toy: Toy, shown: Shown) -> None:
    toy.scene("a", "click(1, 1)", "stop()", "wait(1)")
    scored = toy.lay("candidate_scores", "scores", "s.jsonl", [{"set_id": "a__t0#d0", "scores": [0.3, 0.9, 0.32]}])
    build = toy.build(sources=(*toy.sources(), scored), pairs=PairSpec(PromptSpec("scalar/1"), 0, origins=("scores",)))
    found = by_id(shown(build))
    item = found["bt_pairs", "a__t0#d0|prm|2|0"]
    assert (item["chosen_index"], item["rejected_index"], item["label_id"]) == (2, 0, None)
    assert (item["set_id"], item["excluded"]["reason"]) == ("a__t0#d0", "small_gap")
    assert item["facts"] == [["score source", "prm"]]
    best = next(one for one in found.values() if ["margin", "0.6"] in one["facts"])
    assert (best["chosen_index"], best["rejected_index"]) == (1, 0)


def test_targets_of_the_actor_name_their_candidate(toy: Toy, shown: Shown) -> None:
    toy.scene("a", "click(1, 1)", "stop()<|im_end|>", "wait(1)", pick=1)
    tables = ("states", "candidate_sets", "teacher_labels", "actor_sft")
    build = toy.build(
        tables=tables, images={"states": "embed", "actor_sft": "embed"}, actor_sft=ActorSpec("teacher", None, True)
    )
    found = by_id(shown(build))
    assert found["actor_sft", f"{LABEL}|teacher"]["chosen_index"] == 1
    control = build.row("actor_sft", selected_by="random_control")
    said = control["completion"][0]["content"][0]["text"]
    responses = [one["response"].removesuffix("<|im_end|>") for one in build.row("candidate_sets")["candidates"]]
    assert responses[found["actor_sft", control["row_id"]]["chosen_index"]] == said


def test_coverage_shows_states_that_nobody_sampled(toy: Toy, shown: Shown) -> None:
    toy.scene("a")
    toy.page("b", picture=5, task="Other.")
    data, pictures = shown(toy.build())
    item = by_id((data, pictures))["coverage", "b__t0"]
    assert (item["excluded"]["reason"], item["state_id"], item["set_id"]) == ("no_candidate_set", "b__t0", None)
    assert pictures[data["states"]["b__t0"]["screenshot"]] == toy.png(5)


def test_ready_made_rows_are_shown_by_their_messages(toy: Toy, shown: Shown) -> None:
    said = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "which?"}]}]
    nothing = dict.fromkeys(("label_id", "set_id", "state_id", "order", "prompt_id", "prompt_sha256"))
    reply = [{"role": "assistant", "content": [{"type": "text", "text": '{"selection": 1}'}]}]
    row = {"row_id": "r", **nothing, "prompt": said, "completion": reply, "images": [toy.data_url(4, "image/png")]}
    build = toy.build(
        sources=(toy.lay("selection_sft", "table", "ready.jsonl", [row, {**row, "row_id": "s", "prompt": 3}],
                         on_invalid="exclude"),),
        tables=("selection_sft",), images={"selection_sft": "embed"}, pairs=None,
        selection=SelectionSpec(PromptSpec("selection/1")),
    )  # fmt: skip
    data, pictures = shown(build)
    (item,) = data["items"]  # what was refused is in no table, and not shown
    assert (item["id"], item["state_id"], item["chosen_index"], item["order"]) == ("r", None, None, None)
    assert item["replies"][0][1][0]["content"][0]["text"] == '{"selection": 1}'
    assert item["prompt"][0]["content"][1]["text"] == "which?"
    assert pictures == {item["images"][0]: toy.png(4)}
    assert data["pictures"][item["images"][0]]["width"] == 8
    assert (data["states"], data["sets"], data["labels"]) == ({}, {}, {})
