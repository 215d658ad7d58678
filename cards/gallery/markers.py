"""Where candidates act: the verbs of their calls, and every point in pixels of the screenshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...schemas.actions import Call, Parsed, calls_from_json, convert
from ...schemas.actions.canonical import is_pair
from ...schemas.actions.model import is_point
from ...schemas.errors import ArmError

Point = dict[str, Any]


def parsed(candidate: dict[str, Any]) -> Parsed:
    """A candidate of a set as it was parsed; without calls where they cannot be read."""
    try:
        calls = calls_from_json(candidate["action_json"])
    except ArmError:
        calls = ()
    thought, action, key = candidate["thought"], candidate["action"], candidate["action_key"]
    return Parsed(thought, action, calls, candidate["parse_error"], key, candidate["action_json"])


def points(calls: Sequence[Call], space: str, width: int | None, height: int | None) -> list[Point]:
    """Every point of the calls, in pixels; none where the space or the size is not known."""
    try:
        moved = convert(calls, space, "pixel", width, height)
    except ArmError:
        return []
    return [{"name": name, "x": float(x), "y": float(y)} for call in moved for name, (x, y) in _found(call.arguments)]


def verbs(calls: Sequence[Call]) -> list[str]:
    """The verbs, each once, in the order of the calls."""
    return list(dict.fromkeys(call.verb for call in calls))


def _found(value: Any) -> Iterator[tuple[str, Sequence[float]]]:
    """Points by their names; those of unknown tools may lie deeper, as lists."""
    if isinstance(value, list):
        for item in value:
            yield from _found(item)
    elif hasattr(value, "items"):
        for name, item in value.items():
            if is_point(name, item) or (name.endswith("point_2d") and is_pair(item)):
                yield name, item
            else:
                yield from _found(item)
