"""Dialect ``molmoweb_json``: MolmoWeb's own replies, one JSON object each.

    {"thought": "...", "action_description": "...", "action": {"name": "click", "x": 45.3, "y": 20.1}}

Documented by MolmoWeb's agent code: these names and arguments; points in percent of the screen (0..100), which are
read as thousandths, so that a source of replies has the space ``norm1000``; ``gemini_type_text_at``, whose points are
thousandths already; scroll distances in percent, which no other dialect has a word for; the action alone, without a
thought. A reply holds one action. Not everything is refused that the agent refuses, such as keys outside of its list.

A prompt names one scale for all points, so percentages must not be shown: the action text of a reply is the action
string that says the same in thousandths, ``click(453, 201)``. As a response, a string is refused: what the agent makes
of a reply is an action string in pixels, dialect ``molmoweb``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ..errors import ArmError
from .arguments import Tool, amount
from .canonical import number, point
from .dialect import Dialect, Scan
from .model import Call, UnreadableError
from .molmoweb import reply, scan_string, string_of
from .molmoweb_calls import TOOLS, Form, call_of, family, no_words, written

_ACROSS = {"delta_x": amount, "delta_y": amount}
_TABS = ("go_back", "new_tab", "tab_focus")  # nav_type of browser_nav, and the names of action strings
_REPLIES = family(
    "molmoweb_json",
    {
        **TOOLS,
        "scroll": Form(Tool("scroll", _ACROSS, tuple(_ACROSS)), tuple(_ACROSS)),
        "scroll_at": Form(Tool("scroll", {**_ACROSS, "point": point}, (*_ACROSS, "point")), ("x", "y", *_ACROSS)),
        "noop": Form(Tool("wait", {}), ("noop_reason",)),
    },
    {"key": "keys"},
)
_SAID = {"send_msg_to_user": ("text", "msg"), "report_infeasible": ("reason", "infeasibility_reason")}
_PLACES = {"gemini_type_text_at": 0}  # of the decimal point, from what is written to thousandths; elsewhere 1
_COORDINATES = ("x", "y", "from_x", "from_y", "to_x", "to_y")


def scan(tail: str) -> Scan:
    """Reads the one action of a reply that is all of ``tail``."""
    if not tail.lstrip().startswith("{"):
        raise UnreadableError("no action")
    thought, action = reply(tail, exact=True)
    if type(action) is not dict:
        raise UnreadableError("the action is no JSON object; action strings are dialect molmoweb")
    call = _call(action)
    try:
        return Scan((call,), string_of(_REPLIES, [call]), [(0, len(tail))], thought)
    except ArmError:
        raise UnreadableError(f"{call.name}: cannot be written as an action string") from None


def _call(action: dict[str, Any]) -> Call:
    name = action.get("name")
    if type(name) is not str or not name:
        raise UnreadableError("the action has no name")
    try:
        given = {
            key: _thousandths(name, value) if key in _COORDINATES else _plain(value)
            for key, value in action.items()
            if key != "name"
        }
    except UnreadableError as error:
        raise UnreadableError(f"{name}: {error}") from None
    if name != "browser_nav":
        return call_of(_REPLIES, name, given)
    name = str(given.pop("nav_type", None))
    if name not in _TABS:
        raise UnreadableError(f"browser_nav: nav_type must be one of {', '.join(_TABS)}")
    if name != "tab_focus":
        given.pop("index", None)  # -1, which says nothing
    return call_of(_REPLIES, name, given)


def _thousandths(name: str, value: Any) -> Any:
    """A coordinate, moved on paper: 45.3 percent are 453 thousandths, not 452.99999999999994."""
    places = _PLACES.get(name, 1)
    if isinstance(value, Decimal):
        return number(float(value.scaleb(places)))
    return value * 10**places if type(value) is int else _plain(value)


def _plain(value: Any) -> Any:
    """The value without Decimals; the reader has checked how deep it is."""
    if isinstance(value, Decimal):
        return number(float(value))
    if type(value) is list:
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if type(value) is dict else value


def render(calls: Sequence[Call]) -> str:
    """A reply with the one call that it can hold."""
    if len(calls) != 1:
        raise no_words(_REPLIES, calls[1] if calls else Call("nothing", "other", {}))
    (call,) = calls
    name, left = written(_REPLIES, call)
    own, said = _SAID.get(name, ("", ""))
    parts = [f'"name": {json.dumps(name, ensure_ascii=False)}']
    if name in _TABS:
        parts = [f'"name": "browser_nav", "nav_type": "{name}"']
        left = {"index": -1, **left}
    for argument, value in left.items():
        if argument in _COORDINATES and type(value) in (int, float):
            text = format(Decimal(repr(value)).scaleb(-_PLACES.get(name, 1)), "f")  # a float would lose digits
        else:
            text = json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(said if argument == own else argument, ensure_ascii=False)}: {text}")
    reply_text = f'{{"action": {{{", ".join(parts)}}}}}'
    try:
        if scan(reply_text).calls == (Call(name, call.verb, call.arguments),):
            return reply_text
    except UnreadableError:
        pass
    raise no_words(_REPLIES, call)


_TEXTS = Dialect("", "", lambda tail: scan_string(_REPLIES, tail), lambda calls: string_of(_REPLIES, calls))
MOLMOWEB_JSON = Dialect("", "", scan, render, texts=_TEXTS)
