"""What a bucket came to, as JSON and back: how a finished bucket outlives the process that built it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

from ..schemas.errors import Issue
from ..schemas.ids import sha256_hex
from .bucket import BucketResult
from .writer import WrittenFile

# The objects that a result is made of, besides Python's own; what is not listed here cannot be written down.
_CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (BucketResult, WrittenFile, Issue)}
_JSON = ("audits",)  # fields that hold JSON already, and much of it


def to_bytes(result: BucketResult) -> bytes:
    """JSON with a digest of itself. Raises TypeError for a value of a kind that `of_bytes` could not give back."""
    said = _encoded(result)
    return _dumps({"sha256": sha256_hex(_dumps(said)), "result": said})


def of_bytes(data: bytes) -> BucketResult | None:
    """The result that was written, or None for bytes that are not whole or were changed."""
    try:
        read = json.loads(data)
        if read["sha256"] != sha256_hex(_dumps(read["result"])):
            return None
        result = _decoded(read["result"])
    except (ValueError, KeyError, TypeError):
        return None
    return result if isinstance(result, BucketResult) else None


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()  # ASCII: a file's name may be no text


def _encoded(value: Any) -> Any:
    """JSON of a value; what JSON has no kind for becomes a list of a word and what it holds."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if kind in (list, tuple):
        return [kind.__name__, *map(_encoded, value)]
    if kind is set:
        return ["set", *map(_encoded, sorted(value))]
    if kind in (dict, Counter):
        return [kind.__name__, *([_encoded(k), _encoded(v)] for k, v in value.items())]
    if is_dataclass(value) and _CLASSES.get(kind.__name__) is kind:
        held = {f.name: getattr(value, f.name) for f in fields(value)}
        return [kind.__name__, {k: ["json", v] if k in _JSON else _encoded(v) for k, v in held.items()}]
    raise TypeError(f"the result of a bucket cannot be kept: it holds {kind.__name__}")


def _decoded(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *held = value
    match kind:
        case "json":
            return held[0]
        case "bytes":
            return base64.b64decode(held[0], validate=True)
        case "list" | "tuple" | "set":
            return {"list": list, "tuple": tuple, "set": set}[kind](map(_decoded, held))
        case "dict" | "Counter":
            return {"dict": dict, "Counter": Counter}[kind]({_decoded(k): _decoded(v) for k, v in held})
    return _CLASSES[kind](**{name: _decoded(inner) for name, inner in held[0].items()})
