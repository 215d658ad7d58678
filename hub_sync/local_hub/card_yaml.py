"""The YAML head of a README: read safely, bounded, as plain JSON values."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import yaml

_HEAD = re.compile(r"\A\s*---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LIMIT = 2**20  # characters
_DEEPEST = 50
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CardYamlError(Exception):
    """Why the head cannot be read."""


@lru_cache(256)
def card_data(readme: bytes) -> dict[str, Any] | None:
    """The metadata of a card, None when it has none or none that can be read."""
    try:
        return parse_card_yaml(readme.decode("utf-8", "replace"))
    except CardYamlError:
        return None


def parse_card_yaml(text: str) -> dict[str, Any] | None:
    """The metadata as JSON values; None when there is no head, or an empty one. Raises CardYamlError."""
    found = _HEAD.match(text[:_LIMIT].removeprefix("\ufeff"))
    if found is None:
        return None
    try:
        _require_simple(found[1])
        data = yaml.load(found[1], _Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise CardYamlError(f"YAML metadata is invalid: {error}") from error
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        raise CardYamlError(f"YAML metadata holds a value that cannot be read: {error}") from error
    if data is None:
        return None
    if not isinstance(data, dict):
        raise CardYamlError("YAML metadata must be an object")
    plain: dict[str, Any] = _plain(data)
    return plain


def _require_simple(text: str) -> None:
    """No aliases, which a few lines blow up to gigabytes, and no nesting that ends the stack."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise CardYamlError("YAML metadata must not use aliases")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise CardYamlError("YAML metadata is nested too deeply")


def _plain(value: Any) -> Any:
    """As JSON has it: keys are text, dates and numbers that JSON lacks become text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, int) and abs(value) >= 2**63:
        return hex(value)  # Python refuses to write thousands of decimal digits
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
