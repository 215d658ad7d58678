"""Canonical JSON of calls, and the key that is their identity.

Canonical JSON is what ``json.dumps(calls, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`` writes
once every number is in one form: a number without a fraction is an integer (206.0 -> 206, -0.0 -> 0), any other
is the shortest decimal that reads back. Nothing else is folded: text, URLs, answers, key names, names of unknown
tools and scroll directions keep their case and spacing, because an executor may treat ``Down`` unlike ``down``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from math import isfinite
from typing import Any

import orjson

from ..errors import ArmError
from ..jsonl import nests_deeper
from .model import DEEPEST, POINTS, Call, UnreadableError

_SORTED = orjson.OPT_SORT_KEYS
_EXACT = 2**53  # pixels; beyond it a coordinate is no exact float, and no screen has it


def number(value: int | float) -> int | float:
    """``value`` in its one form. Raises UnreadableError for infinities and NaN."""
    if type(value) is int:
        return value
    if not isfinite(value):
        raise UnreadableError("holds a number out of range")
    whole = int(value)
    return whole if whole == value else value


def point(value: Any) -> tuple[int | float, int | float]:
    """A list of two numbers as ``(x, y)``."""
    if not is_pair(value):
        raise UnreadableError("must be two numbers")
    x, y = value
    if type(x) is not int or type(y) is not int:
        x, y = number(x), number(y)
    if not (-_EXACT < x < _EXACT and -_EXACT < y < _EXACT):
        raise UnreadableError("is out of range")
    return x, y


def json_value(value: Any, depth: int = 0) -> Any:
    """A JSON value with every number in its one form, and every point in it checked; ``depth`` is what it stands in.

    Raises UnreadableError for what is no JSON, nested more than ``DEEPEST`` deep, or a point that no screen has.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return number(value)
    if kind is list:
        if depth == DEEPEST:
            raise UnreadableError("is nested too deeply")
        return [json_value(item, depth + 1) for item in value]
    if kind is dict:
        if depth == DEEPEST:
            raise UnreadableError("is nested too deeply")
        return {
            key: _inner_point(item) if key.endswith("point_2d") and is_pair(item) else json_value(item, depth + 1)
            for key, item in value.items()
        }
    raise UnreadableError(f"holds a {kind.__name__}, which is no JSON value")


def _inner_point(value: Any) -> list[int | float]:
    """A point below an argument stays a list, but a conversion moves it."""
    try:
        return list(point(value))
    except UnreadableError as error:
        raise UnreadableError(f"holds a point that {error}") from None


def identity(calls: Iterable[Call]) -> tuple[str, str]:
    """``(json, key)`` of calls, as in ``Parsed``: for calls that were converted or built by hand.

    Numbers must be in their one form already. Raises UnreadableError for text that is not valid Unicode.
    """
    plain = [{"arguments": call.arguments, "name": call.name, "verb": call.verb} for call in calls]
    try:
        data = orjson.dumps(plain, option=_SORTED)
    except TypeError:  # an integer beyond 64 bits, or a lone surrogate
        data = _write_slowly(plain)
    if b"e-" in data:  # perhaps 1e-7, which the two writers spell differently
        data = _write_slowly(plain)
    return data.decode(), sha256(data).hexdigest()[:32]


def _write_slowly(plain: list[dict[str, Any]]) -> bytes:
    try:
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableError("text is not valid Unicode (half of a surrogate pair)") from None


def unreadable_key(text: str) -> str:
    """Identity of a response without readable calls. Canonical JSON starts with ``[``, so the two never meet."""
    return sha256(b"unreadable\n" + text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def calls_from_json(text: str) -> tuple[Call, ...]:
    """The calls whose canonical JSON is ``text``. Raises ArmError when it is not a list of calls."""
    try:
        if nests_deeper(text, DEEPEST + 3):  # the list, the call and its arguments
            raise UnreadableError("nested too deeply")
        # Not orjson: it turns integers beyond 64 bits into floats.
        return tuple(_call(**item) for item in json.loads(text))
    except (ValueError, TypeError, AttributeError) as error:
        raise ArmError(f"not the canonical JSON of calls: {error}") from error


def _call(*, name: str, verb: str, arguments: dict[str, Any]) -> Call:
    return Call(name, verb, {key: _restored(key, value) for key, value in arguments.items()})


def _restored(name: str, value: Any) -> Any:
    """JSON has no tuples: a pair of numbers under a point's name was one."""
    return point(value) if (name in POINTS or name.endswith("point_2d")) and is_pair(value) else json_value(value)


def is_pair(value: object) -> bool:
    """True for a list of two numbers (booleans are none)."""
    return type(value) is list and len(value) == 2 and all(type(item) in (int, float) for item in value)
