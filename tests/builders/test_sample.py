"""The bundled example: every count, and a name for every difference."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.reader import check
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.store import TABLES

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob" / "registry.yaml"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("sample") / "build"
    made, why = Registry.load(EXAMPLE).build(out=folder, workers=1)
    assert made is not None
    assert why == ["there is no build yet"]
    return folder, made.manifest


def read(folder: Path, table: str) -> list[dict[str, Any]]:
    return [
        row for path in sorted((folder / "data" / table).glob("*.parquet")) for row in built_rows(path, TABLES[table])
    ]


def test_counts(built: tuple[Path, dict[str, Any]]) -> None:
    """40 episodes -> 153 states -> 117 sets and labels -> 96 SFT rows, and 388 comparisons -> 183 pairs."""
    folder, manifest = built
    tables = {name: table["rows"] for name, table in manifest["identity"]["tables"].items()}
    assert tables == {
        "states": 153,
        "candidate_sets": 117,
        "teacher_labels": 117,
        "selection_sft": 96,
        "bt_pairs": 183,
        "exclusions": 36 + 21 + 205,
    }
    states = read(folder, "states")
    assert len({row["episode_id"] for row in states}) == 40
    assert len({row["screenshot_sha256"] for row in states}) == 116
    assert {(row["width"], row["height"]) for row in states} == {(320, 420)}
    sets = read(folder, "candidate_sets")
    assert {row["n"] for row in sets} == {5}
    assert not [c for row in sets for c in row["candidates"] if c["parse_error"]]
    labels = read(folder, "teacher_labels")
    assert Counter(row["status"] for row in labels) == {"ok": 97, "null_in_source": 20}


def test_every_difference_is_named(built: tuple[Path, dict[str, Any]]) -> None:
    folder, manifest = built
    excluded = Counter((row["stage"], row["reason"]) for row in read(folder, "exclusions"))
    assert excluded == {
        ("coverage", "no_candidate_set"): 36,  # the scripted stop turns
        ("selection_sft", "null_in_source"): 20,
        ("selection_sft", "single_distinct_action"): 1,
        ("bt_pairs", "identical"): 107,  # the same action as the pick, in other words or the same
        ("bt_pairs", "duplicate_loser"): 18,
        ("bt_pairs", "over_budget"): 80,  # two pairs a set
    }
    ledger = manifest["identity"]["ledger"]
    assert (ledger["bt_pairs"]["in"], ledger["bt_pairs"]["out"]) == (388, 183)
    assert (ledger["selection_sft"]["in"], ledger["selection_sft"]["out"]) == (117, 96)
    for stage, entry in ledger.items():
        assert entry["in"] == entry["out"] + sum(entry["excluded"].values()), stage
    uncovered = {row["source_id"] for row in read(folder, "exclusions") if row["stage"] == "coverage"}
    stops = {row["state_id"] for row in read(folder, "states") if 'stop("done")' in row["demo_response"]}
    assert uncovered <= stops


def test_rows_fit_together(built: tuple[Path, dict[str, Any]]) -> None:
    """Every id leads to its row, every reply to the teacher's pick, every pair to two different actions."""
    folder, _ = built
    sets = {row["set_id"]: row for row in read(folder, "candidate_sets")}
    labels = {row["label_id"]: row for row in read(folder, "teacher_labels")}
    states = {row["state_id"]: row for row in read(folder, "states")}
    for row in read(folder, "selection_sft"):
        candidates, label = sets[row["set_id"]]["candidates"], labels[row["label_id"]]
        reply = row["completion"][0]["content"][0]["text"]
        shown = [candidates[i]["action_key"] for i in row["order"]]
        assert len(set(shown)) == len(shown)
        (position,) = [n for n in range(1, len(shown) + 1) if reply == f'{{"selection": {n}}}']
        assert shown[position - 1] == candidates[label["selected_index"]]["action_key"]
        text = row["prompt"][1]["content"][-1]["text"]
        assert f"{position}. Action: {candidates[row['order'][position - 1]]['action']}\n" in text
        assert row["images"] == [states[row["state_id"]]["screenshot"]]
        assert row["split"] == states[row["state_id"]]["split"]
    for row in read(folder, "bt_pairs"):
        candidates, label = sets[row["set_id"]]["candidates"], labels[row["label_id"]]
        assert row["chosen_index"] == label["selected_index"]
        assert candidates[row["chosen_index"]]["action_key"] != candidates[row["rejected_index"]]["action_key"]
        assert row["chosen"][0]["content"][0]["text"] == f"Action: {candidates[row['chosen_index']]['action']}"
        assert row["rejected"][0]["content"][0]["text"] == f"Action: {candidates[row['rejected_index']]['action']}"
        assert "think" not in str(row["chosen"])


def test_built_directory_checks_clean(built: tuple[Path, dict[str, Any]]) -> None:
    assert check(built[0]) == []
