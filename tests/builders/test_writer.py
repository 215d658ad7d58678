"""The Parquet files: what is compressed, what is stored once, and how far a row group reaches."""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.builders import reader, writer
from action_reward_models.builders.spec import BASE_TABLES
from action_reward_models.schemas.arrow import arrow_schema
from action_reward_models.schemas.store import TABLES

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

WITH_PICTURES = ("states", "selection_sft", "bt_pairs")


def _noise(seed: int, size: int = 160) -> bytes:
    """A picture that does not compress: about ``size * size`` bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + random.Random(f"{seed} {y}").randbytes(size) for y in range(size))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


@pytest.fixture
def build(toy: Toy) -> Build:
    for number in range(6):
        toy.scene(f"e{number}", picture=number % 3, task=f"task {number}")
    return toy.build()


def _chunks(path: Path) -> Iterator[Any]:
    metadata = pq.read_metadata(path)
    for group, column in itertools.product(range(metadata.num_row_groups), range(metadata.num_columns)):
        yield metadata.row_group(group).column(column)


@pytest.mark.parametrize("table", [*WITH_PICTURES, "candidate_sets", "teacher_labels"])
def test_pictures_are_stored_plain_once_and_all_else_is_zstd(build: Build, table: str) -> None:
    """With zstd a 1 % change sends 80 % new bytes; without it, and with a dictionary, 2-4 %."""
    pictures = 0
    for chunk in (chunk for path in build.files(table) for chunk in _chunks(path)):
        if chunk.path_in_schema.endswith(".bytes"):
            pictures += 1
            assert chunk.compression == "UNCOMPRESSED"
            assert chunk.has_dictionary_page
            assert "RLE_DICTIONARY" in chunk.encodings
        else:
            assert chunk.compression == "ZSTD"
            # all pairs of a state have one prompt, which is stored once, too
            assert chunk.has_dictionary_page == (table == "bt_pairs" and chunk.path_in_schema.startswith("prompt."))
    assert pictures == (table in WITH_PICTURES)


@pytest.mark.parametrize("table", [*BASE_TABLES, "selection_sft", "bt_pairs", "exclusions"])
def test_types_are_plain(build: Build, table: str) -> None:
    """`binary` and `string` as every reader knows them, as the schema says, with the features that `datasets` reads."""
    for path in build.files(table):
        schema = pq.read_schema(path)
        assert schema.equals(arrow_schema(TABLES[table]))
        assert schema.metadata == arrow_schema(TABLES[table]).metadata
        text = str(schema.remove_metadata())
        assert not any(word in text for word in ("large_", "_view", "dictionary", ": null"))


def test_a_screenshot_that_repeats_costs_one_copy(toy: Toy) -> None:
    picture = _noise(1)
    for number in range(50):
        toy.scene(f"e{number}", picture=picture, task=f"task {number}")
    build = toy.build()
    assert len(build.rows("bt_pairs")) == 100
    for table in WITH_PICTURES:
        stored = sum(path.stat().st_size for path in build.files(table))
        assert len(picture) < stored < 2 * len(picture)
        expanded = build.identity["tables"][table]["splits"]["train"]["expanded_bytes"]
        assert expanded > 50 * len(picture)


def test_many_screenshots_fit_the_dictionary(toy: Toy) -> None:
    """Past a megabyte a dictionary falls back to plain bytes unless it is told not to."""
    pictures = [_noise(seed) for seed in range(60)]  # 1.5 MB
    for number in range(180):
        toy.page(f"e{number}", picture=pictures[number % 60])
    build = toy.build(tables=("states",), shards=1)
    (path,) = build.files("states")
    assert path.stat().st_size < 1.2 * sum(map(len, pictures))


def test_row_groups_are_bounded_by_expanded_bytes(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file whose one row group expands past 2 GB breaks stock readers."""
    pictures = [_noise(1), _noise(2)]
    for number in range(20):
        toy.page(f"e{number}", picture=pictures[number % 2], task=f"task {number}")
    whole = toy.build(tables=("states",), shards=1)
    limit = 4 * len(pictures[0])
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", limit)
    build = toy.build(tables=("states",), shards=1)
    assert build.digests == whole.digests
    (path,) = build.files("states")
    metadata = pq.read_metadata(path)
    assert metadata.num_row_groups == 7  # three rows each
    with pq.ParquetFile(path) as file:
        for group in range(metadata.num_row_groups):
            table = file.read_row_group(group)
            assert sum(len(cell["bytes"].as_py()) for cell in table["screenshot"]) <= limit
    assert reader.check(build.folder) == []


def test_one_row_over_the_bound_is_a_group(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", 10)
    for number in range(3):
        toy.scene(f"e{number}", picture=number)
    build = toy.build(shards=1)
    assert pq.read_metadata(build.files("states")[0]).num_row_groups == 3
    assert reader.check(build.folder) == []


def test_rows_packed_in_pieces_are_the_same(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        toy.scene(f"e{number}", picture=number % 4 or None, task=f"task {number}")
    whole = toy.build()
    monkeypatch.setattr(writer, "PACK_BYTES", 2000)
    build = toy.build()
    for table in whole.digests:
        assert build.rows(table) == whole.rows(table)
    assert reader.check(build.folder) == []


def test_reference_mode_stores_hashes(toy: Toy) -> None:
    for number in range(6):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    embedded = toy.build()
    build = toy.build(images={"states": "embed", "selection_sft": "reference", "bt_pairs": "reference"})
    assert build.digests == embedded.digests  # where the bytes lie is no content
    assert [build.identity["tables"][t]["images"] for t in WITH_PICTURES] == ["embed", "reference", "reference"]
    shown = {row["screenshot"] for row in build.rows("states")}
    for table in ("selection_sft", "bt_pairs"):
        (path,) = build.files(table)
        assert pq.read_schema(path).field("images").type == pa.list_(pa.string())
        column = pq.read_table(path, columns=["images"], partitioning=None)["images"].to_pylist()
        assert {picture for pictures in column for picture in pictures} == shown
    assert reader.check(build.folder) == []


def test_pictures_are_named_by_hash_and_kind(build: Build) -> None:
    for cell in pq.read_table(build.files("states")[0], partitioning=None)["screenshot"].to_pylist():
        assert cell["bytes"].startswith(b"\x89PNG")
        assert cell["path"].endswith(".png")
        assert len(cell["path"]) == 64 + 4


def test_no_picture_is_null(toy: Toy) -> None:
    toy.page("a", picture=None)
    toy.page("b", picture=1)
    cells = pq.read_table(toy.build().files("states")[0], partitioning=None)["screenshot"].to_pylist()
    assert sorted(cell is None for cell in cells) == [False, True]


def test_empty_lists_and_all_null_columns_keep_their_types(toy: Toy) -> None:
    """All-empty lists were inferred as null, so that shards had different features."""
    toy.page("a")
    (path,) = toy.build().files("states")
    schema = pq.read_schema(path)
    assert pa.types.is_list(schema.field("elements").type)
    assert pa.types.is_struct(schema.field("elements").type.value_type)
    assert schema.field("episode_outcome").type == pa.float64()
    assert schema.field("url").type == pa.string()


def test_the_same_rows_give_the_same_bytes(toy: Toy) -> None:
    for number in range(6):
        toy.scene(f"e{number}", picture=number % 3, task=f"task {number}")
    one = toy.build(validation=0.5, shards=2)
    for kind in toy.files:
        toy.lines(kind).reverse()
    two = toy.build(validation=0.5, shards=2)
    assert one.manifest["environment"]["files"] == two.manifest["environment"]["files"]


def test_text_comes_back_exactly(toy: Toy) -> None:
    odd = '< \u2028 \x85 \x0b \ufeff é 日本 😀 "quoted" \\ \t\r\n {"a": 1} \x7f \x01'
    toy.label(toy.draw(toy.page("a"), f"<think>{odd}x</think>click(1, 1)", f"{odd}", "stop()"), 0, reasoning=odd)
    build = toy.build()
    assert build.row("teacher_labels")["reasoning"] == odd
    assert build.row("candidate_sets")["candidates"][1]["response"] == odd
    assert reader.check(build.folder) == []
