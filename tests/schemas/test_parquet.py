"""Files of a few kilobytes that stand for gigabytes, and files of builds, which do not."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from action_reward_models.schemas import parquet
from action_reward_models.schemas.parquet import ExpandsError, expands, refuse_expanding


def _written(path: Path, group: int = 1 << 20, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False, row_group_size=group)
    return path


def _same(value: Any, count: int) -> pa.Array:
    indices = pa.array(memoryview(bytes(4 * count)).cast("i"), pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array([value]))


def _listed(values: pa.Array, *offsets: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


BOMBS = {
    "one value of many rows": lambda: {"a": _same("x" * 1_000_000, 1000)},
    "in a struct": lambda: {"a": pa.StructArray.from_arrays([_same(b"x" * 1_000_000, 1000)], ["bytes"])},
    "in a list of one row": lambda: {"a": _listed(_same("x" * 1_000_000, 1000), 0, 1000)},
    "a long list of nothing": lambda: {"a": _listed(pa.nulls((1 << 24) + 1, pa.int32()), 0, (1 << 24) + 1)},
    "more rows than bytes": lambda: {"a": _same("x", 1 << 20)},
    "many zeros": lambda: {"a": pa.array(["0" * ((1 << 28) + 1)])},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_stands_for_much_is_refused_before_it_takes_it(tmp_path: Path, name: str) -> None:
    path = _written(tmp_path / "x.parquet", 1 << 25, **BOMBS[name]())
    assert path.stat().st_size < 600_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ExpandsError, match=r"expands to|rows in"):
        refuse_expanding(path)
    assert expands(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # kilobytes; it stands for 1 GB


def test_only_what_is_read_counts(tmp_path: Path) -> None:
    pictures = pa.StructArray.from_arrays([_same(b"x" * 1_000_000, 1000)], ["bytes"])
    path = _written(tmp_path / "x.parquet", shown=pictures, other=pa.array([f"{n:06}" for n in range(1000)]))
    refuse_expanding(path, ["other"])
    refuse_expanding(path, ["shown", "other"], kept=["shown.bytes"])  # read as a dictionary, it stays small
    with pytest.raises(ExpandsError, match="1,000,000,000 bytes, more than 268,435,456"):
        refuse_expanding(path, ["shown"])


def test_a_dictionary_is_measured_and_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many values of which one is long: their number times the longest says nothing."""
    monkeypatch.setattr(parquet, "MAX_GROUP_BYTES", 1_000_000)
    values = pa.DictionaryArray.from_arrays(pa.array([0] + [1, None] * 500, pa.int32()), pa.array(["x" * 400_000, "a"]))
    refuse_expanding(_written(tmp_path / "x.parquet", a=values, id=pa.array([str(n) for n in range(1001)])))


def test_damage_is_another_matter(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    assert not expands(path)
    assert not expands(tmp_path / "none.parquet")
    with pytest.raises((ValueError, pa.ArrowException)):
        refuse_expanding(path)
