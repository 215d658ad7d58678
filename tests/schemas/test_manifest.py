"""A manifest read from a folder or from bytes: what is none is refused, and so is a path that a disk would mistake."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.schemas import store, validate
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.manifest import is_safe_path, manifest_of, parse
from jsonschema import Draft202012Validator

GOOD = json.loads((Path(__file__).parents[1] / "cards" / "manifest.json").read_text("utf-8"))
SAFE = [
    "load.py", "LICENSE", "data/states/train-00000-of-00001.parquet", "a/b/c/d.e-f_g.h", "_/__init__.py", "a..b", "x-",
    "CONSOLE.txt", "nullable/icon", "com10", "aux_/a", "a" * 200, "a/" * 511 + "aa",
]  # fmt: skip
UNSAFE = [
    "", "/", "/etc/passwd", "//host/share", "a//b", "a/", "./a", "../a", "a/../b", "a/..", "a/.", "..", ".", "~/a",
    "a\\b", "..\\a", "C:/a", "C:a", "a:stream", "a\n", "a\nb", "a\x00", "a\x1f/b", "a\x7f", "a b", " a", "a ", "-rf",
    "a/-b", ".git/config", ".env", "a/.b", "a.", "a./b", "a..", "é", "a\u202eb", "a%2Fb", "a?b", "a*", "a|b", "a#b",
    "CON", "con", "nul.txt", "a/AUX", "Prn/a", "COM1", "lpt9.parquet", "data/com0.a.b/c", "a" * 201, "a/" * 512 + "a",
]  # fmt: skip


def with_path(path: str) -> dict[str, Any]:
    """A manifest whose first file of a table is called ``path``, in both places."""
    manifest: dict[str, Any] = copy.deepcopy(GOOD)
    files = manifest["environment"]["files"]
    (file,) = manifest["identity"]["tables"]["states"]["splits"]["train"]["files"]
    files[path] = files.pop(file["path"])
    file["path"] = path
    return manifest


@pytest.mark.parametrize("path", SAFE)
def test_a_plain_path(path: str) -> None:
    manifest = with_path(path)
    assert is_safe_path(path)
    assert parse(json.dumps(manifest).encode(), "here") == manifest
    assert Draft202012Validator(store.load("manifest/1")).is_valid(manifest)


@pytest.mark.parametrize("path", UNSAFE)
def test_a_path_that_leads_elsewhere_or_that_a_system_reads_in_another_way(path: str) -> None:
    assert not is_safe_path(path)
    manifest = with_path(path)
    with pytest.raises(ArmError, match="is no manifest of version 1") as caught:
        parse(json.dumps(manifest).encode(), "here")
    places = {issue.path for issue in caught.value.issues}
    assert places == {
        validate.json_path(["environment", "files", path]),
        "$.identity.tables.states.splits.train.files[0].path",
    }
    assert all(issue.file == "here" and issue.message.isprintable() for issue in caught.value.issues)
    assert not Draft202012Validator(store.load("manifest/1")).is_valid(manifest)


@pytest.mark.parametrize(("field", "value"), [
    *(("name", value) for value in ("", "../x", "/x", "a/b", ".a", "-a", "a b", "a\n", "a\nb: c", "é", "a" * 97)),
    *(("namespace", value) for value in ("", "a/b", "..", "a\r")),
    *(("version", value) for value in ("", "1", "1.0", "v1.0.0", "1.0.0\n", "1.0.0/../x", "01.0.0")),
])  # fmt: skip
def test_names_that_become_those_of_files_are_plain(field: str, value: str) -> None:
    """A page, a recipe and a file of an export are named after the dataset, whoever published it."""
    manifest: dict[str, Any] = copy.deepcopy(GOOD)
    manifest["identity"][field] = value
    with pytest.raises(ArmError, match="is no manifest of version 1") as caught:
        parse(json.dumps(manifest).encode(), "here")
    assert {issue.path for issue in caught.value.issues} == {f"$.identity.{field}"}
    assert not Draft202012Validator(store.load("manifest/1")).is_valid(manifest)


def test_the_message_says_what_is_wrong_with_a_path() -> None:
    with pytest.raises(ArmError) as caught:
        parse(json.dumps(with_path("data/nul")).encode(), "here")
    assert 'is "data/nul", which holds a control character, a part that ends with a dot' in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"null", "is no manifest"),
        (b'{"manifest": 2}', "is no manifest"),
        (b'{"model_manifest": 1}', "is the manifest of a checkpoint, and the manifest of a dataset is expected"),
        (json.dumps({**GOOD, "more": 1}).encode(), "is no manifest"),
    ],
)
def test_what_is_no_manifest(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArmError, match=message) as caught:
        parse(data, "over there")
    assert caught.value.where == "over there"
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(ArmError, match=message) as caught:
        manifest_of(tmp_path)
    assert caught.value.where == str(tmp_path / "manifest.json")


def test_a_folder_without_one_is_no_finished_build(tmp_path: Path) -> None:
    with pytest.raises(ArmError, match="is no finished build"):
        manifest_of(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(GOOD), "utf-8")
    assert manifest_of(tmp_path) == GOOD
