"""Rows to Arrow, column by column and by the schema alone; nothing is inferred from values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .arrow import arrow_schema, image_columns
from .images import sniff

if TYPE_CHECKING:
    import pyarrow as pa

Blobs = Mapping[str, bytes]  # sha256:<hex> -> bytes of the picture


def arrow_table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return normalised rows in JSON form as a table of the schema ``name``, pictures referenced."""
    import pyarrow as pa

    schema = arrow_schema(name, "reference")
    columns = [_column(list(map(itemgetter(field.name), rows)), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


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


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An array of the values. Messages that many rows share, as one object, are converted once."""
    import pyarrow as pa

    if pa.types.is_nested(kind):
        places: dict[int, int] = {}
        indices = [places.setdefault(id(value), len(places)) for value in values]
        if 2 * len(places) < len(values):
            distinct = {id(value): value for value in values}  # in the order in which `places` met them
            return pa.array(list(distinct.values()), kind).take(pa.array(indices, pa.int32()))
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
