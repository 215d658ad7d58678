"""What a response is split into: calls with canonical verbs and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERBS = (
    "click",
    "double_click",
    "drag",
    "hover",
    "type",
    "press",
    "scroll",
    "wait",
    "goto",
    "back",
    "new_tab",
    "switch_tab",
    "stop",
    "other",
)
POINTS = ("point", "start_point", "end_point")
DEEPEST = 64  # lists and objects in one argument; no stack decides, so that every process reads the same


class UnreadableError(ValueError):
    """Why a text is no complete action; becomes ``Parsed.parse_error``, never leaves this package."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call. Instances are shared between parses: never change ``arguments``.

    name: the dialect's own name, verbatim ("write", "Click"); of names that do the same in a dialect, the first.
    verb: one of ``VERBS``; "other" for a name the dialect does not know.
    arguments: canonical names. A point is a tuple (x, y) of numbers in the source's coordinate space;
        it stands under one of ``POINTS`` or under a name that ends in ``point_2d``. All else is JSON.
    """

    name: str
    verb: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A response, split.

    thought: the text up to ``</think>``, stripped; "" when there is none.
    action: the action text verbatim, without wrappers and end-of-turn tokens; several calls joined by newlines.
    calls: in order; empty exactly when ``parse_error`` is set.
    parse_error: why no complete call could be read, or None.
    key: 32 hex digits; equal exactly when the canonical calls are equal. Unreadable responses are equal
        when their whole text is, and never equal to a readable one.
    json: canonical JSON of the calls, "[]" when unreadable. ``key`` is the head of its sha256.
    """

    thought: str
    action: str
    calls: tuple[Call, ...]
    parse_error: str | None
    key: str
    json: str


def is_point(name: str, value: object) -> bool:
    """True for an argument that is a place on the screen."""
    return type(value) is tuple and (name in POINTS or name.endswith("point_2d"))
