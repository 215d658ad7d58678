"""Integers that records write as floats: JSON Schema takes ``1.0`` for one, and Python indexes nothing by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from .store import Schema, load
from .validate import json_path

Step = tuple[str | int, ...]
Walk = Callable[[Any, Step], Iterator[tuple[str, str]]]


def floats(name: str, record: Any) -> list[tuple[str, str]]:
    """(JSON path, message) of each float of a record where the schema ``name`` wants an integer; the record is valid
    otherwise."""
    walk = _for_schema(name)
    return list(walk(record, ())) if walk else []


@cache
def _for_schema(name: str) -> Walk | None:
    return _walk(load(name))


def _walk(schema: Schema) -> Walk | None:
    """Look through the values of one schema node; None when they hold no integer."""
    types = schema.get("type")
    if types == "integer" or (isinstance(types, list) and "integer" in types and "number" not in types):
        return _integer
    fields = {name: walk for name, node in schema.get("properties", {}).items() if (walk := _walk(node))}
    items = _walk(schema["items"]) if isinstance(schema.get("items"), dict) else None
    if not fields and items is None:
        return None

    def look(value: Any, path: Step) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for name, walk in fields.items():
                if name in value:
                    yield from walk(value[name], (*path, name))
        elif isinstance(value, list) and items:
            for index, item in enumerate(value):
                yield from items(item, (*path, index))

    return look


def _integer(value: Any, path: Step) -> Iterator[tuple[str, str]]:
    if isinstance(value, float):
        yield json_path(path), f"is {value!r}, not an integer: write {value:.0f}"
