"""Rows of two sides brought together by id, file by file first: only what stands in another file is held longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .arrays import integers, repeated, whole
from .files import DataFile

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Joined:
    """``pairs`` has the columns ``before_file``, ``before_group``, ``before_row`` and the same of after."""

    pairs: pa.Table
    only_before: pa.Table
    only_after: pa.Table


def keys(files: Sequence[DataFile], numbers: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """``columns`` (the id is the first) of all rows of some of ``files``, with ``file``, ``group`` and ``row``.

    Raises ArmError for an id that is null or stands there twice.
    """
    import pyarrow as pa

    parts = []
    for number in numbers:
        found = files[number].read(columns)
        parts.append(found.append_column("file", repeated(number, len(found))))
    return checked(pa.concat_tables(parts), columns[0], files)


def checked(rows: pa.Table, column: str, files: Sequence[DataFile]) -> pa.Table:
    """``rows``, if no two have one id. Raises ArmError."""
    import pyarrow.compute as pc

    ids = rows.column(column)
    if ids.null_count or pc.count_distinct(ids).as_py() != len(ids):
        counted = ids.value_counts()
        twice = next(entry["values"] for entry in counted.to_pylist() if entry["values"] is None or entry["counts"] > 1)
        file = files[rows.column("file")[pc.index(ids, twice).as_py() if twice is not None else 0].as_py()]
        raise file.side.wrong(f"{file.path}: the {column} {twice!r} stands for no row or for several")
    return rows


def join(before: pa.Table, after: pa.Table) -> Joined:
    """Match two tables of `keys` by their first column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = whole(pc.index_in(after.column(0), value_set=whole(before.column(0))))
    found = pc.is_valid(at)
    matched, places = after.filter(found), at.filter(found)
    left = before.take(places)
    columns = {f"before_{name}": left.column(name) for name in ("file", "group", "row")}
    columns |= {f"after_{name}": matched.column(name) for name in ("file", "group", "row")}
    seen = pc.is_in(integers(range(len(before))), value_set=places)
    return Joined(pa.Table.from_pydict(columns), before.filter(pc.invert(seen)), after.filter(pc.invert(found)))


def by_group(pairs: pa.Table) -> Iterator[tuple[tuple[int, ...], pa.Array, pa.Array]]:
    """Pairs of row groups that have ids in common, and the rows (before's, after's) that belong together.

    The key is (after's file, after's group, before's file, before's group). In the order of after's rows, so that a
    group is mostly the one that was read last.
    """
    import pyarrow.compute as pc

    key = ("after_file", "after_group", "before_file", "before_group")
    pairs = pairs.take(pc.sort_indices(pairs, sort_keys=[(name, "ascending") for name in (*key, "after_row")]))
    for values, part in _runs(pairs, key):
        yield values, whole(part.column("before_row")), whole(part.column("after_row"))


def _runs(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[tuple[int, ...], pa.Table]]:
    """The stretches of sorted ``rows`` that have equal values in ``columns``, with these values.

    (Not `Table.group_by`: see `arrays`.)
    """
    import pyarrow.compute as pc

    if not columns:
        yield (), rows
        return
    start = 0
    encoded = pc.run_end_encode(whole(rows.column(columns[0])))
    for end, value in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        for values, part in _runs(rows.slice(start, end - start), columns[1:]):
            yield (value, *values), part
        start = end
