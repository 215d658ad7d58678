"""The names of dialects ``molmoweb`` and ``molmoweb_json``, and what their arguments mean."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from ..errors import ArmError
from .arguments import UNKNOWN, Tool, amount, checked, text
from .canonical import number, point
from .model import Call, UnreadableError

_CLICK = {"point": point, "button": text, "bid": text}
_DRAG = {"start_point": point, "end_point": point}
_SCROLL = {"dx": amount, "dy": amount, "point": point}
_TYPE_AT = {"point": point, "text": text}


def key(value: Any) -> list[str]:
    """One key or chord, in one string: ``"ControlOrMeta+a"``."""
    return [text(value)]


class Form(NamedTuple):
    """How a name is written: its tool, its parameters in order, and whether they are written with their names."""

    tool: Tool
    params: tuple[str, ...]
    named: bool = True


_MOUSE, _DROP = ("x", "y", "button"), ("from_x", "from_y", "to_x", "to_y")
TOOLS: dict[str, Form] = {
    "mouse_click": Form(Tool("click", _CLICK, ("point",)), _MOUSE),
    "click": Form(Tool("click", _CLICK), _MOUSE, named=False),
    "mouse_dblclick": Form(Tool("double_click", _CLICK, ("point",)), _MOUSE),
    "dblclick": Form(Tool("double_click", _CLICK), _MOUSE, named=False),
    "mouse_move": Form(Tool("hover", {"point": point}, ("point",)), ("x", "y")),
    "hover_at": Form(Tool("hover", {"point": point, "duration": amount}, ("point",)), ("x", "y", "duration")),
    "mouse_drag_and_drop": Form(Tool("drag", _DRAG, tuple(_DRAG)), _DROP),
    "drag_and_drop": Form(Tool("drag", _DRAG, tuple(_DRAG)), _DROP),
    "scroll": Form(Tool("scroll", _SCROLL, ("dx", "dy")), ("delta_x", "delta_y")),
    "scroll_at": Form(Tool("scroll", _SCROLL, tuple(_SCROLL)), ("x", "y", "delta_x", "delta_y")),
    "keyboard_type": Form(Tool("type", {"text": text}, ("text",)), ("text",)),
    "type": Form(Tool("type", {"text": text}, ("text",)), ("text",), named=False),
    "gemini_type_text_at": Form(
        Tool("type", _TYPE_AT, tuple(_TYPE_AT)), ("x", "y", "text", "press_enter", "clear_before_typing")
    ),
    "keyboard_press": Form(Tool("press", {"keys": key}, ("keys",)), ("key",)),
    "keypress": Form(Tool("press", {"keys": key}, ("keys",)), ("key",)),
    "press": Form(Tool("press", {"keys": key}, ("keys",)), ("key",), named=False),
    "goto": Form(Tool("goto", {"url": text}, ("url",)), ("url",)),
    "go_back": Form(Tool("back", {}), ()),
    "new_tab": Form(Tool("new_tab", {}), ()),
    "tab_focus": Form(Tool("switch_tab", {"index": amount}, ("index",)), ("index",)),
    "noop": Form(Tool("wait", {"seconds": amount}), ("wait_ms",)),
    "send_msg_to_user": Form(Tool("stop", {"answer": text}, ("answer",)), ("text",)),
    "report_infeasible": Form(Tool("stop", {"reason": text}, ("reason",)), ("reason",)),
}


class Family(NamedTuple):
    """The names of a dialect.

    renamed: an argument's own name -> the canonical one. says: verb -> the name that says it.
    """

    dialect: str
    tools: Mapping[str, Form]
    renamed: Mapping[str, str]
    says: Mapping[str, str]


def family(dialect: str, tools: Mapping[str, Form], renamed: Mapping[str, str]) -> Family:
    """A family in which each verb is said by the first name that has it."""
    says = {form.tool.verb: name for name, form in reversed(list(tools.items()))}
    return Family(dialect, tools, renamed, says)


STRINGS = family("molmoweb", TOOLS, {"delta_x": "dx", "delta_y": "dy", "key": "keys"})
_POINTS = (("point", "x", "y"), ("start_point", "from_x", "from_y"), ("end_point", "to_x", "to_y"))
_OF_STOP = {"infeasibility_reason": "reason", "msg": "answer", "text": "answer"}


def call_of(words: Family, name: str, given: Mapping[str, Any]) -> Call:
    """The call of ``name``; ``given`` holds its arguments under their own names.

    Two numbers that are a point become one argument, also of a name that is not known, so that a conversion moves
    it. The left button and no button are the same.
    """
    form = words.tools.get(name)
    tool = form.tool if form else UNKNOWN
    left = dict(given)
    arguments: dict[str, Any] = {}
    for target, x, y in _POINTS:
        if type(left.get(x)) in (int, float) and type(left.get(y)) in (int, float):
            arguments[target] = [left.pop(x), left.pop(y)]
    renamed = {} if form is None else _OF_STOP if tool.verb == "stop" else words.renamed
    for key, value in left.items():
        target = renamed.get(key, key)
        if target in arguments:
            raise UnreadableError(f"{name}: {target} is given twice")
        arguments[target] = value
    if form and arguments.get("button") == "left":
        del arguments["button"]
    if name == "noop" and type(arguments.get("wait_ms")) in (int, float):
        arguments["seconds"] = shifted(number(arguments.pop("wait_ms")), -3)
    if tool.verb in ("click", "double_click") and "point" not in arguments and "bid" not in arguments:
        raise UnreadableError(f"{name}: point is missing")
    return Call(name, tool.verb, checked(name, tool, arguments))


def shifted(value: int | float, places: int) -> int | float:
    """``value`` times a power of ten, as if it were done on paper: 0.1 by 1 is 1."""
    return number(float(Decimal(repr(value)).scaleb(places)))


def written(words: Family, call: Call) -> tuple[str, dict[str, Any]]:
    """Name and arguments under their own names, in the order they are written: the opposite of ``call_of``.

    Raises ArmError, naming the dialect, where there are none.
    """
    name = call.name
    form = words.tools.get(name)
    if call.verb != "other" and (form is None or form.tool.verb != call.verb):
        name = words.says.get(call.verb, "")
        if "point" in call.arguments:
            name = {"scroll": "scroll_at", "type": "gemini_type_text_at"}.get(call.verb, name)
        form = words.tools.get(name)
    left = dict(call.arguments)
    for target, x, y in _POINTS:
        if type(left.get(target)) is tuple:
            left[x], left[y] = left.pop(target)
    if form:
        own = {new: old for old, new in (_OF_STOP if call.verb == "stop" else words.renamed).items()}
        left = {own[key] if own.get(key) in form.params else key: value for key, value in left.items()}
        if type(left.get("key")) is list and len(left["key"]) == 1:
            left["key"] = left["key"][0]
        if "wait_ms" in form.params and type(left.get("seconds")) in (int, float):
            left["wait_ms"] = float(Decimal(repr(left.pop("seconds"))).scaleb(3))
            left["wait_ms"] = int(left["wait_ms"]) if left["wait_ms"].is_integer() else left["wait_ms"]
        if name in ("mouse_click", "mouse_dblclick"):
            left.setdefault("button", "left")
        if name != call.name and not left.keys() <= {*form.params, "bid"}:
            raise no_words(words, call)  # what another dialect says beyond this
    # In the order of the form, then by name: the same call is always written alike.
    left = {key: left[key] for key in (*(form.params if form else ()), *sorted(left)) if key in left}
    try:
        if name and call_of(words, name, left) == Call(name, call.verb, call.arguments):
            return name, left
    except UnreadableError:
        pass
    raise no_words(words, call)


def no_words(words: Family, call: Call) -> ArmError:
    return ArmError(f"the dialect {words.dialect} has no words for {call.name}({', '.join(call.arguments)})")
