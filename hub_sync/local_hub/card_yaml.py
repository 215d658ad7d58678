"""The YAML head of a card: found, and read safely and bounded, as JSON values for the API or as strings for a page."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import yaml

README_LIMIT = 4 * 2**20  # bytes of a card that is read at all
LIMIT = 2**19  # characters of its head
_DEEPEST, _MOST_EVENTS = 24, 200_000
_LINE_END = r"[ \t]*\r?\n"
_HEAD = re.compile(rf"\A\ufeff?\s{{0,100}}---{_LINE_END}(.*?)^---(?:{_LINE_END}|[ \t]*\Z)", re.MULTILINE | re.DOTALL)
# What a loader builds: JSON's values and dates, or strings only.
VALUES: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
STRINGS: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class CardYamlError(Exception):
    """Why the head cannot be read."""


@lru_cache(64)
def card_data(readme: bytes) -> dict[str, Any] | None:
    """The metadata of a card, None when it has none or none that can be read."""
    try:
        return parse_card_yaml(readme.decode("utf-8", "replace"))
    except CardYamlError:
        return None


def parse_card_yaml(text: str) -> dict[str, Any] | None:
    """The metadata as JSON values; None when there is no head, or an empty one. Raises CardYamlError."""
    head, _ = split_head(text)
    plain: dict[str, Any] | None = None if head is None else _plain(load_head(head, VALUES))
    return plain or None


def split_head(text: str) -> tuple[str | None, str]:
    """(the YAML between the marks, the text after it); None for a card without a head."""
    found = _HEAD.match(text)
    return (found[1], text[found.end() :]) if found else (None, text)


def load_head(head: str, loader: Any) -> dict[str, Any]:
    """The mapping; an empty head is an empty one. Raises CardYamlError.

    Aliases, which a few lines blow up to gigabytes, tags and deep nesting are refused before anything is built.
    """
    if len(head) > LIMIT:
        raise CardYamlError(f"it is longer than {LIMIT // 1024} KiB")
    depth = 0
    try:
        for count, event in enumerate(yaml.parse(head, loader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise CardYamlError("it uses aliases")
            if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
                raise CardYamlError("it uses tags")
            if depth > _DEEPEST or count > _MOST_EVENTS:
                raise CardYamlError("it is nested too deeply or has too many entries")
        data = yaml.load(head, loader)  # noqa: S506 - one of the two above
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise CardYamlError("it is no valid YAML" + (f" (line {mark.line + 2})" if mark else "")) from error
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        raise CardYamlError(f"it holds a value that cannot be read: {error}") from error
    if data in (None, ""):
        return {}
    if not isinstance(data, dict):
        raise CardYamlError("it is no mapping")
    return data


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
