"""Dialect ``molmoweb``: action strings, ``mouse_click(x=640.0, y=360.0, button='left')``, points in pixels.

Documented by MolmoWeb's own agent code: the long names (``molmoweb_calls.py``), written as Python with ``repr`` of each
value; the viewport of 1280 x 720; that ``send_msg_to_user`` ends a run. (Its client ends it when the message starts
with [ANSWER] or [EXIT]; here any message is an answer.) Documented by BrowserGym, whose names these are:
``click(bid)``, ``noop(wait_ms)``, arguments by position. Inferred from records in the field: the short names
``click(x, y)``, ``dblclick(x, y)``, ``type(text)`` and ``press(key)``, ``THOUGHT: ... ACTION: ...`` around a string,
and a JSON object ``{"thought": ..., "action": "<action string>"}``. A name of neither is kept as it is.

The model itself replies with JSON whose ``action`` is an object and whose points are percentages of the screen: that
is ``molmoweb_json``, because one source has one coordinate space. Here such a reply is unreadable, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from . import python_calls
from .dialect import Dialect, Scan
from .model import Call, UnreadableError
from .molmoweb_calls import STRINGS, TOOLS, call_of, no_words, written
from .openwebrl import decode

_ACTION = re.compile(r"^ACTION:[^\S\n]*+", re.MULTILINE)
_BETWEEN = re.compile(r"[;\s]*+")
_NEXT = re.compile(r"[,:\s]*+")  # between the members of an object that is known to be valid
_MEMBERS = 16  # of a reply; the model writes three


def scan(tail: str) -> Scan:
    """Reads a JSON object with an action string, the text after ``ACTION:``, or all of ``tail``."""
    if tail.lstrip().startswith("{"):
        thought, action, _ = reply(tail.strip())
        if type(action) is not str:
            raise UnreadableError("the action is a JSON object, its points percentages: see dialect molmoweb_json")
        return Scan(_calls(action), action.strip(), [(0, len(tail))], thought)
    marked = _ACTION.search(tail)
    if marked is None:
        return Scan(_calls(tail), tail.strip(), [(0, len(tail))])
    action = tail[marked.end() :].strip()
    thought = tail[: marked.start()].strip().removeprefix("THOUGHT:").strip()
    return Scan(_calls(action), action, [(marked.end(), len(tail))], thought or None)


def reply(source: str, parse: Callable[[str, int], tuple[Any, int]] = decode) -> tuple[str | None, Any, str]:
    """Thought (None: not given), action and its text, of a JSON reply that must be all of ``source``."""
    value, end = parse(source, 0)
    if source[end:].strip():
        raise UnreadableError("text after the JSON")
    if "action" not in value:
        if "name" not in value:
            raise UnreadableError("no action")
        return None, value, source[:end]
    if len(value) > _MEMBERS:
        raise UnreadableError(f"a reply of more than {_MEMBERS} members")
    at, name = 1, ""
    while name != "action":
        name, at = parse(source, _skip(source, at))
        begin = _skip(source, at)
        _, at = parse(source, begin)
    thought = value.get("thought")
    return thought.strip() if type(thought) is str else None, value["action"], source[begin:at]


def _skip(source: str, at: int) -> int:
    match = _NEXT.match(source, at)
    return match.end() if match else at


def _calls(source: str) -> tuple[Call, ...]:
    """All calls of an action string, one a line or separated by semicolons."""
    calls: list[Call] = []
    source = source.strip()
    if not python_calls.is_call(source, 0):
        raise UnreadableError("no action")
    at = 0
    while at < len(source):
        found = python_calls.call_at(source, at)
        calls.append(_call(found))
        at = python_calls.skip_blank(source, found.end)
        between = _BETWEEN.match(source, at)
        if between is None or (not between.group() and at < len(source)):
            raise UnreadableError(f"{found.name}: expected a new line or ; at character {at}")
        at = between.end()
    return tuple(calls)


def _call(found: python_calls.Written) -> Call:
    name, positional, given, _ = found
    form = TOOLS.get(name)
    if form is None:
        if positional and "args" in given:
            raise UnreadableError(f"{name}: args is given twice")
        return call_of(STRINGS, name, {"args": positional, **given} if positional else given)
    params = form.params
    if name in ("click", "dblclick") and ("bid" in given or (positional and type(positional[0]) is str)):
        params = ("bid", "button")
    if len(positional) > len(params) or not set(params[: len(positional)]).isdisjoint(given):
        raise UnreadableError(f"{name}: takes ({', '.join(params)})")
    return call_of(STRINGS, name, {**dict(zip(params, positional, strict=False)), **given})


def render(calls: Sequence[Call]) -> str:
    """One action string per call, one a line."""
    return "\n".join(_line(call) for call in calls)


def _line(call: Call) -> str:
    name, left = written(STRINGS, call)
    items = [repr(item) for item in left.pop("args", [])] if call.verb == "other" else []
    named = TOOLS[name].named if name in TOOLS else True
    for index, (key, value) in enumerate(left.items()):
        positional = not named and TOOLS[name].params[index : index + 1] == (key,)
        items.append(repr(value) if positional else f"{key}={list(value) if type(value) is tuple else value!r}")
    line = f"{name}({', '.join(items)})"
    try:
        if _calls(line) == (Call(name, call.verb, call.arguments),):
            return line
    except UnreadableError:
        pass
    raise no_words(STRINGS, call)


MOLMOWEB = Dialect("", "", scan, render)
