"""Validation of any number of rows, with every issue located and said in our own words."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema_rs

from .errors import Issue
from .store import Schema, load

_LONGEST_NAME = 80  # of a field, in a message
_DEEP = "Recursion limit reached"  # jsonschema_rs, of a value nested more than 255 deep
Found = tuple[str, Any, Any, list[str | int]]  # keyword, the schema node it stands in, instance, path of the instance


@dataclass(frozen=True)
class RowValidator:
    """Checks rows against one schema; build it once, with ``for_schema``."""

    schema: Schema
    _validator: jsonschema_rs.Draft202012Validator

    def is_valid(self, row: Any) -> bool:
        try:
            return self._validator.is_valid(row)
        except UnicodeEncodeError:  # half of a surrogate pair where the characters matter: a string that is not text
            return False
        except ValueError as error:
            if _DEEP not in str(error):
                raise
            return False

    def problems(self, row: Any) -> list[tuple[str, str]]:
        """Return every problem of one row as (JSON path, message), sorted; empty for a valid row."""
        if self.is_valid(row):
            return []
        try:
            errors = list(self._validator.iter_errors(row))
        except UnicodeEncodeError:
            return sorted(_surrogates(row))
        except ValueError as error:
            if _DEEP not in str(error):
                raise
            return [("$", "is nested too deeply")]
        return collect(self._found(error, row) for error in errors)

    def _found(self, error: jsonschema_rs.ValidationError, row: Any) -> Found:
        place, keyword = list(error.schema_path[:-1]), str(error.schema_path[-1])
        path = list(error.instance_path)
        if "propertyNames" in place:  # about the name of a field; the error only has the object that holds it
            node = _walk(self.schema, place)
            names = compile_schema({keyword: node[keyword]})
            name = next(n for n in _walk(row, path) if not names.is_valid(n))
            return keyword, node, name, [*path, name]
        # the error's own instance went through JSON, where NaN became null
        return keyword, _walk(self.schema, place), _walk(row, path), path

    def issues(self, rows: Iterable[tuple[str, int, Any]]) -> list[Issue]:
        """Return all issues of ``(file, line, row)`` triples, sorted by place."""
        return sorted(Issue(file, line, *problem) for file, line, row in rows for problem in self.problems(row))


@cache
def for_schema(name: str) -> RowValidator:
    """Return the validator of the schema ``name`` (``state/1``). It never fetches anything."""
    return compile_schema(load(name))


def compile_schema(schema: Schema) -> RowValidator:
    """Return the validator of any schema. A ``$ref`` that leaves it is refused; nothing is ever fetched."""
    return RowValidator(schema, jsonschema_rs.Draft202012Validator(schema, offline=True))


def collect(errors: Iterable[Found]) -> list[tuple[str, str]]:
    """Describe what a validator found, sorted, without what says nothing more about the same place: a wrong type
    beside a wrong choice or beside the narrower type that an ``if`` asks for, a pattern beside a length. (Python's
    ``$`` also matches before a last newline, which is why every pattern stands beside a length.)"""
    places: dict[str, list[Found]] = {}
    for error in errors:
        places.setdefault(json_path(error[3]), []).append(error)
    problems: set[tuple[str, str]] = set()
    for found in places.values():
        keywords = {e[0] for e in found}
        mute = {"type"} if keywords & {"enum", "const"} else {"pattern"} if "maxLength" in keywords else set()
        types = sorted((e for e in found if e[0] == "type"), key=lambda e: len(_listed(e[1]["type"])))
        for error in [e for e in found if e[0] != "type"] + types[:1]:
            if error[0] not in mute:
                problems |= set(describe(*error))
    return sorted(problems)


def describe(keyword: str, schema: Any, instance: Any, path: Iterable[str | int]) -> list[tuple[str, str]]:
    """Say in our words what ``keyword`` of ``schema`` found wrong with ``instance``.

    The wording depends on the schema and the value only, so that any validator gives the same text.
    """
    path = list(path)
    where = json_path(path)
    value: Any = schema[keyword] if isinstance(schema, dict) and keyword in schema else None
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
            return [(where, f"has {_items(instance)}, fewer than {value}" if instance else "is an empty list")]
        case "maxItems":
            return [(where, f"has {_items(instance)}, more than {value}")]
        case "pattern":
            return [(where, f"is {shown}, does not match {value}")]
        case "not":
            return [(where, f"is {shown}, which {value.get('description', 'holds a forbidden character')}")]
        case "anyOf" if all(set(way) == {"required"} for way in value):
            names = ", ".join(name for way in value for name in way["required"])
            return [(where, f"has none of the fields {names}")]
        case "propertyNames":
            return [(where, f"has a field name that is not allowed: {shown}")]
    return [(where, f"is {shown}, which {keyword} does not allow")]


def json_path(path: Iterable[str | int]) -> str:
    """``["candidates", 3, "index"]`` -> ``$.candidates[3].index``."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else _field(step) for step in path)


def _field(name: str) -> str:
    name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return f".{name}" if name.isidentifier() else f"[{name!r}]"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to ``word``, or None when nothing is close."""
    if len(word) > _LONGEST_NAME:  # comparing takes the product of the lengths
        return None
    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.6)), None)


def _nearest(word: str, known: Iterable[str]) -> str:
    close = nearest(word, known)
    return f"; did you mean {close!r}?" if close else ""


def _walk(value: Any, place: Iterable[str | int]) -> Any:
    for step in place:
        value = value[step]
    return value


def _or(types: str | list[str]) -> str:
    article = {"integer": "an integer", "array": "a list", "object": "an object", "null": "null"}
    return " or ".join(article.get(t, f"a {t}") for t in _listed(types))


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


HALF = "holds half of a surrogate pair, which is not text"


def has_surrogate(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


def _surrogates(row: Any) -> Iterator[tuple[str, str]]:
    """Yield the strings of ``row``, names among them, that no encoding can write."""
    left: list[tuple[Any, tuple[str | int, ...]]] = [(row, ())]
    while left:
        value, path = left.pop()
        if isinstance(value, str):
            if has_surrogate(value):
                yield json_path(path), HALF
        elif isinstance(value, dict | list):
            steps = value.items() if isinstance(value, dict) else enumerate(value)
            names = value if isinstance(value, dict) else ()
            yield from ((json_path([*path, n]), f"has a name that {HALF}") for n in names if has_surrogate(n))
            left += [(inner, (*path, step)) for step, inner in steps]


def _items(values: list[Any]) -> str:
    return "1 item" if len(values) == 1 else f"{len(values)} items"


def _short(value: Any, limit: int = 80) -> str:
    """A value as JSON text, cut and without what a terminal would obey: error messages must not dump a screenshot."""
    if isinstance(value, dict | list) and len(value) > 20:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    value = value[: limit * 2] if isinstance(value, str) else value
    pieces = _JSON.iterencode(value)  # piece by piece: what is cut away may be large or deep
    text = "".join(itertools.islice(pieces, limit + 1))
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


_JSON = json.JSONEncoder(ensure_ascii=False, default=str)
