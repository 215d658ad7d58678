"""How far a Parquet file may expand, told from what it says of itself: some kilobytes can stand for any number of rows.

What a build writes stays far below: its row groups hold 20 MB and one row more.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MAX_GROUP_BYTES = 1 << 28  # expanded bytes of a row group
MAX_GROUP_VALUES = 1 << 24  # of one column of a row group


class ExpandsError(ValueError):
    """A file stands for far more than it holds."""


def expands(path: Path) -> bool:
    """Whether `refuse_expanding` refuses a file for that, and not for being damaged."""
    import pyarrow as pa

    try:
        refuse_expanding(path)
    except ExpandsError:
        return True
    except (OSError, ValueError, pa.ArrowException):
        pass
    return False


def refuse_expanding(path: Path, columns: Collection[str] | None = None, kept: Collection[str] = ()) -> None:
    """Raise ExpandsError for a file that would take much more memory or time than its bytes.

    ``columns`` are the names of those that are to be read, None for all. A dictionary expands to as many values as
    refer to it, except in the leaves ``kept`` (``images.list.element.bytes``), which are read as dictionaries.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        if metadata.num_rows > path.stat().st_size:  # each has an id of its own
            raise ExpandsError(f"it has {metadata.num_rows:,} rows in {path.stat().st_size:,} bytes")
        suspects: dict[int, list[str]] = {}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            leaves = [group.column(n) for n in range(group.num_columns)]
            leaves = [leaf for leaf in leaves if columns is None or leaf.path_in_schema.partition(".")[0] in columns]
            _refuse(number, "bytes", sum(leaf.total_uncompressed_size for leaf in leaves), MAX_GROUP_BYTES)
            _refuse(number, "values", max((leaf.num_values for leaf in leaves), default=0), MAX_GROUP_VALUES)
            suspects[number] = [
                leaf.path_in_schema
                for leaf in leaves
                if leaf.path_in_schema not in kept
                and any("DICTIONARY" in encoding for encoding in leaf.encodings)
                and leaf.num_values * leaf.total_uncompressed_size > MAX_GROUP_BYTES
            ]
    for number, names in suspects.items():
        if names:
            with pq.ParquetFile(path, read_dictionary=names, pre_buffer=False, buffer_size=1 << 16) as file:
                sizes = (_expanded(file.read_row_group(number, columns=[name], use_threads=False)) for name in names)
                _refuse(number, "bytes", sum(sizes), MAX_GROUP_BYTES)


def _refuse(group: int, what: str, size: int, limit: int) -> None:
    if size > limit:
        raise ExpandsError(f"row group {group} expands to {size:,} {what}, more than {limit:,}")


def _expanded(table: pa.Table) -> int:
    """Bytes of what the dictionaries of a table stand for."""
    return sum(_size(chunk) for column in table.columns for chunk in column.chunks)


def _size(values: pa.Array) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(values.type):
        return _size(values.flatten())
    if pa.types.is_struct(values.type):
        return sum(_size(part) for part in values.flatten())
    if not pa.types.is_dictionary(values.type):
        return int(values.nbytes)
    lengths = pc.cast(pc.binary_length(values.dictionary), pa.int64())
    return int(pc.sum(lengths.take(values.indices), min_count=0).as_py())
