"""Row, file and table digests: identity that no writer version, worker count or input order can change.

A row's canonical form: every field of its schema present (absent ones null), integer fields as JSON integers, number
fields as JSON floats in their shortest round-trip form (``1.0``, ``0.7``; ``-0.0`` is ``0.0``), pictures as
``sha256:<hex>``, provenance fields left out, keys sorted, UTF-8, no spaces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from operator import is_
from typing import Any

import orjson

from .store import Schema, load

Normaliser = Callable[[Any], Any]


class RowCodec:
    """Canonical bytes of the rows of one schema; build it once, with ``for_schema``."""

    def __init__(self, schema: Schema) -> None:
        self.normalise: Normaliser = _normaliser(schema) or (lambda row: row)
        self.provenance = [k for k, v in schema["properties"].items() if v.get("x-arm-provenance")]

    def canonical(self, row: dict[str, Any]) -> bytes:
        """The bytes that are digested. Raises TypeError for values JSON cannot hold (NaN becomes null and fails
        validation of fields that may not be null; validate first)."""
        return self.encode(self.normalise(row))

    def encode(self, full: dict[str, Any]) -> bytes:
        """The canonical bytes of a row that is normalised already."""
        if self.provenance:
            full = {**full}
            for name in self.provenance:
                full.pop(name, None)
        return orjson.dumps(full, option=orjson.OPT_SORT_KEYS)

    def digest(self, row: dict[str, Any]) -> bytes:
        """SHA-256 of the canonical form, 32 bytes."""
        return hashlib.sha256(self.canonical(row)).digest()


@cache
def for_schema(name: str) -> RowCodec:
    """Return the codec of the schema ``name`` (``state/1``)."""
    return RowCodec(load(name))


def combine(row_digests: Iterable[bytes]) -> str:
    """Digest of a file or a table: SHA-256 over its sorted row digests, hexadecimal. Row order does not matter."""
    return hashlib.sha256(b"".join(sorted(row_digests))).hexdigest()


def _normaliser(schema: Schema) -> Normaliser | None:
    """Compile the normalisation of one schema node; None when values of it need none.

    It never changes its argument, and returns the same object where nothing has to change.
    """
    kinds = _kinds(schema)
    if "object" in kinds and "properties" in schema:
        return _object(schema)
    if "array" in kinds and (item := _normaliser(schema.get("items", {}))):
        return _array(item)
    if "number" in kinds:  # + 0.0 turns -0.0 into 0.0
        return lambda v: v if v is None or (type(v) is float and v) else float(v) + 0.0
    if "integer" in kinds:
        return lambda v: int(v) if type(v) is float else v  # JSON Schema takes 2.0 for an integer
    return None


def _array(item: Normaliser) -> Normaliser:
    def normalise(values: Any) -> Any:
        full = list(map(item, values))
        return values if all(map(is_, full, values)) else full

    return normalise


def _object(schema: Schema) -> Normaliser | None:
    properties = schema["properties"]
    inner = {name: fn for name, sub in properties.items() if (fn := _normaliser(sub))}
    optional = [name for name in properties if name not in schema.get("required", ())]
    if not inner and not optional:
        return None
    nulls = dict.fromkeys(optional)
    size = len(properties)
    if not inner:  # such as a block of a message: only what may be absent has to be looked at
        return lambda value: value if len(value) == size else {**nulls, **value}
    # Integers rarely need anything, and this is the hottest loop of a build: look at them without a call each.
    integers = [name for name in inner if _kinds(properties[name]) <= {"integer", "null"}]
    others = [(name, fn) for name, fn in inner.items() if name not in integers]

    def normalise(value: Any) -> Any:
        full = {**nulls, **value} if nulls and len(value) < size else value
        changes = {}
        for name in integers:
            if type(full[name]) is float:
                changes[name] = int(full[name])
        for name, fn in others:
            if (old := full[name]) is not None and (new := fn(old)) is not old:
                changes[name] = new
        return {**full, **changes} if changes else full

    return normalise


def _kinds(schema: Schema) -> set[str]:
    types = schema.get("type", ())
    return {types} if isinstance(types, str) else set(types)
