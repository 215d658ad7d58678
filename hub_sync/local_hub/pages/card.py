"""The YAML at the head of a card, read as strings: what it claims about a repository, for people to see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..card_yaml import STRINGS, CardYamlError, load_head, split_head

_MOST = 64  # configurations, splits of one
_MOST_PATTERNS = 200  # of one card
_PATTERN_PARTS, _PATH_PARTS = 8, 16  # beyond them nothing matches, because matching costs their product


@dataclass(frozen=True)
class Card:
    """A card in two parts. ``problem`` says why the head was not read; ``head`` is then empty."""

    head: dict[str, Any]
    body: str
    problem: str | None = None


@dataclass(frozen=True)
class Config:
    """A declared configuration: name, whether it is the default, and for each split the patterns of its files."""

    name: str
    default: bool
    splits: dict[str, list[str]]


def split_card(text: str) -> Card:
    """The head and the text of a card."""
    head, body = split_head(text)
    if head is None:
        return Card({}, body)
    try:
        return Card(load_head(head, STRINGS), body)
    except CardYamlError as error:
        return Card({}, body, str(error))


def words(value: Any) -> list[str]:
    """A scalar or a list of scalars as strings; anything else is empty."""
    found = value if isinstance(value, list) else [value]
    return [item[:200] for item in found[:100] if isinstance(item, str) and item]


def facts(head: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """(key, values) of what fits in a line, in the order of the card."""
    shown = [(str(key)[:60], words(value)) for key, value in head.items() if key not in ("pretty_name", "tags")]
    return [(key, values) for key, values in shown if values][:40]


def configs(head: dict[str, Any]) -> list[Config]:
    """The declared configurations of a dataset, as far as they are well formed."""
    found, left = [], _MOST_PATTERNS
    for item in _mappings(head.get("configs"))[:_MOST]:
        splits: dict[str, list[str]] = {}
        for split, patterns in _data_files(item.get("data_files")):
            if len(splits) < _MOST or split in splits:
                splits.setdefault(split, []).extend(patterns[:left])
                left -= len(patterns[:left])
        name = item.get("config_name")
        found.append(Config(name[:200] if isinstance(name, str) else "default", item.get("default") == "true", splits))
    return found


def _data_files(declared: Any) -> Iterator[tuple[str, list[str]]]:
    if isinstance(declared, dict):
        yield from ((str(split)[:200], words(patterns)) for split, patterns in declared.items())
    elif isinstance(declared, list) and any(isinstance(item, dict) for item in declared):
        for item in _mappings(declared):
            yield str(item.get("split", "train"))[:200], words(item.get("path"))
    elif declared:
        yield "train", words(declared)


def claims(head: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Rows that the card claims, by configuration and split."""
    found = {}
    for info in _mappings(head.get("dataset_info")):
        for split in _mappings(info.get("splits")):
            number = split.get("num_examples")
            if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 19:
                found[str(info.get("config_name", "default")), str(split.get("name"))] = int(number)
    return found


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def matches(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern: `*` stays within a folder, `**` is any number of folders."""
    names, parts = path.split("/"), pattern.removeprefix("./").split("/")
    if len(names) > _PATH_PARTS or len(parts) > _PATTERN_PARTS:
        return False
    reached = {0}  # how many names the pattern's parts so far can have taken
    for part in parts:
        if part == "**":
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {count + 1 for count in reached if count < len(names) and fnmatchcase(names[count], part)}
        if not reached:
            return False
    return len(names) in reached
