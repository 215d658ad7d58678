"""Coordinate spaces, and the one conversion between them.

``pixel`` is the screenshot's own pixels; ``norm1000`` is 0..1000 over its width and its height.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ulp
from typing import Any

from ..errors import ArmError
from .canonical import is_pair, number
from .model import Call, is_point

SPACES = ("pixel", "norm1000")


def convert(calls: Sequence[Call], source: str, target: str, width: int | None, height: int | None) -> tuple[Call, ...]:
    """The calls with every point moved from one space to the other.

    ``width`` and ``height`` are those of the screenshot in pixels. Fractions and negative coordinates are kept,
    nothing is rounded or clipped. Scroll distances, texts and URLs hold no points and are never touched.
    Raises ArmError for an unknown space or, unless the spaces are equal, a missing size.
    """
    for space in (source, target):
        if space not in SPACES:
            raise ArmError(f"unknown coordinate space {space!r}; known: {', '.join(SPACES)}")
    if source == target:
        return tuple(calls)
    if not width or not height or width < 0 or height < 0:
        raise ArmError(f"{source} -> {target} needs the screenshot's width and height, not {width} x {height}")
    return tuple(Call(call.name, call.verb, _moved(call.arguments, target, width, height)) for call in calls)


def moved_point(point: Sequence[float], target: str, width: int, height: int) -> tuple[int | float, int | float]:
    """One point, moved into ``target`` from the other space."""
    x, y = point
    return _moved_axis(x, target, width), _moved_axis(y, target, height)


def _moved_axis(value: float, target: str, size: int) -> int | float:
    moved = value * 1000 / size if target == "norm1000" else value * size / 1000
    near = round(moved, 9)
    # There and back again should be the same place: undo what binary fractions added, and only that.
    return number(near if abs(moved - near) <= 4 * ulp(moved) else moved)


def _moved(value: Any, target: str, width: int, height: int) -> Any:
    """Points of unknown tools may lie deeper, as lists: they move too."""
    if isinstance(value, list):
        return [_moved(item, target, width, height) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: moved_point(item, target, width, height)
        if is_point(key, item)
        else list(moved_point(item, target, width, height))
        if key.endswith("point_2d") and is_pair(item)
        else _moved(item, target, width, height)
        for key, item in value.items()
    }
