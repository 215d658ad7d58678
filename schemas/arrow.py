"""Arrow types and `datasets` features, derived from a record schema and from nothing else."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from .store import Schema, load

if TYPE_CHECKING:
    import pyarrow as pa

Images = Literal["embed", "reference"]
# JSON Schema type -> Arrow type
SCALARS = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool"}


def is_image(schema: Schema) -> bool:
    return schema.get("x-arm-type") == "image"


def image_columns(name: str) -> dict[str, bool]:
    """Columns of the schema ``name`` that hold pictures -> whether the column is a list of them."""
    columns = load(name)["properties"]
    return {k: "items" in v for k, v in columns.items() if is_image(v.get("items", v))}


@cache
def arrow_schema(name: str, images: Images = "embed") -> pa.Schema:
    """The Arrow schema of a table, with the features `datasets` reads from its metadata.

    Pictures are ``struct<bytes: binary, path: string>`` when embedded, ``string`` (``sha256:<hex>``) when referenced.
    """
    import pyarrow as pa

    fields = [pa.field(k, arrow_type(v, images)) for k, v in load(name)["properties"].items()]
    metadata = {"huggingface": json.dumps({"info": {"features": features(name, images)}})}
    return pa.schema(fields, metadata=metadata)


def features(name: str, images: Images = "embed") -> dict[str, Any]:
    """The table's features in the dictionary form of ``datasets.Features.to_dict()``."""
    return {k: _feature(v, images) for k, v in load(name)["properties"].items()}


def kind_of(schema: Schema) -> str:
    """The one non-null type of a schema node; a record schema always names exactly one."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    (kind,) = [t for t in types if t != "null"]
    return str(kind)


def arrow_type(schema: Schema, images: Images) -> pa.DataType:
    """The Arrow type of one schema node."""
    import pyarrow as pa

    if is_image(schema):
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())]) if images == "embed" else pa.string()
    match kind_of(schema):
        case "array":
            return pa.list_(arrow_type(schema["items"], images))
        case "object":
            return pa.struct([(k, arrow_type(v, images)) for k, v in schema["properties"].items()])
        case scalar:
            return pa.type_for_alias(SCALARS[scalar])


def _feature(schema: Schema, images: Images) -> dict[str, Any]:
    if is_image(schema) and images == "embed":
        return {"_type": "Image"}
    match kind_of(schema):
        case "array":
            return {"feature": _feature(schema["items"], images), "_type": "List"}
        case "object":
            return {k: _feature(v, images) for k, v in schema["properties"].items()}
        case scalar:
            return {"dtype": SCALARS[scalar], "_type": "Value"}
