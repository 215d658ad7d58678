"""Datasets for TRL: its trainers' columns and no other, loadable with stock `datasets`, pictures byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import pyarrow.parquet as pq
import pytest
from action_reward_models.builders.exporters import export, trl
from action_reward_models.builders.exporters.training import NOT_HERE
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.tests.builders.exporters import hostile

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Row = dict[str, Any]
CONFIGS = ("selection_sft", "actor_sft", "actor_sft_random_control", "bt_pairs")


@pytest.fixture
def made(toy: Toy) -> Build:
    hostile.fill(toy)
    return hostile.build(toy)


def files(out: Path, config: str) -> list[Row]:
    """All rows of a config, as they stand in the files."""
    return [row for path in sorted((out / config).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def told(rows: list[Row], *columns: str) -> list[str]:
    """Rows in any order."""
    return sorted(json.dumps([row[column] for column in columns]) for row in rows)


def test_stock_datasets_loads_every_config(made: Build, tmp_path: Path) -> None:
    found = export("trl", made.folder, tmp_path / "out")
    assert not found.reasons
    names = datasets.get_dataset_config_names(str(tmp_path / "out"))
    assert sorted(names) == sorted(CONFIGS)
    for config in names:
        loaded = datasets.load_dataset(str(tmp_path / "out"), config, cache_dir=str(tmp_path / "cache"))
        table = config.removesuffix("_random_control")
        assert loaded["train"].column_names == [*trl.COLUMNS[table], "images"]
        assert {split: rows.num_rows for split, rows in loaded.items()} == {
            split: sum(n for name, n in found.files.items() if name.startswith(f"{config}/{split}-"))
            for split in ("train", "validation")
        }
        picture = loaded["train"][0]["images"][0]
        assert picture.mode == "RGB"  # decoded
    bare = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert "completion" in bare.column_names


def test_rows_are_the_builds_with_their_pictures(made: Build, tmp_path: Path) -> None:
    export("trl", made.folder, tmp_path / "out")
    for table, columns in trl.COLUMNS.items():
        given = [row for row in made.rows(table) if row.get("selected_by") != "random_control"]
        rows = files(tmp_path / "out", table)
        for row in rows:
            row["images"] = [f"sha256:{sha256_hex(image['bytes'])}" for image in row["images"]]
        assert told(rows, *columns, "images") == told(given, *columns, "images")
        assert len(rows) >= 12
    controls = made.rows("actor_sft", selected_by="random_control")
    assert told(files(tmp_path / "out", "actor_sft_random_control"), "completion") == told(controls, "completion")
    splits = {row["split"] for row in made.rows("bt_pairs")}
    assert {path.name.partition("-")[0] for path in (tmp_path / "out" / "bt_pairs").iterdir()} == splits


def test_what_is_left_behind_is_counted(made: Build, tmp_path: Path) -> None:
    found = export("trl", made.folder, tmp_path / "out")
    assert found.pictures == len(
        {image for table in trl.COLUMNS for row in made.rows(table) for image in row["images"]}
    )
    assert found.left_out["selection_sft.order"] == len(made.rows("selection_sft"))
    assert found.left_out["bt_pairs.pair_id"] == len(made.rows("bt_pairs"))
    assert "bt_pairs.margin" not in found.left_out  # no row has one
    assert not any(fact.partition(".")[2] == "prompt" for fact in found.left_out)
    (note,) = found.notes
    assert note.startswith("RewardTrainer looks at no pictures")
    readme = (tmp_path / "out" / "README.md").read_text("utf-8")
    for prompt in made.identity["prompts"]:
        assert prompt["sha256"] in readme
    assert readme.endswith(f"## What was lost\n\n{found.lost()}\n")
    assert f"- no column for selection_sft.order ({len(made.rows('selection_sft'))} rows)\n" in readme


def test_rows_without_pictures_have_no_column_for_them(toy: Toy, tmp_path: Path) -> None:
    """A trainer takes a dataset with the column for one that needs a processor."""
    said = hostile.message("user", "Go.")
    ready = [("selection_sft", [hostile.selection(f"row {n}", said) for n in range(3)])]
    changes = {"selection": None, "pairs": None, "actor_sft": None, "images": {"selection_sft": "embed"}}
    build = hostile.build(toy, *ready, tables=("selection_sft",), **changes)
    found = export("trl", build.folder, tmp_path / "out")
    assert (found.pictures, found.notes) == (0, [])
    assert set(files(tmp_path / "out", "selection_sft")[0]) == {"prompt", "completion"}


@pytest.mark.parametrize("fmt", ["trl", "openai_finetuning", "first_release_rows"])
def test_pictures_that_rows_only_refer_to_are_found(fmt: str, toy: Toy, tmp_path: Path) -> None:
    """Embedded in `states`, once; without that table there is nothing to be found."""
    hostile.fill(toy)
    referred = {"images": {"states": "embed", **dict.fromkeys(trl.COLUMNS, "reference")}}
    embedded, build = hostile.build(toy), hostile.build(toy, **referred)
    for name, folder in (("one", embedded.folder), ("two", build.folder)):
        found = export(fmt, folder, tmp_path / name)
        assert not found.reasons
        assert found.pictures
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    alone = hostile.build(toy, tables=("selection_sft",), images={"selection_sft": "reference"},
                          pairs=None, actor_sft=None)  # fmt: skip
    with pytest.raises(ArmError, match="has no row that") as caught:
        export(fmt, alone.folder, tmp_path / "three")
    assert f"selection_sft: {NOT_HERE} (12)" in caught.value.message
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == ".") == []


def contents(folder: Path) -> dict[str, str]:
    """The files but those that name their build."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"]
    return {path.relative_to(folder).as_posix(): sha256_hex(path.read_bytes()) for path in paths}


def test_large_tables_become_several_files_of_small_groups(
    made: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export("trl", made.folder, tmp_path / "whole")
    monkeypatch.setattr(trl, "ROW_GROUP_BYTES", 3_000)
    monkeypatch.setattr(trl, "_FILE_BYTES", 6_000)
    found = export("trl", made.folder, tmp_path / "cut")
    paths = sorted((tmp_path / "cut" / "bt_pairs").glob("train-*.parquet"))
    assert len(paths) > 2
    assert paths[0].name == "train-00000.parquet"
    assert all(pq.ParquetFile(path).num_row_groups > 1 for path in paths[:-1])
    assert found.files[f"bt_pairs/{paths[0].name}"] == pq.ParquetFile(paths[0]).metadata.num_rows
    for config in CONFIGS:
        cut, whole = files(tmp_path / "cut", config), files(tmp_path / "whole", config)
        assert [row["prompt"] for row in cut] == [row["prompt"] for row in whole]
    loaded = datasets.load_dataset(str(tmp_path / "cut"), "bt_pairs", cache_dir=str(tmp_path / "cache"))
    assert sum(rows.num_rows for rows in loaded.values()) == len(made.rows("bt_pairs"))
