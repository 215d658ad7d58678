"""Rows to Arrow, column by column and by the schema alone; nothing is inferred from values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .arrow import arrow_schema, arrow_type, image_columns, kind_of
from .images import sniff
from .store import Schema, load

if TYPE_CHECKING:
    import pyarrow as pa

Blobs = Mapping[str, bytes]  # sha256:<hex> -> bytes of the picture


def arrow_table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return normalised rows in JSON form as a table of the schema ``name``, pictures referenced."""
    import pyarrow as pa

    properties = load(name)["properties"]
    columns = [_column(list(map(itemgetter(field), rows)), node) for field, node in properties.items()]
    return pa.Table.from_arrays(columns, schema=arrow_schema(name, "reference"))


def embed_pictures(name: str, table: pa.Table, blobs: Blobs) -> pa.Table:
    """Return a table of ``arrow_table`` with the bytes of its pictures in place of their references."""
    import pyarrow as pa

    columns = []
    pictures = image_columns(name)
    for field in table.schema.names:
        column = table.column(field)
        if field in pictures:
            whole = column.combine_chunks()
            column = _embed_lists(whole, blobs) if pictures[field] else _embed(whole, blobs)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=arrow_schema(name, "embed"))


def _column(values: list[Any], node: Schema) -> pa.Array:
    import pyarrow as pa

    kind = arrow_type(node, "reference")
    match kind_of(node):
        case "array":
            offsets = pa.array(accumulate((len(v) if v else 0 for v in values), initial=0), pa.int32())
            items = _column(list(chain.from_iterable(filter(None, values))), node["items"])
            nulls = pa.array([v is None for v in values], pa.bool_()) if "null" in node["type"] else None
            return pa.ListArray.from_arrays(offsets, items, type=kind, mask=nulls)
        case "object":
            parts = [_column(list(map(itemgetter(f), values)), sub) for f, sub in node["properties"].items()]
            return pa.StructArray.from_arrays(parts, fields=list(kind))
        case _:
            return pa.array(values, kind)


def _embed_lists(references: pa.ListArray, blobs: Blobs) -> pa.ListArray:
    import pyarrow as pa

    values = _embed(references.values, blobs)
    return pa.ListArray.from_arrays(references.offsets, values, type=pa.list_(values.type))


def _embed(references: pa.StringArray, blobs: Blobs) -> pa.StructArray:
    """``sha256:<hex>`` -> struct<bytes, path>; null stays null."""
    import pyarrow as pa

    encoded = references.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    stored = pa.array([blobs[name] for name in names], pa.binary()).take(encoded.indices)
    paths = pa.array([picture_name(name, blobs[name]) for name in names], pa.string()).take(encoded.indices)
    fields = [pa.field("bytes", pa.binary()), pa.field("path", pa.string())]
    return pa.StructArray.from_arrays([stored, paths], fields=fields, mask=references.is_null())


def picture_name(reference: str, data: bytes) -> str:
    """File name of an embedded picture: its hash and the extension of its content."""
    extension = (sniff(data) or "application/octet-stream").partition("/")[2].replace("jpeg", "jpg")
    return f"{reference.removeprefix('sha256:')}.{extension}"
