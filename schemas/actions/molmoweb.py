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
from collections.abc import Sequence
from typing import Any

from . import python_calls
from .dialect import Dialect, Scan
from .model import Call, UnreadableError
from .molmoweb_calls import STRINGS, Family, call_of, no_words, written
from .openwebrl import decode

_ACTION = re.compile(r"^ACTION:[^\S\n]*+", re.MULTILINE)
_BETWEEN = re.compile(r"[;\s]*+")


def scan(tail: str) -> Scan:
    """Reads a JSON object with an action string, the text after ``ACTION:``, or all of ``tail``."""
    if not tail.lstrip().startswith("{"):
        return scan_string(STRINGS, tail)
    thought, action = reply(tail)
    if type(action) is not str:
        raise UnreadableError("the action is a JSON object, its points percentages: see dialect molmoweb_json")
    return Scan(calls_of(STRINGS, action), action.strip(), [(0, len(tail))], thought)


def scan_string(words: Family, tail: str) -> Scan:
    """Reads the action string after ``ACTION:``, or all of ``tail``."""
    marked = _ACTION.search(tail)
    if marked is None:
        return Scan(calls_of(words, tail), tail.strip(), [(0, len(tail))])
    action = tail[marked.end() :]
    thought = tail[: marked.start()].strip().removeprefix("THOUGHT:").strip()
    return Scan(calls_of(words, action), action.strip(), [(marked.end(), len(tail))], thought or None)


def reply(tail: str, exact: bool = False) -> tuple[str | None, Any]:
    """Thought (None: not given) and action of a JSON reply, which must be all of ``tail``. exact: see ``decode``."""
    source = tail.strip()
    value, end = decode(source, 0, exact)
    if end < len(source):
        raise UnreadableError("text after the JSON")
    if "action" not in value:
        if "name" not in value:
            raise UnreadableError("no action")
        return None, value  # the action alone
    thought = value.get("thought")
    return thought.strip() if type(thought) is str else None, value["action"]


def calls_of(words: Family, string: str) -> tuple[Call, ...]:
    """All calls of an action string, one a line or separated by semicolons."""
    calls: list[Call] = []
    source = string.strip()
    if not python_calls.is_call(source, 0):
        raise UnreadableError("no action")
    at = 0
    while at < len(source):
        found = python_calls.call_at(source, at)
        calls.append(_call(words, found))
        at = python_calls.skip_blank(source, found.end)
        between = _BETWEEN.match(source, at)
        if between is None or (not between.group() and at < len(source)):
            raise UnreadableError(f"{found.name}: expected a new line or ; at character {at}")
        at = between.end()
    return tuple(calls)


def _call(words: Family, found: python_calls.Written) -> Call:
    name, positional, given, _ = found
    form = words.tools.get(name)
    if form is None:
        if positional and "args" in given:
            raise UnreadableError(f"{name}: args is given twice")
        return call_of(words, name, {"args": positional, **given} if positional else given)
    params = form.params
    if name in ("click", "dblclick") and ("bid" in given or (positional and type(positional[0]) is str)):
        params = ("bid", "button")
    if len(positional) > len(params) or not set(params[: len(positional)]).isdisjoint(given):
        raise UnreadableError(f"{name}: takes ({', '.join(params)})")
    return call_of(words, name, {**dict(zip(params, positional, strict=False)), **given})


def string_of(words: Family, calls: Sequence[Call]) -> str:
    """One action string per call, one a line. Raises ArmError where there are no words."""
    return "\n".join(_line(words, call) for call in calls)


def _line(words: Family, call: Call) -> str:
    name, left = written(words, call)
    items = [repr(item) for item in left.pop("args", [])] if call.verb == "other" else []
    form = words.tools.get(name)
    for index, (key, value) in enumerate(left.items()):
        positional = form is not None and not form.named and form.params[index : index + 1] == (key,)
        items.append(repr(value) if positional else f"{key}={list(value) if type(value) is tuple else value!r}")
    line = f"{name}({', '.join(items)})"
    try:
        if calls_of(words, line) == (Call(name, call.verb, call.arguments),):
            return line
    except UnreadableError:
        pass
    raise no_words(words, call)


MOLMOWEB = Dialect("", "", scan, lambda calls: string_of(STRINGS, calls))
