"""Rows to Arrow by the schema: the same columns that pyarrow makes of the same rows, without asking the values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from action_reward_models.builders.importers import IMPORTERS
from action_reward_models.schemas import digests, store
from action_reward_models.schemas.arrow import arrow_schema, image_columns
from action_reward_models.schemas.columns import arrow_table, embed_pictures, picture_name

EXAMPLES = Path(__file__).parents[1] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"
# Kinds that are tables, now or later; source records are never written.
KINDS = [name for name in store.names() if (EXAMPLES / name.split("/")[0] / "good").is_dir()]
SOURCE_RECORDS = {importer.schema for importer in IMPORTERS.values()} - {*store.TABLES.values()}
ROWS = [name for name in KINDS if name not in SOURCE_RECORDS]


def good(name: str) -> list[dict[str, Any]]:
    normalise = digests.for_schema(name).normalise
    folder = EXAMPLES / name.split("/", maxsplit=1)[0] / "good"
    return [normalise(json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("times", [0, 1, 3])
def test_columns_are_what_pyarrow_makes_of_the_rows(name: str, times: int) -> None:
    rows = good(name) * times
    table = arrow_table(name, rows)
    table.validate(full=True)
    assert table.schema.equals(arrow_schema(name, "reference"), check_metadata=True)
    assert table.equals(pa.Table.from_pylist(rows, schema=arrow_schema(name, "reference")))


def test_there_are_rows_of_every_kind() -> None:
    assert len(ROWS) >= 12
    assert all(good(name) for name in ROWS)


@pytest.mark.parametrize("name", [name for name in ROWS if image_columns(name)])
def test_pictures_take_the_place_of_their_references(name: str) -> None:
    rows = good(name) * 2
    table = arrow_table(name, rows)
    columns = image_columns(name)
    references = {p for row in rows for c in columns for p in (row[c] if isinstance(row[c], list) else [row[c]]) if p}
    blobs = {reference: PNG + reference.encode() for reference in references}
    embedded = embed_pictures(name, pa.concat_tables([table, table]), blobs)
    embedded.validate(full=True)
    assert embedded.schema.equals(arrow_schema(name, "embed"), check_metadata=True)
    for row, read in zip(rows * 2, embedded.to_pylist(), strict=True):
        for column in columns:
            cells, wanted = (value if isinstance(value, list) else [value] for value in (read[column], row[column]))
            assert [cell and (cell["bytes"], cell["path"]) for cell in cells] == [
                p and (blobs[p], picture_name(p, blobs[p])) for p in wanted
            ]


def test_a_picture_that_is_missing_is_an_error() -> None:
    (name,) = ["state/1"]
    rows = [row for row in good(name) if row["screenshot"]]
    with pytest.raises(KeyError):
        embed_pictures(name, arrow_table(name, rows), {})


def test_a_value_of_another_type_is_refused() -> None:
    (row, *_) = good("applied_review/1")
    with pytest.raises(pa.ArrowException):
        arrow_table("applied_review/1", [{**row, "note": 1}])
