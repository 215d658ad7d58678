"""What is known of the screen an action was chosen on, and which recorded element a point hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .model import Call, is_point
from .spaces import moved_point


@dataclass(frozen=True, slots=True)
class View:
    """space: of the points, one of ``SPACES``. width, height: of the screenshot in pixels, None if unknown.

    elements: mappings with index, tag, text and box [x, y, w, h] in screenshot pixels; empty if none recorded.
    """

    space: str
    width: int | None
    height: int | None
    elements: Sequence[Mapping[str, Any]] = ()


def hit(point: Sequence[float], view: View) -> int | None:
    """The recorded index of the smallest element whose box holds ``point``; None if none does or can be told.

    A box holds its left and top edge, not its right and bottom one, as in a browser. Of equal boxes the first wins.
    """
    if not view.elements:
        return None
    if view.space == "norm1000":
        if not view.width or not view.height:
            return None
        point = moved_point(point, "pixel", view.width, view.height)
    px, py = point
    inside = []
    for element in view.elements:
        x, y, w, h = element["box"]
        if x <= px < x + w and y <= py < y + h:
            inside.append((w * h, element["index"]))
    # The key leaves the index out: `min` keeps the first of equals.
    return min(inside, key=lambda item: item[0])[1] if inside else None


def element_index(calls: Sequence[Call], view: View) -> int | None:
    """The element the first point of the calls hits (of a drag: where it starts), or None."""
    for call in calls:
        points = [value for key, value in call.arguments.items() if is_point(key, value)]
        if points:
            return hit(call.arguments.get("start_point", points[0]), view)
    return None
