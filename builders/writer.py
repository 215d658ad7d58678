"""Rows to Parquet: canonical JSON per row while building, Arrow only when a file is written.

A row is serialised once; the same bytes are digested and later parsed into Arrow columns by C++. Pictures are written
as bytes without compression and with dictionary encoding, so that a screenshot that repeats is stored once per row
group and a new version sends few new bytes; everything else is zstd. Row groups are bounded by expanded bytes, because
readers take a whole group into memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas import arrow, digests
from ..schemas.arrow import Images
from ..schemas.errors import ArmError
from ..schemas.store import ID_FIELDS, TABLES
from ..schemas.validate import for_schema

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_BYTES = 100_000_000  # expanded
PARSE_BYTES = 2 << 20  # JSON handed to Arrow at once: it needs a multiple of it
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


class TableBuffer:
    """Collects the rows of one table of one bucket and writes one file per split."""

    def __init__(self, table: str, images: Images = "embed") -> None:
        self.table = table
        self._images = images
        self._validator = for_schema(TABLES[table])
        self._codec = digests.for_schema(TABLES[table])
        self._id = ID_FIELDS.get(table)
        self._picture_columns = list(arrow.image_columns(TABLES[table])) if images == "embed" else []
        self._rows: dict[str, list[tuple[str, str, bytes, bytes, tuple[str, ...]]]] = {}

    def add(self, row: Row, group: str = "", split: str | None = None) -> None:
        """Check, digest and keep one row. Rows of one ``group`` (a screenshot) are written side by side."""
        if not self._validator.is_valid(row):
            problems = "; ".join(" ".join(p) for p in self._validator.problems(row)[:3])
            raise ArmError(f"a built row breaks its schema, which is a defect of the builder: {self.table} {problems}")
        canonical = self._codec.canonical(row)
        digest = hashlib.sha256(canonical).digest()
        # The line is a copy of exact size: orjson leaves its bytes in a buffer of up to a dozen times their length.
        if self._codec.provenance:
            line = b"".join((canonical[:-1], b",", self._codec.provenance_json(row)[1:], b"\n"))
        else:
            line = canonical + b"\n"
        key = row[self._id] if self._id else digest.hex()
        pictures: tuple[str, ...] = ()
        for column in self._picture_columns:
            pictures += tuple(_listed(row[column]))
        self._rows.setdefault(split or row["split"], []).append((group, key, digest, line, pictures))

    def write(self, folder: Path, bucket: int, buckets: int, blobs: Mapping[str, bytes]) -> list[WrittenFile]:
        """Write ``data/<table>/<split>-<bucket>-of-<buckets>.parquet`` below ``folder``; no rows, no file."""
        import pyarrow as pa

        written = []
        for split in sorted(self._rows):
            rows = sorted(self._rows.pop(split))  # by group and id; rows that agree in both differ in provenance
            name = f"data/{self.table}/{split}-{bucket:05d}-of-{buckets:05d}.parquet"
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            count, joined = len(rows), b"".join(sorted(r[2] for r in rows))
            expanded = self._write_file(path, rows, blobs)
            pa.default_memory_pool().release_unused()  # or the next bucket's rows come on top of what Arrow keeps
            data = path.read_bytes()
            sha = hashlib.sha256(data).hexdigest()
            written.append(WrittenFile(self.table, split, name, count, joined, expanded, len(data), sha))
        return written

    def _write_file(self, path: Path, rows: list[Any], blobs: Mapping[str, bytes]) -> int:
        import pyarrow.parquet as pq

        schema = arrow.arrow_schema(TABLES[self.table], self._images)
        expanded = 0
        with pq.ParquetWriter(path, schema, **_options(schema)) as writer:
            for group, size in _row_groups(rows, blobs):
                expanded += size
                table = _arrow_table(self.table, self._images, group, blobs)
                writer.write_table(table, row_group_size=table.num_rows)
        return expanded


def _listed(value: Any) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _row_groups(rows: list[Any], blobs: Mapping[str, bytes]) -> Iterator[tuple[list[Any], int]]:
    """Cut rows into groups of at most ROW_GROUP_BYTES expanded bytes (at least one row each); this empties ``rows``."""
    group: list[Any] = []
    size = 0
    rows.reverse()
    while rows:
        row = rows.pop()
        grown = len(row[3]) - 1 + (sum(len(blobs[p]) for p in row[4]) if row[4] else 0)
        if group and size + grown > ROW_GROUP_BYTES:
            yield group, size
            group, size = [], 0
        group.append(row)
        size += grown
    if group:
        yield group, size


def _arrow_table(table: str, images: Images, rows: list[Any], blobs: Mapping[str, bytes]) -> pa.Table:
    """Parse the rows' lines into the table's Arrow schema; pictures come from ``blobs`` by their ``sha256:<hex>``."""
    import pyarrow as pa
    import pyarrow.json as pj

    written = arrow.arrow_schema(TABLES[table], "reference")
    parsing = pj.ParseOptions(explicit_schema=written, unexpected_field_behavior="error")
    schema = arrow.arrow_schema(TABLES[table], images)
    pictures = arrow.image_columns(TABLES[table]) if images == "embed" else {}
    parts = []
    for data in _joined(rows):
        reading = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
        read = pj.read_json(pa.BufferReader(data), read_options=reading, parse_options=parsing)
        columns = []
        for field in schema:
            column = read.column(field.name).combine_chunks()
            if field.name in pictures:
                column = _embed_list(column, blobs) if pictures[field.name] else _embed(column, blobs)
            columns.append(column)
        parts.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(parts)


def _joined(rows: list[Any]) -> Iterator[bytes]:
    """The rows' lines in pieces of about PARSE_BYTES; this empties ``rows``, or they would stay beside the columns."""
    lines: list[bytes] = []
    size = 0
    rows.reverse()
    while rows:
        lines.append(rows.pop()[3])
        size += len(lines[-1])
        if size >= PARSE_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _embed(references: pa.StringArray, blobs: Mapping[str, bytes]) -> pa.StructArray:
    """``sha256:<hex>`` -> struct<bytes, path>; null stays null."""
    import pyarrow as pa

    encoded = references.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    stored = pa.array([blobs[name] for name in names], pa.binary()).take(encoded.indices)
    paths = pa.array([picture_name(name, blobs[name]) for name in names], pa.string()).take(encoded.indices)
    kind = arrow_image_type()
    return pa.StructArray.from_arrays([stored, paths], fields=list(kind), mask=references.is_null())


def _embed_list(references: pa.ListArray, blobs: Mapping[str, bytes]) -> pa.ListArray:
    import pyarrow as pa

    values = _embed(references.values, blobs)
    return pa.ListArray.from_arrays(references.offsets, values, type=pa.list_(arrow_image_type()))


def arrow_image_type() -> pa.StructType:
    import pyarrow as pa

    return pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def picture_name(reference: str, data: bytes) -> str:
    """File name of an embedded picture: its hash and the extension of its content."""
    from ..schemas.images import sniff

    extension = (sniff(data) or "application/octet-stream").partition("/")[2].replace("jpeg", "jpg")
    return f"{reference.removeprefix('sha256:')}.{extension}"


def _options(schema: pa.Schema) -> dict[str, Any]:
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    pictures = [leaf for leaf in leaves if leaf.endswith(".bytes")]
    return {
        "compression": {leaf: "none" if leaf in pictures else "zstd" for leaf in leaves},
        "compression_level": {leaf: 1 for leaf in leaves if leaf not in pictures},
        "use_dictionary": pictures or False,
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
