"""Stock `datasets` loads what the card describes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

Built = Callable[[], Path]


def test_the_bare_load_gives_the_selection_rows(built: Built, tmp_path: Path) -> None:
    data = datasets.load_dataset(str(built()), cache_dir=str(tmp_path / "cache"))
    assert {split: rows.num_rows for split, rows in data.items()} == {"train": 2, "validation": 2}
    assert data["train"][0]["images"][0].size == (2, 1)
    assert "completion" in data["train"].column_names


@pytest.mark.parametrize("streaming", [False, True])
def test_every_configuration_loads(
    built: Built, tmp_path: Path, manifest: dict[str, Any], streaming: bool
) -> None:  # fmt: skip
    folder = built()
    names = datasets.get_dataset_config_names(str(folder))
    assert sorted(names) == sorted(manifest["identity"]["tables"])
    for name in names:
        data = datasets.load_dataset(str(folder), name, streaming=streaming, cache_dir=str(tmp_path / "cache"))
        assert sorted(data) == sorted(manifest["identity"]["tables"][name]["splits"])
        for split in data.values():
            rows = list(split)
            assert len(rows) == 2
            assert set(rows[0]) == set(split.features)


def test_references_load_as_strings(built: Built, tmp_path: Path, manifest: dict[str, Any]) -> None:
    for table in manifest["identity"]["tables"].values():
        table["images"] = "reference"
    data = datasets.load_dataset(str(built()), "states", split="train", cache_dir=str(tmp_path / "cache"))
    assert data[0]["screenshot"] == "1"
