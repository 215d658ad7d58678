"""A checkpoint whose files are not those of its manifest is not opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.inference import contract
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex

MANIFEST = json.loads((Path(__file__).parents[1] / "cards" / "model" / "scalar.json").read_text("utf-8"))
USED = ("adapter_model.safetensors", "adapter_config.json", "prompts/scalar-1.json")


def made(folder: Path, files: Any) -> Path:
    (folder / "prompts").mkdir()
    for name in (*USED, "evaluation.txt"):
        (folder / name).write_text(name)
    manifest = {"checkpoint": MANIFEST["checkpoint"], "environment": {"files": files}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def listed(*names: str) -> dict[str, Any]:
    return {name: {"sha256": sha256_hex(name.encode()), "bytes": len(name)} for name in names}


def test_files_that_are_the_manifests_own(tmp_path: Path) -> None:
    folder = made(tmp_path, listed(*USED, "../evaluation.txt", "evaluation/validation/predictions.jsonl"))
    assert contract.read(folder, "scalar") == MANIFEST["checkpoint"]
    (folder / "evaluation.txt").write_text("a person's note")
    assert contract.read(folder, "scalar")


@pytest.mark.parametrize("name", USED)
def test_a_file_that_was_changed_is_named(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path, listed(*USED))
    (folder / name).write_text("other")
    with pytest.raises(ArmError, match=r"is not the file that manifest\.json names") as told:
        contract.read(folder)
    assert told.value.where == str(folder / name)
    assert (told.value.next_command or "").startswith(f"arm verify {folder} ")
    assert sha256_hex(b"other") in told.value.message
    assert sha256_hex(name.encode()) in told.value.message


@pytest.mark.parametrize("files", [[], "x", {"a": None}, {"a": []}])
def test_a_manifest_that_says_nothing_sensible_of_files(tmp_path: Path, files: Any) -> None:
    with pytest.raises(ArmError, match="does not say which files"):
        contract.read(made(tmp_path, files))
