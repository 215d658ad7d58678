"""What the calls of dialect ``desktop`` mean: one spelling for each action, whichever function was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .arguments import UNKNOWN, Tool, amount, checked, keys, text
from .canonical import point
from .model import Call, UnreadableError
from .python_calls import Written

WORDS = {
    "WAIT": Call("time.sleep", "wait", {}),
    "DONE": Call("DONE", "stop", {}),
    "FAIL": Call("FAIL", "stop", {"status": "failure"}),
}
_STATUS = {"success": "DONE", "failure": "FAIL", "fail": "FAIL"}
_PACED = ("x", "y", "interval", "duration", "tween")
_ONCE = ("x", "y", "interval", "button", "duration", "tween")
_BUTTON = ("x", "y", "button", "duration", "tween")
PARAMS: dict[str, tuple[str, ...]] = {  # function -> its parameters in order
    "pyautogui.click": ("x", "y", "clicks", "interval", "button", "duration", "tween"),
    "pyautogui.leftClick": _PACED,
    "pyautogui.rightClick": _PACED,
    "pyautogui.middleClick": _PACED,
    "pyautogui.doubleClick": _ONCE,
    "pyautogui.tripleClick": _ONCE,
    "computer.triple_click": ("x", "y"),
    "pyautogui.moveTo": ("x", "y", "duration", "tween"),
    "pyautogui.dragTo": ("x", "y", "duration", "tween", "button"),
    "pyautogui.write": ("message", "interval"),
    "pyautogui.typewrite": ("message", "interval"),
    "pyautogui.press": ("keys", "presses", "interval"),
    "pyautogui.hotkey": (),  # any number of keys
    "pyautogui.scroll": ("clicks", "x", "y"),
    "pyautogui.vscroll": ("clicks", "x", "y"),
    "pyautogui.hscroll": ("clicks", "x", "y"),
    "pyautogui.mouseDown": _BUTTON,
    "pyautogui.mouseUp": _BUTTON,
    "pyautogui.keyDown": ("key",),
    "pyautogui.keyUp": ("key",),
    "time.sleep": ("seconds",),
    "pyautogui.sleep": ("seconds",),
    "computer.wait": ("seconds",),
    "computer.terminate": ("status", "answer"),
}
_MOUSE = {"point": point, "button": text, "clicks": amount}
_WHEEL = Tool("scroll", {"clicks": amount, "point": point}, ("clicks",))
_HELD = Tool("other", {"point": point, "button": text})
_KEY = Tool("other", {"key": text}, ("key",))
TOOLS: dict[str, Tool] = {  # of the one spelling
    "pyautogui.click": Tool("click", _MOUSE),
    "pyautogui.doubleClick": Tool("double_click", _MOUSE),
    "pyautogui.moveTo": Tool("hover", {"point": point}, ("point",)),
    "pyautogui.dragTo": Tool("drag", {"start_point": point, "end_point": point, "button": text}, ("end_point",)),
    "pyautogui.write": Tool("type", {"text": text}, ("text",)),
    "pyautogui.press": Tool("press", {"keys": keys, "sequence": keys, "presses": amount}),
    "pyautogui.hotkey": Tool("press", {"keys": keys}, ("keys",)),
    "pyautogui.scroll": _WHEEL,
    "pyautogui.hscroll": _WHEEL,
    "pyautogui.mouseDown": _HELD,
    "pyautogui.mouseUp": _HELD,
    "pyautogui.keyDown": _KEY,
    "pyautogui.keyUp": _KEY,
    "time.sleep": Tool("wait", {"seconds": amount}),
    "DONE": Tool("stop", {"answer": text}),
    "FAIL": Tool("stop", {"answer": text, "status": text}, ("status",)),
}
_SAME: dict[str, tuple[str, dict[str, Any]]] = {  # another spelling -> the one, and what the name itself says
    "pyautogui.leftClick": ("pyautogui.click", {}),
    "pyautogui.rightClick": ("pyautogui.click", {"button": "right"}),
    "pyautogui.middleClick": ("pyautogui.click", {"button": "middle"}),
    "pyautogui.tripleClick": ("pyautogui.click", {"clicks": 3}),
    "computer.triple_click": ("pyautogui.click", {"clicks": 3}),
    "pyautogui.typewrite": ("pyautogui.write", {}),
    "pyautogui.vscroll": ("pyautogui.scroll", {}),
    "pyautogui.sleep": ("time.sleep", {}),
    "computer.wait": ("time.sleep", {}),
}
_PACE = ("duration", "tween", "interval", "_pause", "logScreenshot")  # how fast, and what is recorded
_WHEELS = ("pyautogui.scroll", "pyautogui.hscroll")
_DEFAULTS = {"button": "left", "clicks": 1, "presses": 1}


def is_known(name: str) -> bool:
    """True for what is read: any function of pyautogui and of computer, and time.sleep."""
    module, _, function = name.partition(".")
    return name in PARAMS or (module in ("pyautogui", "computer") and bool(function) and "." not in function)


def call_of(found: Written) -> Call:
    """The call under the one spelling. Raises UnreadableError that names the function as it was written."""
    name, positional, keywords, _ = found
    params = PARAMS.get(name)
    if params is None:
        if positional and "args" in keywords:
            raise UnreadableError(f"{name}: args is given twice")
        return _canonical(name, {"args": positional, **keywords} if positional else keywords)
    if name == "pyautogui.hotkey":  # hotkey("ctrl", "c") or hotkey(["ctrl", "c"])
        params = ("keys",)
        positional = positional if len(positional) == 1 and type(positional[0]) is list else [positional]
    elif params[0] == "x" and positional and type(positional[0]) is list:  # click((1, 2))
        params = ("point", *params[2:])
    if len(positional) > len(params) or not set(params[: len(positional)]).isdisjoint(keywords):
        raise UnreadableError(f"{name}: takes ({', '.join(params)})")
    return _canonical(name, {**dict(zip(params, positional, strict=False)), **keywords})


def _canonical(name: str, given: Mapping[str, Any]) -> Call:
    spelled, said = _SAME.get(name, (name, {}))
    left = _joined(name, given)
    for key, value in said.items():
        if left.setdefault(key, value) != value:
            raise UnreadableError(f"{name}: {key} contradicts the name")
    for key, value in _DEFAULTS.items():
        if name in PARAMS and left.get(key) == value and left[key] is not True and spelled not in _WHEELS:
            del left[key]
    if name == "computer.terminate":
        status = left.pop("status", None)
        spelled = _STATUS.get(status, "") if type(status) is str else ""
        if not spelled:
            raise UnreadableError(f"{name}: status must be one of {', '.join(_STATUS)}")
        left |= WORDS[spelled].arguments
    elif spelled == "pyautogui.click" and left.get("clicks") == 2:
        spelled = "pyautogui.doubleClick"
        del left["clicks"]
    elif spelled == "pyautogui.dragTo" and "point" in left:
        left["end_point"] = left.pop("point")
    elif spelled == "pyautogui.write" and type(left.get("message")) is not list and "message" in left:
        left["text"] = left.pop("message")
    elif spelled in ("pyautogui.write", "pyautogui.press", "pyautogui.hotkey"):
        spelled = _pressed(name, spelled, left)
    tool = TOOLS.get(spelled, UNKNOWN)
    return Call(spelled, tool.verb, checked(name, tool, left))


def _joined(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with x and y as one point, without the pace."""
    left = dict(given)
    x, y = left.pop("x", None), left.pop("y", None)
    if name not in PARAMS:  # a point where there are two numbers, so that a conversion moves it
        two = type(x) in (int, float) and type(y) in (int, float)
        return {**left, "point": [x, y]} if two and "point" not in left else dict(given)
    if x is not None or y is not None:
        if "point" in left:
            raise UnreadableError(f"{name}: the point is given twice")
        left["point"] = [x, y]
    return {key: value for key, value in left.items() if key not in _PACE}


def _pressed(name: str, spelled: str, left: dict[str, Any]) -> str:
    """One key is pressed, whichever function does it; several are a hotkey or, one after the other, a sequence."""
    if "message" in left:  # typed key after key
        left["keys"] = left.pop("message")
    if "keys" not in left:
        raise UnreadableError(f"{name}: the keys are missing")
    several = type(left["keys"]) is list and len(left["keys"]) > 1
    if several and spelled != "pyautogui.hotkey":
        left["sequence"] = left.pop("keys")
    return "pyautogui.hotkey" if several and spelled == "pyautogui.hotkey" else "pyautogui.press"


def written(call: Call) -> list[str]:
    """The statements that do ``call``; empty where this dialect has no words for it."""
    left = dict(call.arguments)
    name = call.name if call.verb == "other" or _verb(call.name) == call.verb else _SAYS.get(call.verb, "")
    if call.verb == "press" and name not in TOOLS:
        name = "pyautogui.hotkey" if len(left.get("keys", ())) > 1 else "pyautogui.press"
    if name != call.name and name in TOOLS and not left.keys() <= TOOLS[name].params.keys():
        return []  # what another dialect says beyond this
    if call.verb == "wait" and not left:
        return ["WAIT"]
    if call.verb == "stop":
        name = "FAIL" if left.pop("status", "success") == "failure" else "DONE"
        left = {"status": "failure" if name == "FAIL" else "success", **left}
        return [name] if len(left) == 1 else [_line("computer.terminate", [], left)]
    before: list[str] = []
    if call.verb == "drag" and "start_point" in left:
        before = [_line("pyautogui.moveTo", list(left.pop("start_point")), {})]
    positional = [left.pop("clicks")] if call.verb == "scroll" and "clicks" in left else []
    for key in ("point", "end_point"):
        if type(left.get(key)) is tuple and name in TOOLS:
            positional += left.pop(key)
        elif type(left.get(key)) is tuple and key == "point":
            left["x"], left["y"] = left.pop(key)
    if name == "pyautogui.hotkey":
        positional = left.pop("keys")
    for key in ("text", "keys", "sequence", "seconds", "args", "key"):
        if key in left and (name in TOOLS or key == "args"):
            value = left.pop(key)
            positional += value if key == "args" or (key == "keys" and len(value) == 1) else [value]
    return [*before, _line(name, positional, left)] if is_known(name) else []


_SAYS = {tool.verb: name for name, tool in reversed(TOOLS.items()) if tool.verb != "other"}


def _verb(name: str) -> str:
    return TOOLS[name].verb if name in TOOLS else "other"


def _line(name: str, positional: list[Any], keywords: Mapping[str, Any]) -> str:
    named = [f"{key}={list(value) if type(value) is tuple else value!r}" for key, value in sorted(keywords.items())]
    return f"{name}({', '.join([*map(repr, positional), *named])})"
