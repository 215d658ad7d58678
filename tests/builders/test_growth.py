"""A dataset that grows by a tenth: no old row changes, no old row moves to the other split, nothing but additions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.registry import Registry
from action_reward_models.registry.diff import Side, compare
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.store import ID_FIELDS, TABLES

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"
NAME = "action-reward-models-data"
WHOLE = {"bt_pairs": ("prompt: scalar/1", "prompt: scalar/1, max_pairs_per_state: 3, negatives: {corrupted: 1}")}


def _built(folder: Path, episodes: int) -> Path:
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    lines = (EXAMPLE / "data" / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "data" / "episodes.jsonl").write_bytes(b"".join(lines[:episodes]))
    registry = folder / "registry.yaml"
    text = registry.read_text("utf-8")
    for old, new in WHOLE.values():
        assert old in text
        text = text.replace(old, new)
    extra = "      actor_sft: {random_control: true}\n      reserve: {}\n"
    registry.write_text(text.replace("      bt_pairs:", f"{extra}      bt_pairs:"), "utf-8")
    Registry.load(folder).build(workers=1)
    return folder / "build" / NAME


def _rows(build: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for table in set(TABLES) - {"exclusions"}:
        for path in sorted((build / "data" / table).glob("*.parquet")):
            for row in built_rows(path, TABLES[table]):
                row.pop("source", None)  # where a record stood is no content
                found[table, row[ID_FIELDS[table]]] = row
    return found


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("grown")
    return _built(folder / "old", 36), _built(folder / "new", 40)


def test_no_old_row_and_no_old_split_changes(grown: tuple[Path, Path]) -> None:
    old, new = map(_rows, grown)
    assert len(new) > len(old) > 500
    assert {key for key in old if new.get(key) != old[key]} == set()


def test_the_difference_shows_only_additions(grown: tuple[Path, Path]) -> None:
    """Sets and labels of the later episodes were excluded for want of their states; those exclusions go."""
    diff = compare(Side.folder(grown[0]), Side.folder(grown[1]))
    tables = {name: table.total for name, table in diff.tables.items() if name != "exclusions"}
    assert set(tables) >= {"states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs", "actor_sft"}
    for counts in tables.values():
        assert (counts.removed, counts.changed, counts.moved_in, counts.moved_out) == (0, 0, 0, 0)
    assert {name for name, counts in tables.items() if not counts.added} <= {"reserve"}
