"""Checks and normalises the arguments of one call; the same for every dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .canonical import is_pair, json_value, number, point
from .model import POINTS, UnreadableError


def text(value: Any) -> str:
    """A string, verbatim."""
    if type(value) is not str:
        raise UnreadableError("must be a string")
    return value


def amount(value: Any) -> int | float:
    """A number; true and false are none."""
    if type(value) is int or type(value) is float:
        return number(value)
    raise UnreadableError("must be a number")


def keys(value: Any) -> list[str]:
    """Key names in order. One string is one press: ``"Enter"`` and ``["Enter"]`` do the same."""
    if type(value) is str:
        return [value]
    if type(value) is list and value and all(type(item) is str for item in value):
        return value
    raise UnreadableError("must be a string or a list of strings")


def _loose_point(value: Any) -> Any:
    return point(value) if is_pair(value) else json_value(value)


@dataclass(frozen=True, slots=True)
class Tool:
    """What a dialect knows of one name.

    verb: the canonical verb.
    params: canonical argument name -> the reader that checks and normalises its value.
    required: the arguments that must be there. An optional one that is null counts as absent.
    """

    verb: str
    params: Mapping[str, Callable[[Any], Any]]
    required: tuple[str, ...] = ()


UNKNOWN = Tool("other", {})


def checked(name: str, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Canonical arguments of ``name``. Arguments the tool does not list are kept as they are.

    Raises UnreadableError, naming the call and the argument.
    """
    params = tool.params
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        read = params.get(key)
        if read is None:
            # A point under an unknown name must be read as one, or a conversion would miss it.
            read = point if key.endswith("point_2d") else _loose_point if key in POINTS else json_value
        elif value is None and key not in tool.required:
            continue
        try:
            arguments[key] = read(value)
        except UnreadableError as error:
            raise UnreadableError(f"{name}: {key} {error}") from None
    for key in tool.required:
        if key not in arguments:
            raise UnreadableError(f"{name}: {key} is missing")
    return arguments
