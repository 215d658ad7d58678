"""Arrow types and features come from the schema alone, and a row survives Parquet with its digest."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.builders.importers import IMPORTERS
from action_reward_models.schemas import arrow, digests, store
from action_reward_models.schemas.arrow import Images
from action_reward_models.schemas.validate import for_schema

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCE_RECORDS = {importer.schema for importer in IMPORTERS.values()} - {*store.TABLES.values()}
ROWS = sorted({f"{folder.name}/1" for folder in EXAMPLES.iterdir()} - SOURCE_RECORDS)
PICTURES = {f"sha256:{hashlib.sha256(data).hexdigest()}": data for data in (b"picture", b"second")}
MODES: tuple[Images, ...] = ("embed", "reference")


def good_rows(name: str) -> list[Any]:
    folder = EXAMPLES / name.partition("/")[0] / "good"
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.iterdir())]


def hard_rows(name: str) -> list[Any]:
    """The good rows, and one whose lists are empty where they may be."""
    rows = good_rows(name)
    empty = copy.deepcopy(rows[0])
    for field, node in store.load(name)["properties"].items():
        if "array" in node["type"] and not node.get("minItems"):
            empty[field] = []
    assert for_schema(name).problems(empty) == []
    return [*rows, empty]


def embedded(name: str, row: Any) -> Any:
    row = dict(row)
    for column, many in arrow.image_columns(name).items():
        stored = [{"bytes": PICTURES[p], "path": None} for p in (row[column] if many else [row[column]]) if p]
        row[column] = stored if many else next(iter(stored), None)
    return row


def referenced(name: str, row: Any) -> Any:
    row = dict(row)
    for column, many in arrow.image_columns(name).items():
        named = [
            f"sha256:{hashlib.sha256(p['bytes']).hexdigest()}" for p in (row[column] if many else [row[column]]) if p
        ]
        row[column] = named if many else next(iter(named), None)
    return row


def write(path: Path, name: str, mode: Images, rows: list[Any]) -> Path:
    stored = [embedded(name, row) for row in rows] if mode == "embed" else rows
    pq.write_table(pa.Table.from_pylist(stored, schema=arrow.arrow_schema(name, mode)), path)
    return path


def is_the_schema(read: pa.Schema, name: str, mode: Images) -> bool:
    """Parquet calls the items of a list ``element``, Arrow ``item``; all else must be equal."""
    ours = arrow.arrow_schema(name, mode)
    again = pa.schema([pa.field(field.name, arrow_named(field.type)) for field in read], metadata=read.metadata)
    return bool(again.equals(ours, check_metadata=True))


def arrow_named(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, arrow_named(field.type)) for field in kind])
    return pa.list_(arrow_named(kind.value_type)) if pa.types.is_list(kind) else kind


def digests_of(name: str, rows: list[Any]) -> list[bytes]:
    return [digests.for_schema(name).digest(row) for row in rows]


def test_all_row_schemas_are_here() -> None:
    assert len(ROWS) == 14
    assert set(store.TABLES.values()) <= set(ROWS)
    assert {name: arrow.image_columns(name) for name in ROWS if arrow.image_columns(name)} == {
        "state/1": {"screenshot": False},
        "selection_sft/1": {"images": True},
        "bt_pair/1": {"images": True},
        "pointwise_score/1": {"images": True},
        "actor_sft/1": {"images": True},
        "reserve/1": {"images": True},
        "bench_item/1": {"images": True},
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ROWS)
def test_datasets_derives_the_same_arrow_schema(name: str, mode: Images) -> None:
    ours = arrow.arrow_schema(name, mode)
    features = datasets.Features.from_dict(arrow.features(name, mode))
    assert ours.equals(features.arrow_schema, check_metadata=True)
    assert datasets.Features.from_arrow_schema(ours) == features
    assert features.to_dict() == arrow.features(name, mode)
    assert list(features) == list(store.load(name)["properties"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ROWS)
def test_only_types_that_every_reader_has(name: str, mode: Images) -> None:
    def leaf_types(kind: pa.DataType) -> set[str]:
        if pa.types.is_struct(kind):
            return {leaf for field in kind for leaf in leaf_types(field.type)}
        return leaf_types(kind.value_type) if pa.types.is_list(kind) else {str(kind)}

    schema = arrow.arrow_schema(name, mode)
    found = {leaf for field in schema for leaf in leaf_types(field.type)}
    assert found <= {"string", "int64", "double", "bool"} | ({"binary"} if arrow.image_columns(name) else set())
    assert ("binary" in found) == (mode == "embed" and bool(arrow.image_columns(name)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ROWS)
def test_rows_survive_pyarrow(name: str, mode: Images, tmp_path: Path) -> None:
    rows = hard_rows(name)
    table = pq.read_table(write(tmp_path / "x.parquet", name, mode, rows))
    assert is_the_schema(table.schema, name, mode)
    back = table.to_pylist()
    if mode == "embed":
        back = [referenced(name, row) for row in back]
    assert [for_schema(name).problems(row) for row in back] == [[]] * len(rows)
    assert digests_of(name, back) == digests_of(name, rows)
    canonical = digests.for_schema(name).canonical
    assert [canonical(row) for row in back] == [canonical(row) for row in rows]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ROWS)
def test_rows_survive_datasets(name: str, mode: Images, tmp_path: Path) -> None:
    rows = hard_rows(name)
    path = write(tmp_path / "x.parquet", name, mode, rows)
    loaded = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
    assert loaded.features == datasets.Features.from_dict(arrow.features(name, mode))
    undecoded = json.loads(json.dumps(arrow.features(name, mode)).replace('"Image"', '"Image", "decode": false'))
    back = list(loaded.cast(datasets.Features.from_dict(undecoded)))
    if mode == "embed":
        back = [referenced(name, row) for row in back]
    assert [for_schema(name).problems(row) for row in back] == [[]] * len(rows)
    assert digests_of(name, back) == digests_of(name, rows)


def test_a_picture_block_comes_back_with_a_null_text(tmp_path: Path) -> None:
    """Parquet gives every struct all its fields; whoever hands blocks to a chat template drops the null ones."""
    rows = good_rows("selection_sft/1")
    back = pq.read_table(write(tmp_path / "x.parquet", "selection_sft/1", "reference", rows)).to_pylist()
    blocks = [block for row in back for message in row["prompt"] for block in message["content"]]
    assert [block for block in blocks if block["type"] == "image"] == [{"type": "image", "text": None}] * 2
    assert all(set(block) == {"type", "text"} for block in blocks)


def test_null_empty_and_absent_lists_stay_apart(tmp_path: Path) -> None:
    rows = [row | {"order": order} for row in good_rows("teacher_label/1")[:1] for order in (None, [], [0])]
    back = pq.read_table(write(tmp_path / "x.parquet", "teacher_label/1", "embed", rows)).to_pylist()
    assert [row["order"] for row in back] == [None, [], [0]]


def test_floats_keep_every_bit(tmp_path: Path) -> None:
    values = [0.1 + 0.2, 1e-7, 5e-324, 1.7976931348623157e308, -1 / 3, 1e22, 123456789012345680.0, 1, None, -0.0]
    rows = [good_rows("eval_prediction/1")[0] | {"scores": values}]
    back = pq.read_table(write(tmp_path / "x.parquet", "eval_prediction/1", "embed", rows)).to_pylist()
    assert [None if v is None else v.hex() for v in back[0]["scores"]] == [
        None if v is None else float(v).hex() for v in values
    ]
    assert digests_of("eval_prediction/1", back) == digests_of("eval_prediction/1", rows)


def test_largest_integers_are_exact(tmp_path: Path) -> None:
    row = good_rows("candidate_set/1")[0]
    row["sampling"]["seed"], row["draw"] = -(2**53) + 1, 2**53 - 1
    back = pq.read_table(write(tmp_path / "x.parquet", "candidate_set/1", "embed", [row])).to_pylist()
    assert (back[0]["sampling"]["seed"], back[0]["draw"]) == (-(2**53) + 1, 2**53 - 1)


@pytest.mark.parametrize("name", ROWS)
def test_a_file_without_rows_keeps_its_types(name: str, tmp_path: Path) -> None:
    """`datasets` cannot open such a file (a batch of 0 rows), which is one reason why none is published."""
    assert is_the_schema(pq.read_schema(write(tmp_path / "x.parquet", name, "embed", [])), name, "embed")
