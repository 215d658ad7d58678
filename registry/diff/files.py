"""Parquet files of one side, read column by column and row group by row group, pictures as the sha256 of their bytes.

A picture is stored once per row group, and is hashed once per row group; it is never decoded, and its bytes are never
copied to the rows that show it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...schemas.arrow import arrow_type, image_columns
from ...schemas.parquet import refuse_expanding
from ...schemas.store import load
from .arrays import integers, repeated, strings, whole
from .side import Side

if TYPE_CHECKING:
    import pyarrow as pa

READ_BYTES = 1 << 24  # expanded, of columns that are read at once
_BUFFER = 1 << 16


@dataclass(frozen=True)
class DataFile:
    """One file of a table as the manifest lists it. It is opened when its rows are asked for."""

    side: Side
    split: str
    path: str
    rows: int
    row_digest: str
    schema: str  # name of the record schema
    images: str | None

    @property
    def content(self) -> tuple[Any, ...]:
        """Two files of which this is equal have the same rows, if they are what their manifests say."""
        sha256 = None if self.path in self.side.trusted else self.side.sha256(self.path)
        return self.split, self.path, self.rows, self.row_digest, self.schema, self.images, sha256

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows, with their places as ``group`` and ``row`` (0-based, within the group).

        Raises ArmError when the file has not as many rows as the manifest says.
        """
        import pyarrow as pa

        with Reader(self) as reader:
            parts = []
            for group, rows in enumerate(reader.group_rows):
                places = {"group": repeated(group, rows), "row": integers(range(rows))}
                parts.append(pa.Table.from_pydict({**reader.read(group, columns), **places}))
            fields = {name: arrow_type(load(self.schema)["properties"][name], "reference") for name in columns}
            fields |= {"group": pa.int32(), "row": pa.int32()}
            empty = pa.Table.from_pydict({name: pa.nulls(0, kind) for name, kind in fields.items()})
            return pa.concat_tables([empty, *parts])


class Reader:
    """An open file. Keeps the columns that were read last, since the next comparison mostly asks for the same group."""

    def __init__(self, file: DataFile) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.file = file
        self._properties = load(file.schema)["properties"]
        self._pictures = image_columns(file.schema) if file.images == "embed" else {}
        leaves = [f"{name}.list.element.bytes" if many else f"{name}.bytes" for name, many in self._pictures.items()]
        path = file.side.path(file.path)
        try:
            refuse_expanding(path, self._properties, leaves)
            # Pages are read as they are needed, one column after another: a whole row group would lie in memory twice.
            self._open = pq.ParquetFile(path, read_dictionary=leaves, pre_buffer=False, buffer_size=_BUFFER)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise file.side.wrong(f"{file.path} cannot be read: {error}") from error
        metadata = self._open.metadata
        self.group_rows = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        if metadata.num_rows != file.rows or sum(self.group_rows) != file.rows:
            self.close()
            said = f"the manifest says {file.rows:,}"
            raise file.side.wrong(f"{file.path} has {metadata.num_rows:,} rows, {said}")
        self._kept: tuple[int, dict[str, pa.Array]] = (-1, {})
        self._together: dict[int, list[list[str]]] = {}

    def column(self, group: int, name: str) -> pa.Array:
        """A column of a row group, of the type of its schema with pictures referenced (``sha256:<hex>``).

        Raises ArmError when the file holds no such column, or one of another type.
        """
        if self._kept[0] != group or name not in self._kept[1]:
            names = next(names for names in self._batches(group) if name in names)
            self._kept = group, {}  # before the next is read
            self._kept = group, self.read(group, names)
        return self._kept[1][name]

    def read(self, group: int, names: Sequence[str]) -> dict[str, pa.Array]:
        """Some columns of a row group at once; see `column`."""
        import pyarrow as pa

        try:
            table = self._open.read_row_group(group, columns=list(names), use_threads=False)
            found = {}
            for name in names:
                column = whole(table.column(name))
                if name in self._pictures:
                    column = _referenced(column)
                expected = arrow_type(self._properties[name], "reference")
                found[name] = column if column.type.equals(expected) else column.cast(expected)
                if len(column) != self.group_rows[group]:
                    raise ValueError(f"{name} has {len(column)} rows")
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self.file.side.wrong(f"{self.file.path} cannot be read: {error}") from error
        return found

    def _batches(self, group: int) -> list[list[str]]:
        """The columns of a row group, those that fit into `READ_BYTES` together."""
        if group not in self._together:
            metadata = self._open.metadata.row_group(group)
            sizes = dict.fromkeys(self._properties, 0)
            for n in range(metadata.num_columns):
                leaf = metadata.column(n)
                name = leaf.path_in_schema.partition(".")[0]
                if name in sizes:
                    sizes[name] += leaf.total_uncompressed_size
            batches: list[list[str]] = [[]]
            size = 0
            for name, own in sizes.items():
                if batches[-1] and size + own > READ_BYTES:
                    batches.append([])
                    size = 0
                batches[-1].append(name)
                size += own
            self._together[group] = batches
        return self._together[group]

    def close(self) -> None:
        self._kept = (-1, {})
        self._open.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _referenced(column: pa.Array) -> pa.Array:
    """Embedded pictures as ``sha256:<hex>``, or lists of them; null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(column.type):
        start, end = column.offsets[0], column.offsets[-1]
        values = _referenced(column.values.slice(start.as_py(), end.as_py() - start.as_py()))
        offsets = pc.subtract(column.offsets, start)
        return pa.ListArray.from_arrays(offsets, values, mask=column.is_null() if column.null_count else None)
    stored = pc.struct_field(column, "bytes")  # null where the picture is
    if not pa.types.is_dictionary(stored.type):
        stored = stored.dictionary_encode()
    names = [f"sha256:{hashlib.sha256(data.as_buffer()).hexdigest()}" for data in stored.dictionary]
    return strings(names).take(stored.indices)
