"""Rows that come ready-made beside those made here: one id is one row, one state one split, however they are built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.bucket import BucketResult
from action_reward_models.builders.importers.chat import without_nulls
from action_reward_models.builders.manifest import leakage
from action_reward_models.builders.spec import (
    GateSpec,
    PairSpec,
    PointwiseSpec,
    PromptSpec,
    SelectionSpec,
    SplitSpec,
    TrajectorySpec,
)
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.store import ID_FIELDS

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

TEXT = {"observation": "text"}
KINDS = ("selection_sft", "bt_pairs")
WHOLE = PromptSpec("trajectory/1", options={"history_window": 1000})
Rows = dict[str, list[dict[str, Any]]]


def _say(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


def _scored(row_id: str, text: str, score: float = 0.5, picture: str | None = None) -> dict[str, Any]:
    shown = [{"type": "image"}] if picture else []
    return {
        "score_id": row_id, "unit": "step", "state_id": None, "set_id": None, "candidate_index": None, "score": score,
        "score_source": "x", "prompt": [{"role": "user", "content": [*shown, {"type": "text", "text": text}]}],
        "completion": _say("stop()"), "prompt_id": None, "prompt_sha256": None, "images": [picture] if picture else [],
    }  # fmt: skip


def _build(toy: Toy, ready: Rows, reviews: list[dict[str, Any]] | None = None, **changes: Any) -> Build:
    conflict = changes.pop("conflict", "quarantine")
    more = []
    for kind, rows in ready.items():
        spoken = {"dialect": "function", "space": "pixel"} if kind == "bt_pairs" else {}
        more.append(toy.lay(kind, "table", f"{kind}.jsonl", rows, on_conflict=conflict, **spoken))
    if reviews:
        more.append(toy.lay("reviews", "review", "reviews.jsonl", reviews))
    tables = ("states", "selection_sft", "bt_pairs", "pointwise_scores")
    given: dict[str, Any] = {
        "selection": SelectionSpec(PromptSpec("selection/1", options=TEXT)),
        "pairs": PairSpec(PromptSpec("scalar/1", options=TEXT), trajectories=TrajectorySpec(WHOLE)),
        "pointwise": PointwiseSpec(PromptSpec("scalar/1", options=TEXT)),
        "split": SplitSpec(0.3, 1),
        "images": {"states": "embed", **dict.fromkeys(tables[1:], "embed")},
        "tables": tables,
    }
    build = toy.build(sources=(*toy.sources(), *more), **{**given, **changes})
    assert build.balanced()
    return build


def _records(build: Build, kind: str, prefix: str = "") -> list[dict[str, Any]]:
    """The rows of a table as another dataset's file of them holds them."""
    made = []
    for row in build.rows(kind):
        left = {k: v for k, v in row.items() if k not in ("rendered_sha256", "split")}
        for name in {"prompt", "completion", "chosen", "rejected"} & set(left):
            left[name] = without_nulls(left[name])
        made.append({**left, ID_FIELDS[kind]: prefix + row[ID_FIELDS[kind]], "images": []})
    return made


@pytest.fixture
def textual(toy: Toy) -> Toy:
    """Twelve text-only states of twelve tasks; every three look the same but for their task."""
    for number in range(12):
        toy.scene(f"e{number}", picture=None, task=f"Do {number}.", text=f"page {number % 4}")
    return toy


@pytest.mark.parametrize("shards", [1, 5])
def test_a_row_made_here_stands_and_its_repeat_is_excluded(shards: int, textual: Toy) -> None:
    alone = _build(textual, {}, pointwise=None, tables=("states", *KINDS))
    ready: Rows = {kind: _records(alone, kind) for kind in KINDS}
    other = ready["selection_sft"][3]
    other["completion"] = _say(json.dumps({"selection": 3 if "2" in json.dumps(other["completion"]) else 2}))
    build = _build(textual, ready, pointwise=None, tables=("states", *KINDS), shards=shards)
    for kind in KINDS:
        assert build.digests[kind] == alone.digests[kind]
    found = build.excluded("selection_sft")
    assert found["conflicting_id"] == [other["row_id"]]
    assert len(found["duplicate_record"]) == 11
    with pytest.raises(ArmError) as caught:
        _build(textual, ready, pointwise=None, tables=("states", *KINDS), shards=shards, conflict="error")
    (issue,) = caught.value.issues
    assert (issue.file, issue.line) == ("selection_sft.jsonl", 4)
    assert other["row_id"] in issue.message


def test_a_row_shares_the_split_of_its_state(textual: Toy) -> None:
    alone = _build(textual, {}, pointwise=None, tables=("states", *KINDS))
    ready: Rows = {kind: _records(alone, kind, "other-") for kind in KINDS}
    builds = [_build(textual, ready, pointwise=None, tables=("states", *KINDS), shards=shards) for shards in (1, 5)]
    assert builds[0].digests == builds[1].digests
    splits = {row["state_id"]: row["split"] for row in builds[0].rows("states")}
    assert set(splits.values()) == {"train", "validation"}
    for kind in KINDS:
        rows = builds[0].rows(kind)
        assert len(rows) == 2 * len(alone.rows(kind))
        assert {row["split"] == splits[row["state_id"]] for row in rows} == {True}


def test_one_id_is_one_row_whatever_it_shows(toy: Toy) -> None:
    """Its records show other pictures, so that nothing but the id brings them together."""
    toy.scene("e0")
    rows = [_scored(f"r{n}", "look", 0.1 * k, toy.data_url(10 * n + k)) for n in range(8) for k in (1, 2)]
    for shards in (1, 7):
        build = _build(toy, {"pointwise_scores": rows}, pairs=None, pointwise=None, selection=None,
                       tables=("states", "pointwise_scores"), shards=shards)  # fmt: skip
        assert build.excluded("pointwise_scores") == {"conflicting_id": sorted(f"r{n}" for n in range(8) for _ in "ab")}


def test_reviews_find_what_they_are_about_in_any_bucket(toy: Toy) -> None:
    for number in range(10):
        first = toy.message("user", f"Task: Do {number // 2}.", number)
        action = toy.response(f"click({number % 8}, 1)")
        toy.episode(f"e{number}", first, toy.message("assistant", action), metadata={"reward": number % 2})
    ready: Rows = {
        "pointwise_scores": [_scored(f"r{n}", "look", 0.5, toy.data_url(50 + n)) for n in range(10)],
        "selection_sft": [
            {
                **dict.fromkeys(("label_id", "set_id", "state_id", "order", "prompt_id", "prompt_sha256")),
                "row_id": f"r{n}", "prompt": _scored("", f"pick {n}")["prompt"],
                "completion": _say('{"selection": 1}'), "images": [],
            }
            for n in range(10)
        ],
    }  # fmt: skip
    items = [f"r{n}" for n in range(0, 10, 2)] + [f"e{n + 1}|e{n}|trajectory/1" for n in range(0, 10, 4)]
    said = [
        {"item_id": item, "verdict": "drop", "note": "", "reviewer": "r", "time": "2026-01-01T00:00:00Z"}
        for item in items
    ]
    builds = [_build(toy, ready, said, selection=None, pointwise=None, shards=shards) for shards in (1, 6)]
    one, many = builds
    assert one.digests == many.digests
    assert one.identity["ledger"] == many.identity["ledger"]
    assert one.identity["statistics"] == many.identity["statistics"]
    assert one.identity["ledger"]["reviews"]["out"] == len(items)
    for table in ("pointwise_scores", "selection_sft"):  # one verdict reaches all rows of its id
        assert one.excluded(table) == {"review_drop": [f"r{n}" for n in range(0, 10, 2)]}
    assert len(one.excluded("bt_pairs")["review_drop"]) == 3


def test_prompts_that_cross_are_counted_in_every_table() -> None:
    """Where they meet in no bucket, so that none of them could take the other out."""
    digest = b"d" * 32
    parts = [BucketResult(seen={("pointwise_scores", split): digest}) for split in ("train", "validation")]
    assert leakage(parts) == {"selection_sft": 0, "bt_pairs": 0, "pointwise_scores": 1}
    assert leakage(parts[:1])["pointwise_scores"] == 0


def test_screenshots_of_ready_made_rows_are_kept_apart_too(toy: Toy) -> None:
    """A row that came with a picture only is split by it, a state by its task: one picture, perhaps two splits."""
    for number in range(12):
        toy.scene(f"e{number}", picture=number, task=f"Do {number}.")
    rows = [_scored(f"r{number}", f"Rate {number}.", picture=toy.data_url(number)) for number in range(12)]

    def crossing(apart: bool) -> set[str]:
        build = _build(
            toy,
            {"pointwise_scores": rows},
            selection=SelectionSpec(PromptSpec("selection/1")),
            pairs=PairSpec(PromptSpec("scalar/1")),
            pointwise=None,
            split=SplitSpec(0.5, 1, isolate_screenshots=apart),
            shards=1,
            gates=GateSpec(leakage="warn"),
        )
        shown: dict[str, set[str]] = {"train": set(), "validation": set()}
        for table in ("selection_sft", "bt_pairs", "pointwise_scores"):
            for row in build.rows(table):
                shown[row["split"]].update(row["images"])
        assert shown["validation"]
        return shown["train"] & shown["validation"]

    assert crossing(apart=False)
    assert crossing(apart=True) == set()
