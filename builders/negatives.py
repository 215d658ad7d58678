"""Rejected actions that nobody sampled: the chosen one, spoilt so that it surely does something else.

A spoilt action has one call of which one thing is wrong: a point at least 200 thousandths of the screen away and never
in the same recorded element, the opposite scroll, another text, key, address (of the same host) or answer, or, where
the episode should end, a step that goes on. What has nothing of the kind (waiting, going back) is not spoilt, nor what
the dialect cannot write and read back. Everything is drawn by a hash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from math import hypot
from typing import Any

from ..schemas.actions import DIALECTS, Call, Parsed, View, parse
from ..schemas.actions.canonical import number
from ..schemas.actions.model import is_point
from ..schemas.actions.relations import near
from ..schemas.errors import ArmError
from ..schemas.ids import hash_order
from .spoilt_text import SPOILT, Below

FAR = 200  # thousandths of the screen
_TRIES = 8  # of one way, before the next
_PLACES = 64  # tried for one point
_FINEST = 4  # decimals of a drawn point
_OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
_AMOUNTS = ("dx", "dy", "delta_x", "delta_y", "clicks", "amount")
_GOES_ON = (Call("back", "back", {}), Call("wait", "wait", {"seconds": 1}), Call("wait", "wait", {}))
_WORDS_ONLY = ("react", "text")  # dialects of agents whose tools are not those of a browser
# Verb -> (argument, what kind of text it is).
_TEXTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "click": (("argument", "text"),),  # of an agent that writes click[Buy Now]
    "type": (("text", "text"),),
    "press": (("keys", "key"), ("sequence", "key")),
    "goto": (("url", "url"),),
    "new_tab": (("url", "url"),),
    "stop": (("answer", "text"),),
    "other": (("argument", "text"),),
}


def corrupted(chosen: Parsed, dialect: str, view: View, taken: Container[str], *seed: object) -> Parsed | None:
    """The chosen action, spoilt, with its thought; its key is none of ``taken``. None where that cannot be."""
    ways = [(n, *way) for n, call in enumerate(chosen.calls) for way in _ways(call)]
    if len(chosen.calls) == 1 and chosen.calls[0].verb == "stop" and dialect not in _WORDS_ONLY:
        ways.append((0, "goes_on", ""))
    for n, how, argument in sorted(ways, key=lambda way: hash_order("way", *seed, *way)):
        call = chosen.calls[n]
        for attempt in range(_TRIES):
            spoilt = _spoilt(call, how, argument, view, _drawing(*seed, n, how, argument, attempt))
            if spoilt is None:
                continue
            calls = [*chosen.calls[:n], spoilt, *chosen.calls[n + 1 :]]
            made = _in_place(chosen, call, spoilt, calls, dialect) or _written(calls, dialect)
            if made is not None and made.key not in taken:
                return replace(made, thought=chosen.thought)
    return None


def _drawing(*seed: object) -> Below:
    drawn = 0

    def below(limit: int) -> int:
        nonlocal drawn
        drawn += 1
        return int.from_bytes(hash_order("negative", *seed, drawn)[:8], "big") % limit

    return below


def _ways(call: Call) -> Iterator[tuple[str, str]]:
    """(how, argument) for each thing of a call that can be made wrong."""
    for argument, value in call.arguments.items():
        if is_point(argument, value):
            yield "point", argument
    if call.verb == "scroll":
        yield "scroll", ""
    for argument, kind in _TEXTS.get(call.verb, ()):
        if argument in call.arguments:
            yield kind, argument


def _spoilt(call: Call, how: str, argument: str, view: View, below: Below) -> Call | None:
    if how == "goes_on":
        return _GOES_ON[below(len(_GOES_ON))]
    if how == "scroll":
        return _turned(call)
    old: Any = call.arguments[argument]
    new: Any = None
    if how == "point":
        new = _elsewhere(old, view, below)
    elif isinstance(old, list):  # keys: those that are held stand before the last
        at = below(len(old)) if argument == "sequence" else len(old) - 1
        changed = SPOILT[how](old[at], below)
        new = [*old[:at], changed, *old[at + 1 :]] if changed else None
    elif isinstance(old, str):
        new = SPOILT[how](old, below)
    return Call(call.name, call.verb, {**call.arguments, argument: new}) if new else None


def _elsewhere(point: Sequence[float], view: View, below: Below) -> tuple[float, float] | None:
    """A place on the screen that is far from ``point`` and as finely given; None where the size is not known or nothing
    is far enough."""
    width, height = (1000, 1000) if view.space == "norm1000" else (view.width, view.height)
    if not width or not height:
        return None
    scale = 10 ** max(map(_decimals, point))
    for _ in range(_PLACES):
        x, y = number(below(width * scale) / scale), number(below(height * scale) / scale)
        far = hypot((x - point[0]) * 1000 / width, (y - point[1]) * 1000 / height) >= FAR
        if far and not near((x, y), (point[0], point[1]), view):
            return x, y
    return None


def _decimals(value: float) -> int:
    return min(len(f"{value:.{_FINEST}f}".rstrip("0").partition(".")[2]), _FINEST)


def _turned(call: Call) -> Call | None:
    """The scroll the other way."""
    direction = call.arguments.get("direction")
    if isinstance(direction, str):
        turned = _OPPOSITE.get(direction.lower())
        if turned is None:
            return None
        turned = turned.upper() if direction.isupper() else turned.title() if direction.istitle() else turned
        return Call(call.name, call.verb, {**call.arguments, "direction": turned})
    amounts = {k: -v for k, v in call.arguments.items() if k in _AMOUNTS and type(v) in (int, float) and v}
    return Call(call.name, call.verb, {**call.arguments, **amounts}) if amounts else None


def _written(calls: Sequence[Call], dialect: str) -> Parsed | None:
    """``calls`` in the dialect's words; None where it has none, or would read others."""
    try:
        text = DIALECTS[dialect].render(calls)
    except ArmError:
        return None
    return _read(dialect, text, calls)


def _in_place(chosen: Parsed, old: Call, new: Call, calls: Sequence[Call], dialect: str) -> Parsed | None:
    """The chosen action's own words with only the wrong thing changed: a model must not tell the two sides by how they
    are spaced or quoted. None where the words to change cannot be found for certain."""
    if old.arguments.keys() != new.arguments.keys():
        return None
    tags = DIALECTS[dialect]
    for action in _replaced(chosen.action, old.arguments, new.arguments):
        for bodies in ([action], action.split("\n")):
            text = "".join(f"{tags.opener}{body}{tags.closer}" for body in bodies)
            if made := _read(dialect, text, calls):
                return made
    return None


def _read(dialect: str, text: str, calls: Sequence[Call]) -> Parsed | None:
    """``text`` as it is read, if these are the calls; what a dialect calls them is its own business."""
    parsed = parse(dialect, text)
    said = [(call.verb, _plain(call.arguments)) for call in parsed.calls]
    return parsed if said == [(call.verb, _plain(call.arguments)) for call in calls] else None


def _plain(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


def _replaced(action: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """``action`` with the changed values replaced, in each of the ways in which they may be written."""
    changed = [(old[k], new[k]) for k in old if old[k] != new[k] or type(old[k]) is not type(new[k])]
    for write in (_json, repr, str):
        text: str | None = action
        for before, after in changed:
            text = text and _one(text, before, after, write)
        if text:
            yield text


def _json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _one(text: str, before: Any, after: Any, write: Callable[[str], str]) -> str | None:
    """``text`` with one value replaced; None unless it stands there exactly once."""
    if isinstance(before, list):
        (pair,) = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        return _one(text, *pair, write)
    if isinstance(before, str):
        pattern, written = re.escape(write(before)), [write(after)]
    else:
        numbers, others = (before, after) if isinstance(before, tuple) else ((before,), (after,))
        pattern, written = r"(\D+?)".join(map(_number, numbers)), list(map(str, others))
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        return None
    if not isinstance(before, str):  # (".0", between, ".0"): 640.0 stays a number with a point, also if 639 was drawn
        ends = [group or "" for group in found[0].groups()]
        written = [w if "." in w else w + ends[2 * n] for n, w in enumerate(written)]
        written[1:1] = ends[1:2]
    return f"{text[: found[0].start()]}{''.join(written)}{text[found[0].end() :]}"


def _number(value: float) -> str:
    """A pattern for a number as it may be written, with a zero fraction as its group; not a part of another one."""
    return rf"(?<![\w.+-]){re.escape(str(value))}(\.0+)?(?!\w|\.\d)"
