"""Validation of any number of rows, with every issue located and said in our own words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema_rs

from .errors import Issue
from .store import Schema, load


@dataclass(frozen=True)
class RowValidator:
    """Checks rows against one schema; build it once, with ``for_schema``."""

    schema: Schema
    _validator: jsonschema_rs.Draft202012Validator

    def is_valid(self, row: Any) -> bool:
        return self._validator.is_valid(row)

    def problems(self, row: Any) -> list[tuple[str, str]]:
        """Return every problem of one row as (JSON path, message), sorted; empty for a valid row."""
        if self._validator.is_valid(row):
            return []
        found = set()
        for error in self._validator.iter_errors(row):
            *place, keyword = error.schema_path
            found |= set(describe(str(keyword), _walk(self.schema, place), error.instance, error.instance_path))
        return sorted(found)

    def issues(self, rows: Iterable[tuple[str, int, Any]]) -> list[Issue]:
        """Return all issues of ``(file, line, row)`` triples, sorted by place."""
        return sorted(Issue(file, line, *problem) for file, line, row in rows for problem in self.problems(row))


@cache
def for_schema(name: str) -> RowValidator:
    """Return the validator of the schema ``name`` (``state/1``). It never fetches anything."""
    schema = load(name)
    return RowValidator(schema, jsonschema_rs.Draft202012Validator(schema, offline=True))


def describe(keyword: str, schema: Any, instance: Any, path: Iterable[str | int]) -> list[tuple[str, str]]:
    """Say in our words what ``keyword`` of ``schema`` found wrong with ``instance``.

    The wording depends on the schema and the value only, so that any validator gives the same text.
    """
    path = list(path)
    where = json_path(path)
    value = schema[keyword] if isinstance(schema, dict) and keyword in schema else None
    shown = _short(instance)
    match keyword:
        case "required":
            return [(where, f"lacks the field {name!r}") for name in value if name not in instance]
        case "additionalProperties":
            known = schema.get("properties", {})
            return [
                (json_path([*path, k]), f"is not a known field{_nearest(k, known)}") for k in instance if k not in known
            ]
        case "type":
            return [(where, f"is {shown}, not {_or(value)}")]
        case "enum":
            return [(where, f"is {shown}, not one of {', '.join('null' if v is None else str(v) for v in value)}")]
        case "const":
            return [(where, f"is {shown}, must be {_short(value)}")]
        case "minimum" | "exclusiveMinimum":
            return [(where, f"is {shown}, below the least allowed {value}")]
        case "maximum" | "exclusiveMaximum":
            return [(where, f"is {shown}, above the largest allowed {value}")]
        case "minLength":
            return [(where, "is empty" if value == 1 else f"is shorter than {value} characters")]
        case "maxLength":
            return [(where, f"is longer than {value} characters: {shown}")]
        case "minItems":
            return [(where, "is an empty list" if not instance else f"has {len(instance)} items, fewer than {value}")]
        case "maxItems":
            return [(where, f"has {len(instance)} items, more than {value}")]
        case "pattern":
            return [(where, f"is {shown}, does not match {value}")]
        case "not":
            return [(where, f"is {shown}, which holds a forbidden character")]
        case "propertyNames":
            return [(where, f"has a field name that is not allowed: {shown}")]
    return [(where, f"is {shown}, which {keyword} does not allow")]


def json_path(path: Iterable[str | int]) -> str:
    """``["candidates", 3, "index"]`` -> ``$.candidates[3].index``."""
    steps = (f"[{p}]" if isinstance(p, int) else f".{p}" if p.isidentifier() else f"[{p!r}]" for p in path)
    return "$" + "".join(steps)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to ``word``, or None when nothing is close."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.6)), None)


def _nearest(word: str, known: Iterable[str]) -> str:
    close = nearest(word, known)
    return f"; did you mean {close!r}?" if close else ""


def _walk(schema: Any, place: Iterable[str | int]) -> Any:
    for step in place:
        schema = schema[step]
    return schema


def _or(types: str | list[str]) -> str:
    article = {"integer": "an integer", "array": "a list", "object": "an object", "null": "null"}
    named = [article.get(t, f"a {t}") for t in ([types] if isinstance(types, str) else types)]
    return " or ".join(named)


def _short(value: Any, limit: int = 60) -> str:
    """A value as JSON text, cut: error messages must not dump a screenshot."""
    import json

    if isinstance(value, dict | list) and len(value) > 20:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value[: limit * 2] if isinstance(value, str) else value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"
