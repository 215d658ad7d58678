"""How two actions of one state relate. ``identical`` is an equivalence; the others are symmetric, not transitive."""

from __future__ import annotations

from typing import Any

from .elements import View, hit
from .model import Call, Parsed, is_point

RELATIONS = (
    "identical",
    "near_coordinates",
    "coordinate_only",
    "scroll_amount",
    "wait_duration",
    "done_vs_done",
    "unparsed",
    "different",
)
TOLERANCE = 5  # thousandths of the screen's width or height, per axis
_ABSENT = object()
_SCROLLED = ("amount", "dx", "dy", "delta_x", "delta_y", "clicks")  # each dialect's unit has a name of its own
_AMOUNTS = {"scroll": (_SCROLLED, "scroll_amount"), "wait": (("seconds",), "wait_duration")}


def relation(a: Parsed, b: Parsed, view: View) -> str:
    """One of ``RELATIONS``; ``relation(a, b, view) == relation(b, a, view)``.

    Both sides come from one source: one dialect, one coordinate space, one screenshot. Several calls are compared
    in order, and a special relation holds only if every call differs in nothing else.
    """
    if a.key == b.key:
        return "identical"
    if a.parse_error is not None or b.parse_error is not None:
        return "unparsed"
    if len(a.calls) != len(b.calls):
        return "different"
    for left, right in zip(a.calls, b.calls, strict=True):
        if left.verb != right.verb or left.name != right.name:
            return "different"
    if len(a.calls) == 1 and a.calls[0].verb == "stop":
        return "done_vs_done"
    kinds = {_difference(left, right, view) for left, right in zip(a.calls, b.calls, strict=True)} - {"identical"}
    if kinds == {"near_coordinates", "coordinate_only"}:
        return "coordinate_only"
    return kinds.pop() if len(kinds) == 1 else "different"


def _difference(a: Call, b: Call, view: View) -> str:
    """The relation of two calls of one verb."""
    names, amount_relation = _AMOUNTS.get(a.verb, ((), ""))
    points, amounts = [], False
    for key in {**a.arguments, **b.arguments}:
        left, right = a.arguments.get(key, _ABSENT), b.arguments.get(key, _ABSENT)
        if same(left, right):
            continue
        if key in names and _sign(left) == _sign(right) is not None:
            amounts = True
        elif is_point(key, left) and is_point(key, right):
            points.append((left, right))
        else:
            return "different"
    if amounts:
        return "different" if points else amount_relation
    if not points:
        return "identical"
    return "near_coordinates" if all(near(left, right, view) for left, right in points) else "coordinate_only"


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: Python's ``1 == True`` is no equality here."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _sign(value: Any) -> int | None:
    """The direction of an amount; one left to the executor's default goes forward. None for what is no number."""
    if value is _ABSENT:
        return 1
    return (value > 0) - (value < 0) if type(value) in (int, float) else None


def near(left: tuple[float, float], right: tuple[float, float], view: View) -> bool:
    """True within the tolerance on both axes, or inside one element's box. Unknown sizes leave pixels exact."""
    sizes = (1000, 1000) if view.space == "norm1000" else (view.width, view.height)
    # The last term is for decimal fractions, which binary ones miss by a hair on the boundary.
    if all(s and abs(p - q) * 1000 <= TOLERANCE * s + 1e-6 for p, q, s in zip(left, right, sizes, strict=True)):
        return True
    index = hit(left, view)
    return index is not None and index == hit(right, view)
