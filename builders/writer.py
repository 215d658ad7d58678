"""Rows to Parquet as they come: checked, digested, packed into Arrow columns, written row group by row group.

Rows wait as Python objects only up to a megabyte and as Arrow columns up to a row group, so that memory depends on
neither. Pictures are written as bytes without compression and with dictionary encoding, so that a screenshot that
repeats is stored once per row group and a new version sends few new bytes; everything else is zstd. Row groups are
bounded by expanded bytes, because readers take a whole group into memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas import arrow, digests
from ..schemas.arrow import Images
from ..schemas.columns import Blobs, arrow_table, embed_pictures
from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256
from ..schemas.store import TABLES
from ..schemas.validate import for_schema

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_BYTES = 20_000_000  # expanded; two workers with embedded screenshots then stay below 700 MB
PACK_BYTES = 1 << 20  # of rows that wait as Python objects, which take several times their bytes
Row = dict[str, Any]


@dataclass(frozen=True)
class WrittenFile:
    """One Parquet file: path relative to the build, sorted row digests (32 bytes each, joined), sizes in bytes."""

    table: str
    split: str
    path: str
    rows: int
    digests: bytes
    expanded_bytes: int
    stored_bytes: int
    sha256: str


@dataclass(frozen=True)
class Target:
    """Where one bucket's files go: ``data/<table>/<split>-<bucket>-of-<buckets>.parquet`` below ``folder``.

    ``blobs`` are the bucket's pictures; it is filled while the states are read, before any row refers to them.
    """

    folder: Path
    bucket: int
    buckets: int
    blobs: Blobs


class TableWriter:
    """Takes the rows of one table of one bucket, in the order in which they are to stand, and writes a file per split.

    Without a target the rows are only checked.
    """

    def __init__(self, table: str, images: Images, target: Target | None) -> None:
        self.table = table
        self._images = images
        self._target = target
        self._validator = for_schema(TABLES[table])
        self._codec = digests.for_schema(TABLES[table])
        self._files: dict[str, _File] = {}

    def add(self, row: Row, split: str | None = None) -> None:
        """Check and digest one row and send it on its way."""
        if not self._validator.is_valid(row):
            problems = "; ".join(" ".join(p) for p in self._validator.problems(row)[:3])
            raise ArmError(f"a built row breaks its schema, which is a defect of the builder: {self.table} {problems}")
        if self._target is None:
            return
        full = self._codec.normalise(row)
        canonical = self._codec.encode(full)
        split = split or row["split"]
        file = self._files.get(split)
        if file is None:
            file = self._files[split] = _File(self.table, self._images, split, self._target)
        file.add(full, len(canonical), hashlib.sha256(canonical).digest())

    def close(self) -> list[WrittenFile]:
        """Finish the files; a split without rows has none."""
        return [self._files.pop(split).close() for split in sorted(self._files)]


class _File:
    """One split of a table: rows, packed rows, the row groups written so far."""

    def __init__(self, table: str, images: Images, split: str, target: Target) -> None:
        import pyarrow.parquet as pq

        self.table, self.split, self._images, self._target = table, split, images, target
        self._pictures = list(arrow.image_columns(TABLES[table])) if images == "embed" else []
        self.name = f"data/{table}/{split}-{target.bucket:05d}-of-{target.buckets:05d}.parquet"
        self.path = target.folder / self.name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        schema = arrow.arrow_schema(TABLES[table], images)
        self._writer = pq.ParquetWriter(self.path, schema, **parquet_options(schema, table))
        self._digests: list[bytes] = []
        self._rows: list[Row] = []
        self._packed: list[pa.Table] = []
        self._waiting = self._group = self._expanded = 0  # bytes of the rows, of the row group, of the file

    def add(self, row: Row, size: int, digest: bytes) -> None:
        grown = size
        for column in self._pictures:
            grown += sum(len(self._target.blobs[picture]) for picture in _listed(row[column]))
        if self._group and self._group + grown > ROW_GROUP_BYTES:
            self._write_group()
        self._rows.append(row)
        self._digests.append(digest)
        self._waiting += size
        self._group += grown
        if self._waiting > PACK_BYTES:
            self._pack()

    def close(self) -> WrittenFile:
        import pyarrow as pa

        self._write_group()
        self._writer.close()
        pa.default_memory_pool().release_unused()  # or the next bucket's rows come on top of what Arrow keeps
        rows, joined = len(self._digests), b"".join(sorted(self._digests))
        stored, sha256 = self.path.stat().st_size, file_sha256(self.path)
        return WrittenFile(self.table, self.split, self.name, rows, joined, self._expanded, stored, sha256)

    def _pack(self) -> None:
        self._packed.append(arrow_table(TABLES[self.table], self._rows))
        self._rows, self._waiting = [], 0

    def _write_group(self) -> None:
        import pyarrow as pa

        self._pack()
        table = pa.concat_tables(self._packed)
        self._packed = []
        if self._pictures:
            table = embed_pictures(TABLES[self.table], table, self._target.blobs)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._expanded += self._group
        self._group = 0


def _listed(value: Any) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [value]


def parquet_options(schema: pa.Schema, table: str) -> dict[str, Any]:
    """How the columns of a table are compressed and encoded: keyword arguments of `pyarrow.parquet`'s writers."""
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    pictures = [leaf for leaf in leaves if leaf.endswith(".bytes")]
    # All pairs of a state have one prompt: stored once, too.
    repeated = [leaf for leaf in leaves if table == "bt_pairs" and leaf.startswith("prompt.")]
    return {
        "compression": {leaf: "none" if leaf in pictures else "zstd" for leaf in leaves},
        "compression_level": {leaf: 1 for leaf in leaves if leaf not in pictures},
        "use_dictionary": [*pictures, *repeated] or False,
        "dictionary_pagesize_limit": 2 * ROW_GROUP_BYTES,  # a full dictionary would fall back to plain bytes
        "use_content_defined_chunking": True,
        "write_page_index": True,
    }


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
