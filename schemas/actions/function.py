"""Dialect ``function``: ``<action>click(206, 162)</action>``, the form MiniWoB++ agents write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..errors import ArmError
from . import literals
from .arguments import UNKNOWN, Tool, amount, checked, keys, text
from .canonical import point
from .dialect import Dialect, Scan
from .model import Call, UnreadableError

OPENER, CLOSER = "<action>", "</action>"
_AT = {"point": point}
_DRAG = {"start_point": point, "end_point": point}
TOOLS: dict[str, tuple[Tool, tuple[tuple[str, ...], ...]]] = {  # name -> (tool, the parameter lists it takes)
    "click": (Tool("click", _AT), (("x", "y"),)),
    "double_click": (Tool("double_click", _AT), (("x", "y"),)),
    "hover": (Tool("hover", _AT), (("x", "y"),)),
    "drag": (Tool("drag", _DRAG), (("x1", "y1", "x2", "y2"),)),
    "type": (Tool("type", {"point": point, "text": text}, ("text",)), (("x", "y", "text"), ("text",))),
    "press": (Tool("press", {"keys": keys}, ("keys",)), (("key",),)),
    "scroll": (Tool("scroll", {"dx": amount, "dy": amount}, ("dx", "dy")), (("dx", "dy"),)),
    "wait": (Tool("wait", {"seconds": amount}, ("seconds",)), (("seconds",),)),
    "goto": (Tool("goto", {"url": text}, ("url",)), (("url",),)),
    "back": (Tool("back", {}), ((),)),
    "stop": (Tool("stop", {"answer": text}), (("answer",), ())),
}
# A point is two parameters here; everything else has one canonical name.
_POINTS = (("point", "x", "y"), ("start_point", "x1", "y1"), ("end_point", "x2", "y2"))


def scan(tail: str) -> Scan:
    """Reads every ``<action>`` block of ``tail``, or all of ``tail`` when it has none."""
    calls: list[Call] = []
    bodies: list[str] = []
    spans: list[tuple[int, int]] = []
    at = tail.find(OPENER)
    begin = at + len(OPENER) if at >= 0 else 0
    while begin >= 0:
        end = _block(tail, begin, calls)
        bodies.append(tail[begin:end].strip())
        spans.append((max(at, 0), end))
        at = tail.find(OPENER, end) if at >= 0 else -1
        begin = at + len(OPENER) if at >= 0 else -1
    if not calls:
        raise UnreadableError("no action")
    return Scan(tuple(calls), "\n".join(bodies), spans)


def _block(tail: str, at: int, calls: list[Call]) -> int:
    """Appends the calls of one block; returns where it ends: at its closing tag, or with the text."""
    at = literals.skip(tail, at)
    if not literals.starts(tail, at):
        raise UnreadableError("no action")
    while at < len(tail) and not tail.startswith(CLOSER, at):
        name, positional, keywords, after = literals.call(tail, at)
        calls.append(call_of(name, positional, keywords))
        at = literals.skip(tail, after)
        if tail.startswith(";", at):
            at = literals.skip(tail, at + 1)
        elif at < len(tail) and not tail.startswith(CLOSER, at) and "\n" not in tail[after:at]:
            raise UnreadableError(f"{name}: expected a new line or ; at character {after}")
    return at


def call_of(name: str, positional: list[Any], keywords: dict[str, Any]) -> Call:
    """The call of what was written. Raises UnreadableError for arguments that ``name`` does not take."""
    if name not in TOOLS:
        if positional and "args" in keywords:
            raise UnreadableError(f"{name}: args is given twice")
        given = {"args": positional, **keywords} if positional else keywords
        return Call(name, UNKNOWN.verb, checked(name, UNKNOWN, given))
    tool, forms = TOOLS[name]
    for form in forms:
        if set(form[len(positional) :]) == set(keywords) and len(positional) <= len(form):
            given = {**dict(zip(form, positional, strict=False)), **keywords}
            break
    else:
        raise UnreadableError(f"{name}: takes " + " or ".join(f"({', '.join(form)})" for form in forms))
    points = {target: [given.pop(x), given.pop(y)] for target, x, y in _POINTS if x in given}
    if "key" in given:
        given["keys"] = given.pop("key")
    return Call(name, tool.verb, checked(name, tool, {**points, **given}))


def render(calls: Sequence[Call]) -> str:
    """All calls in one ``<action>`` block, one a line."""
    return OPENER + "\n".join(line(call) for call in calls) + CLOSER


def line(call: Call) -> str:
    """``call`` without tags. Raises ArmError where there are no words for it."""
    left = dict(call.arguments)
    if call.verb == "other":
        items = [_literal(call, item) for item in left.pop("args", [])]
        items += [f"{key}={_literal(call, item)}" for key, item in left.items()]
        return f"{call.name}({', '.join(items)})"
    for target, x, y in _POINTS:
        if target in left:
            left[x], left[y] = left.pop(target)
    if len(left.get("keys", ())) == 1:
        left["key"] = left.pop("keys")[0]
    for form in TOOLS.get(call.verb, (UNKNOWN, ()))[1]:
        if set(form) == set(left):
            return f"{call.verb}({', '.join(_literal(call, left[key]) for key in form)})"
    raise _no_words(call)


def _literal(call: Call, value: Any) -> str:
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value)):
        raise _no_words(call)
    return json.dumps(value, ensure_ascii=False)


def _no_words(call: Call) -> ArmError:
    return ArmError(f"the dialect function has no words for {call.name}({', '.join(call.arguments)})")


FUNCTION = Dialect(OPENER, CLOSER, scan, render)
