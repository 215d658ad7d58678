"""Rows of a built directory by column and by id: what is not asked for is not read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.schemas.arrow import arrow_schema
from action_reward_models.schemas.built import BuiltTables, built_rows
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex

PNG = b"\x89PNG\r\n\x1a\n"


def row(number: int, **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": [{"type": "text", "text": f"{number}"}]}]
    picture = {"bytes": PNG + bytes([number]), "path": "p.png"}
    return {
        "row_id": f"r{number}", "state_id": "s", "set_id": "s#d0", "label_id": None, "prompt": said, "completion": said,
        "selected_by": "teacher", "quality": None, "rendered_sha256": "0" * 64, "images": [picture], "split": "train",
        **more,
    }  # fmt: skip


@pytest.fixture
def tables(tmp_path: Path) -> BuiltTables:
    """Two files of 40 and 5 rows, the first in row groups of 10."""
    files = []
    for name, numbers in (("a.parquet", range(40)), ("b.parquet", range(40, 45))):
        made = pa.Table.from_pylist([row(n) for n in numbers], schema=arrow_schema("actor_sft/1"))
        pq.write_table(made, tmp_path / name, row_group_size=10)
        files.append({"path": name, "rows": len(numbers), "row_digest": ""})
    entry = {"schema": "actor_sft/1", "rows": 45, "splits": {"train": {"rows": 45, "files": files}}}
    return BuiltTables(tmp_path, {"tables": {"actor_sft": entry}})


def test_one_split_of_some_tables_or_of_all_that_are_split(tables: BuiltTables) -> None:
    whole = tables.identity["tables"]["actor_sft"]
    (a, b) = whole["splits"]["train"]["files"]
    parts = {"train": {"rows": 40, "files": [a]}, "validation": {"rows": 5, "files": [b]}}
    entry = {**whole, "splits": parts}
    build = replace(tables, identity={"tables": {"actor_sft": entry, "other": entry, "exclusions": entry}})

    def held(of: BuiltTables) -> dict[str, tuple[int, list[str]]]:
        return {name: (one["rows"], list(one["splits"])) for name, one in of.identity["tables"].items()}

    both, one = (45, ["train", "validation"]), (5, ["validation"])
    assert held(build.of_split("validation")) == {"actor_sft": one, "other": one, "exclusions": both}
    assert held(build.of_split("validation", "other")) == {"actor_sft": both, "other": one, "exclusions": both}
    read = build.of_split("validation").columns("actor_sft", ["row_id"])
    assert [row["row_id"] for row in read] == [f"r{n}" for n in range(40, 45)]


def test_columns_are_read_alone(tables: BuiltTables) -> None:
    found = list(tables.columns("actor_sft", ["row_id", "split"]))
    assert found == [{"row_id": f"r{n}", "split": "train"} for n in range(45)]


def test_columns_of_some_rows_are_those_of_all(tables: BuiltTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a column that is read or by another; row groups without any are left out."""
    wanted = {"r0", "r9", "r25", "r26", "r44", "elsewhere"}
    for names in (["row_id", "state_id"], ["state_id"]):
        whole = [one for one in tables.columns("actor_sft", ["row_id", "state_id"]) if one["row_id"] in wanted]
        found = list(tables.columns("actor_sft", names, among=("row_id", wanted)))
        assert found == [{name: one[name] for name in names} for one in whole]
    assert list(tables.columns("actor_sft", ["row_id"], among=("row_id", set()))) == []
    groups: list[list[int]] = []
    read = pq.ParquetFile.iter_batches

    def counted(*file: Any, **how: Any) -> Any:
        groups.append(how["row_groups"])
        return read(*file, **how)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    assert len(list(tables.columns("actor_sft", ["row_id"], among=("row_id", wanted)))) == 5
    assert groups == [[0], [2], [0]]


@pytest.mark.parametrize(("column", "values", "message"), [
    ("row_id", pa.array([5]), "its column row_id holds int64, not string"),
    ("row_id", pa.array([None], pa.string()), "its column row_id holds null"),
    ("selected_by", pa.array([{"a": 1}]), "its column selected_by holds struct<a: int64>, not string"),
    ("row_id", None, "it has no column row_id"),
])  # fmt: skip
def test_columns_of_another_type_are_refused(
    tables: BuiltTables, column: str, values: pa.Array | None, message: str
) -> None:
    """A published file may hold anything: what reads a few columns of it compares and cuts them as texts."""
    made = pa.Table.from_pylist([row(1)], schema=arrow_schema("actor_sft/1"))
    place = made.schema.names.index(column)
    made = made.remove_column(place) if values is None else made.set_column(place, column, values)
    pq.write_table(made, tables.folder / "b.parquet")
    with pytest.raises(ArmError) as caught:
        list(tables.columns("actor_sft", ["label_id", "row_id", "selected_by"]))
    assert caught.value.message == f"cannot be read: {message}"
    assert caught.value.where == str(tables.folder / "b.parquet")


def test_some_rows_are_those_of_all_rows(tables: BuiltTables) -> None:
    whole = list(tables.rows("actor_sft"))
    wanted = {"r0", "r9", "r25", "r26", "r44", "elsewhere"}
    pictures: dict[str, bytes] = {}
    assert list(tables.some("actor_sft", "row_id", wanted, pictures.__setitem__)) == [
        one for one in whole if one["row_id"] in wanted
    ]
    assert pictures == {f"sha256:{sha256_hex(PNG + bytes([n]))}": PNG + bytes([n]) for n in (0, 9, 25, 26, 44)}
    assert list(tables.some("actor_sft", "row_id", set())) == []
    assert whole == [one for name in ("a", "b") for one in built_rows(tables.folder / f"{name}.parquet", "actor_sft/1")]


def test_some_rows_are_held_against_their_schema(tables: BuiltTables) -> None:
    bad = pa.Table.from_pylist([row(1), row(2, selected_by="nobody")], schema=arrow_schema("actor_sft/1"))
    pq.write_table(bad, tables.folder / "b.parquet")
    assert [one["row_id"] for one in tables.some("actor_sft", "row_id", {"r1"})] == ["r1", "r1"]
    with pytest.raises(ArmError, match=r"row 'r2' .*selected_by") as caught:
        list(tables.some("actor_sft", "row_id", {"r2"}))
    assert (caught.value.where, caught.value.next_command) == (
        str(tables.folder / "b.parquet"), f"arm validate {tables.folder}",
    )  # fmt: skip


def test_progress_counts_rows_to_the_end(tables: BuiltTables) -> None:
    told: list[tuple[str, int, int]] = []
    read = BuiltTables(tables.folder, tables.identity, lambda *step: told.append(step), "looking")
    list(read.some("actor_sft", "row_id", {"r44"}))
    assert told[-1] == ("looking", 45, 45)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_files_may_be_fetched_when_they_are_read(tables: BuiltTables) -> None:
    fetched: list[str] = []

    def fetch(name: str) -> Path:
        fetched.append(name)
        return tables.folder / name

    remote = BuiltTables(Path("ns/name@1"), tables.identity, fetch=fetch, check="arm verify ns/name@1")
    assert len(list(remote.columns("actor_sft", ["row_id"]))) == 45
    assert fetched == ["a.parquet", "b.parquet"]
    (tables.folder / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArmError, match="cannot be read") as caught:
        list(remote.rows("actor_sft"))
    assert (caught.value.where, caught.value.next_command) == ("ns/name@1/b.parquet", "arm verify ns/name@1")


@pytest.mark.parametrize("name", ["../a.parquet", "/etc/passwd", "sub/../../a.parquet"])
def test_no_path_leads_out_of_the_build(tables: BuiltTables, name: str) -> None:
    tables.identity["tables"]["actor_sft"]["splits"]["train"]["files"][0]["path"] = name
    with pytest.raises(ArmError, match="does not lie in the build"):
        list(tables.columns("actor_sft", ["row_id"]))
