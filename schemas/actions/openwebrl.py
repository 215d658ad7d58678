"""Dialect ``openwebrl``: ``<tool_call>`` blocks of ``{"name": ..., "arguments": {...}}``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

import orjson

from ..errors import ArmError
from ..jsonl import nests_deeper
from .arguments import UNKNOWN, Tool, amount, checked, keys, text
from .canonical import point
from .dialect import Dialect, Scan
from .model import DEEPEST, POINTS, Call, UnreadableError, is_point

OPENER, CLOSER = "<tool_call>", "</tool_call>"
_AT = {"point": point}
TOOLS = {
    "click": Tool("click", _AT, ("point",)),
    "double_click": Tool("double_click", _AT, ("point",)),
    "hover": Tool("hover", _AT, ("point",)),
    "drag": Tool("drag", {"start_point": point, "end_point": point}, ("start_point", "end_point")),
    "write": Tool("type", {"point": point, "text": text}, ("text",)),
    "press_keys": Tool("press", {"keys": keys, "point": point}, ("keys",)),
    "scroll": Tool("scroll", {"direction": text, "amount": amount, "point": point}, ("direction",)),
    "wait": Tool("wait", {"seconds": amount}),
    "goto_url": Tool("goto", {"url": text}, ("url",)),
    "go_back": Tool("back", {}),
    "new_tab": Tool("new_tab", {"url": text}),
    "switch_tab": Tool("switch_tab", {}),
    "done": Tool("stop", {"answer": text}),
}
_NAMES = {tool.verb: name for name, tool in TOOLS.items()}
CANONICAL = {f"{name}_2d": name for name in POINTS}
_ANSWERS = {"message": "answer", "response": "answer"}  # of `done`: the same argument in two tool versions
_FIELDS = {"name", "arguments", "id"}  # an id only ties a call to its result
_SPACE = re.compile(r"\s*")
_UNSURE = 2**53  # orjson reads integers beyond 64 bits as floats


def scan(tail: str) -> Scan:
    """Reads every ``<tool_call>`` of ``tail``; prose between them is skipped."""
    if tail.startswith(OPENER) and tail.endswith(CLOSER):
        body = tail[len(OPENER) : -len(CLOSER)].strip()
        value = _read_fast(body)
        if value is not None:
            return Scan((_call(value),), body, [(0, len(tail))])
    return _scan_slowly(tail)


def _read_fast(body: str) -> dict[str, Any] | None:
    """One flat call, or None when only the strict reader can tell.

    orjson keeps silent about a repeated key. Each pair has one colon outside strings, so as many colons as
    keys kept, plus those inside the values kept, prove that no pair was lost.
    """
    if "\\u" in body:  # may hide a colon
        return None
    try:
        value = orjson.loads(body)
        arguments = value["arguments"]
        colons = len(value) + len(arguments)
        for item in (*arguments.values(), value.get("id")):
            if type(item) is str:
                colons += item.count(":")
            elif type(item) is list:
                if any(type(part) is list or (type(part) is float and abs(part) >= _UNSURE) for part in item):
                    return None
            elif type(item) is float and abs(item) >= _UNSURE:
                return None
        return value if colons == body.count(":") else None
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnreadableError("a key is repeated")
    return found


def _no_constant(word: str) -> Any:
    raise UnreadableError(f"{word} is no JSON number")


def _exact(text: str) -> float | Decimal:
    """What no float comes near stays a float, 0 or infinite; a Decimal of it may be an error."""
    value = float(text)
    return Decimal(text) if value and isfinite(value) else value


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_EXACT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_exact)


def decode(source: str, begin: int, exact: bool = False) -> tuple[Any, int]:
    """``(JSON value, offset after it)``. Raises UnreadableError, also for a repeated key and for NaN.

    exact: numbers with a fraction or an exponent are Decimal, if a float can hold them.
    """
    if nests_deeper(source, DEEPEST + 2, begin):  # the call and its arguments
        raise UnreadableError("nested too deeply")
    try:
        return (_EXACT if exact else _STRICT).raw_decode(source, begin)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"{error.msg} at character {error.pos - begin}") from None
    except ValueError as error:  # ours, or an integer of more than 4,300 digits
        raise error if isinstance(error, UnreadableError) else UnreadableError("a number is too long") from None


def _scan_slowly(tail: str) -> Scan:
    calls: list[Call] = []
    bodies: list[str] = []
    spans: list[tuple[int, int]] = []
    at = tail.find(OPENER)
    while at >= 0:
        begin = _skip(tail, at + len(OPENER))
        try:
            value, end = decode(tail, begin)
            after = _skip(tail, end)
            if tail.startswith(CLOSER, after):
                after += len(CLOSER)
            elif after < len(tail) and not tail.startswith(OPENER, after):
                raise UnreadableError("text after the JSON")
            calls.append(_call(value))
        except UnreadableError as error:
            raise UnreadableError(f"call {len(calls) + 1}: {error}") from None
        bodies.append(tail[begin:end])
        spans.append((at, after))
        at = tail.find(OPENER, after)
    if not calls:
        raise UnreadableError("no action")
    return Scan(tuple(calls), "\n".join(bodies), spans)


def _skip(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return match.end() if match else at


def _call(value: Any) -> Call:
    if type(value) is not dict:
        raise UnreadableError("the call is no JSON object")
    name = value.get("name")
    if type(name) is not str or not name:
        raise UnreadableError("the call has no name")
    if (len(value) != 2 or "arguments" not in value) and not _FIELDS.issuperset(value):
        raise UnreadableError(f"{name}: unknown field {min(value.keys() - _FIELDS)!r} beside the arguments")
    given = value.get("arguments")
    if type(given) is str:  # some servers write the arguments as a JSON text
        given = _whole(name, given)
    if given is None:
        given = {}
    if type(given) is not dict:
        raise UnreadableError(f"{name}: the arguments are no JSON object")
    return call_of(name, given)


def call_of(name: str, given: dict[str, Any]) -> Call:
    """The call of a tool of this family, its arguments under their canonical names and checked."""
    tool = TOOLS.get(name, UNKNOWN)
    renamed: dict[str, Any] = {}
    for key, item in given.items():
        canonical = canonical_name(tool, key)
        if canonical in renamed:
            raise UnreadableError(f"{name}: {canonical} is given twice")
        renamed[canonical] = item
    return Call(name, tool.verb, checked(name, tool, renamed))


def canonical_name(tool: Tool, key: str) -> str:
    """The canonical name of a tool's argument ``key``."""
    return CANONICAL.get(key) or (_ANSWERS.get(key, key) if tool.verb == "stop" else key)


def _whole(name: str, source: str) -> Any:
    try:
        value, end = decode(source, _skip(source, 0))
        if _skip(source, end) < len(source):
            raise UnreadableError("text after the JSON")
    except UnreadableError as error:
        raise UnreadableError(f"{name}: arguments: {error}") from None
    return value


def render(calls: Sequence[Call]) -> str:
    """One ``<tool_call>`` block per call, in order."""
    written = [json.dumps(plain(call, "openwebrl"), ensure_ascii=False) for call in calls]
    return "\n".join(f"{OPENER}\n{body}\n{CLOSER}" for body in written)


def plain(call: Call, dialect: str) -> dict[str, Any]:
    """Name and arguments in the words of this family of tools. Raises ArmError, naming ``dialect``, if it has none."""
    name = call.name if call.verb == "other" else _NAMES.get(call.verb)
    tool = TOOLS.get(name or "", UNKNOWN)
    if name is None or tool.verb != call.verb or any(key not in call.arguments for key in tool.required):
        raise ArmError(f"the dialect {dialect} has no words for {call.name}({', '.join(call.arguments)})")
    arguments = {}
    for key, value in call.arguments.items():
        if is_point(key, value) and key in POINTS:
            arguments[f"{key}_2d"] = list(value)
        elif tool.verb == "stop" and key == "answer":
            arguments["message"] = value
        else:
            arguments[key] = value
    return {"name": name, "arguments": arguments}


OPENWEBRL = Dialect(OPENER, CLOSER, scan, render)
