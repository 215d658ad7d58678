"""A built directory checked against its manifest: what was tampered with is found and named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from action_reward_models.builders import reader
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import canonical_json, sha256_hex

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Manifest = dict[str, Any]


@pytest.fixture
def build(toy: Toy) -> Build:
    for number in range(8):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    return toy.build(validation=0.5)


def _seal(folder: Path, change: Callable[[Manifest], None]) -> None:
    """Change the manifest and make its own digest right again."""
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    manifest["identity_sha256"] = sha256_hex(canonical_json(manifest["identity"]))
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))


def _rehash(folder: Path, path: Path) -> None:
    """Make the manifest's hash of a file that of its bytes as they are now."""
    sha256 = sha256_hex(path.read_bytes())
    name = path.relative_to(folder).as_posix()
    _seal(folder, lambda manifest: manifest["environment"]["files"][name].update(sha256=sha256))


def _rewrite(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the rows of a Parquet file and write them as they were written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def _found(folder: Path) -> list[str]:
    return [str(issue) for issue in reader.check(folder)]


def test_a_good_build_has_no_issues(build: Build) -> None:
    told: list[tuple[str, int, int]] = []
    assert reader.check(build.folder, lambda *step: told.append(step)) == []
    total = sum(table["rows"] for table in build.identity["tables"].values())
    assert told[-1] == ("checking", total, total)


def test_rows_come_back_as_they_were_written(build: Build) -> None:
    row = build.row("states", state_id="e3__t0")
    assert row["screenshot"] == f"sha256:{row['screenshot_sha256']}"
    assert row["history"] == [] == row["elements"]
    assert build.row("selection_sft", state_id="e3__t0")["images"] == [row["screenshot"]]


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_flipped_byte(build: Build) -> None:
    path = build.files("states")[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    (found,) = _found(build.folder)
    assert found.startswith(f"{path.relative_to(build.folder)} $ has sha256 {hashlib.sha256(data).hexdigest()[:12]}")


@pytest.mark.parametrize("at", [2000, -20])
def test_a_flipped_byte_under_a_new_hash(build: Build, at: int) -> None:
    path = build.files("bt_pairs")[0]
    data = bytearray(path.read_bytes())
    data[at] ^= 255
    path.write_bytes(data)
    _rehash(build.folder, path)
    assert any(found.startswith(f"{path.relative_to(build.folder)} $ cannot be read") for found in _found(build.folder))


@pytest.mark.parametrize(
    "name", ["data/states/train-00000-of-00001.parquet", "schemas/state-1.json", "prompts/scalar-1.json"]
)
def test_a_missing_file(build: Build, name: str) -> None:
    (build.folder / name).unlink()
    assert _found(build.folder) == [f"{name} $ is missing"]


def test_a_changed_schema(build: Build) -> None:
    path = build.folder / "schemas" / "state-1.json"
    path.write_bytes(path.read_bytes().replace(b"0-based", b"1-based"))
    (found,) = _found(build.folder)
    assert found.startswith("schemas/state-1.json $ has sha256")


def test_a_file_more(build: Build) -> None:
    """Stock loaders take every file of a folder."""
    name = "data/states/train-00001-of-00001.parquet"
    (build.folder / name).write_bytes(build.files("states")[0].read_bytes())
    assert _found(build.folder) == [f"{name} $ is not in the manifest"]
    entry = {"sha256": sha256_hex((build.folder / name).read_bytes()), "bytes": 1}
    _seal(build.folder, lambda manifest: manifest["environment"]["files"].update({name: entry}))
    assert _found(build.folder) == [f"{name} $ is not in the manifest"]  # a hash alone makes it no part of a table


@pytest.mark.parametrize("name", ["../outside.jsonl", "/etc/hostname", "data/../../outside.jsonl"])
def test_a_manifest_that_names_files_elsewhere(build: Build, name: str) -> None:
    entry = {"sha256": "0" * 64, "bytes": 0}
    _seal(build.folder, lambda manifest: manifest["environment"]["files"].update({name: entry}))
    with pytest.raises(ArmError, match="is no manifest") as caught:
        reader.check(build.folder)
    assert caught.value.issues[0].path == f"$.environment.files[{name!r}]"


def test_a_data_file_that_is_a_link_out(build: Build) -> None:
    path = build.files("states")[0]
    elsewhere = path.rename(build.folder.parent / "elsewhere.parquet")
    path.symlink_to(elsewhere)
    assert f"{path.relative_to(build.folder)} $ does not lie in the build" in _found(build.folder)


# -- rows --------------------------------------------------------------------------------------------------------------


def _tampered(build: Build, table: str, change: Callable[[list[dict[str, Any]]], Any]) -> list[str]:
    """Change the rows of a table's first file, keep the file hash right, and return what a check finds."""
    path = build.files(table)[0]
    _rewrite(path, change)
    _rehash(build.folder, path)
    name = str(path.relative_to(build.folder))
    found = _found(build.folder)
    assert any(text.startswith(name) for text in found)
    assert f"manifest.json $.identity.tables.{table}.row_digest is not the rows' digest" in found
    return found


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("states", "task", "another"), ("states", "turn", 7), ("teacher_labels", "selected_index", 1),
        ("selection_sft", "order", [2, 1, 0]), ("bt_pairs", "pair_type", "other"), ("exclusions", "source_id", "x"),
    ],
)  # fmt: skip
def test_a_changed_row_under_a_new_hash(toy: Toy, table: str, field: str, value: Any) -> None:
    """A label flip that a file hash no longer sees."""
    toy.scene("a")
    toy.page("b")  # no candidates: an exclusion
    found = _tampered(toy.build(), table, lambda rows: rows[0].update({field: value}))
    assert any("holds other rows than the manifest says" in text for text in found)


def test_swapped_pictures_under_a_new_hash(build: Build) -> None:
    def swap(rows: list[dict[str, Any]]) -> None:
        rows[0]["screenshot"], rows[1]["screenshot"] = rows[1]["screenshot"], rows[0]["screenshot"]

    assert any("holds other rows" in text for text in _tampered(build, "states", swap))


def test_a_lost_row(build: Build) -> None:
    assert any("rows read)" in text for text in _tampered(build, "bt_pairs", lambda rows: rows.pop()))


def test_a_row_twice(build: Build) -> None:
    _tampered(build, "bt_pairs", lambda rows: rows.append(rows[0]))


def test_a_row_that_breaks_its_schema(build: Build) -> None:
    found = _tampered(build, "bt_pairs", lambda rows: rows[0].update(pair_type="good", chosen_index=-1))
    assert any(text.endswith("row 0 $.chosen_index is -1, below the least allowed 0") for text in found)
    assert any('row 0 $.pair_type is "good", not one of' in text for text in found)


def test_a_row_in_the_file_of_the_other_split(build: Build) -> None:
    found = _tampered(build, "states", lambda rows: rows[0].update(split="validation"))
    assert any(text.endswith("row 0 $.split is 'validation' in a file of train") for text in found)


def test_a_file_of_another_table(build: Build) -> None:
    path = build.files("states")[0]
    path.write_bytes(build.files("bt_pairs")[0].read_bytes())
    _rehash(build.folder, path)
    assert any(text.startswith(f"{path.relative_to(build.folder)} $ cannot be read") for text in _found(build.folder))


def test_the_order_of_the_rows_is_no_content(build: Build) -> None:
    path = build.files("states")[0]
    _rewrite(path, lambda rows: rows.reverse())
    _rehash(build.folder, path)
    assert _found(build.folder) == []


def test_where_a_record_was_read_is_no_content(build: Build) -> None:
    path = build.files("states")[0]
    _rewrite(path, lambda rows: rows[0]["source"].update(file="moved.jsonl"))
    _rehash(build.folder, path)
    assert _found(build.folder) == []


# -- the manifest ------------------------------------------------------------------------------------------------------


def test_a_changed_count(build: Build) -> None:
    manifest = orjson.loads((build.folder / "manifest.json").read_bytes())
    manifest["identity"]["tables"]["states"]["rows"] = 9
    (build.folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    assert _found(build.folder) == [
        "manifest.json $.identity.tables.states.rows is 9, its files have 8",
        "manifest.json $.identity_sha256 is not the digest of identity",
    ]


def test_changed_counts_under_a_new_digest(build: Build) -> None:
    def change(manifest: Manifest) -> None:
        train = manifest["identity"]["tables"]["states"]["splits"]["train"]
        train["rows"] += 1
        train["files"][0]["rows"] += 1

    _seal(build.folder, change)
    found = _found(build.folder)
    assert any(text.startswith("data/states/train-00000-of-00001.parquet $ holds other rows") for text in found)
    assert "manifest.json $.identity.tables.states.rows is 8, its files have 9" in found


def test_a_data_file_without_a_hash(build: Build) -> None:
    name = "data/states/train-00000-of-00001.parquet"
    _seal(build.folder, lambda manifest: manifest["environment"]["files"].pop(name))
    assert f"{name} $ has no hash in the manifest" in _found(build.folder)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "is no finished build"),
        (b"{", "is not JSON"),
        (b"[]", "is no manifest"),
        (b'{"manifest": 99}', "is no manifest"),
    ],
)
def test_no_manifest_no_build(build: Build, data: bytes | None, message: str) -> None:
    """The manifest is written last: without it a folder is not complete."""
    path = build.folder / "manifest.json"
    path.unlink() if data is None else path.write_bytes(data)
    with pytest.raises(ArmError, match=message):
        reader.check(build.folder)


def test_a_table_that_was_not_read_is_no_clean_table(build: Build) -> None:
    """Another schema, or a table of another name: its rows cannot be checked, and that is said."""

    def change(manifest: Manifest) -> None:
        tables = manifest["identity"]["tables"]
        tables["states"]["schema"] = "state/9"
        tables["foo"] = tables.pop("bt_pairs")

    _seal(build.folder, change)
    found = {issue.path: issue.message for issue in reader.check(build.folder)}
    assert found["$.identity.tables.states.schema"].startswith("is 'state/9', which this version does not know")
    assert "$.identity.tables.foo.schema" in found


def test_a_missing_card_is_named(build: Build) -> None:
    (build.folder / "README.md").unlink()
    assert [issue.file for issue in reader.check(build.folder)] == ["README.md"]
