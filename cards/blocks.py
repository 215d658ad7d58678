"""A README whose head and marked block are ours, and whose other text and YAML keys are a person's."""

from __future__ import annotations

import re
from collections.abc import Collection
from copy import deepcopy
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from ..schemas.errors import ArmError

BEGIN = "<!-- action-reward-models:begin -->"
END = "<!-- action-reward-models:end -->"
_DEEPEST = 50  # nested values of a card's YAML; the generated ones have a dozen
# The front matter as huggingface_hub finds it.
_HEAD = re.compile(r"\A\s*---[ \t]*(?:\r\n|\r|\n)([\S\s]*?)(?:\r\n|\r|\n)?^---[ \t]*(?:\r\n|\r|\n|\Z)", re.MULTILINE)


def compose(head: str, block: str) -> str:
    """A README of our YAML and our block alone."""
    return f"---\n{head}---\n\n{BEGIN}\n{block}{END}\n"


def merge(existing: str, head: str, block: str, keys: Collection[str]) -> str:
    """``existing`` with our YAML keys and our block renewed and all else kept.

    Our ``keys`` come first, then what a person added to the YAML, verbatim. Without markers the block goes below the
    text. Raises ArmError for broken markers and for YAML that cannot be read.
    """
    existing = existing.removeprefix("\ufeff")
    found = _HEAD.match(existing)
    body = existing[found.end() :] if found else existing
    foreign = _foreign(found.group(1), keys) if found else ""
    before, after = _around(body)
    return f"---\n{head}{foreign}---\n{before}{BEGIN}\n{block}{END}{after}"


def persons(existing: str, keys: Collection[str]) -> tuple[str, str, str]:
    """What a person wrote: the YAML of other keys than ``keys``, the text above our block, and the text below it.

    Line ends and blank lines at the borders do not count. Raises ArmError like `merge`.
    """
    existing = existing.removeprefix("\ufeff")
    found = _HEAD.match(existing)
    before, after = _around(existing[found.end() :] if found else existing)
    parts = (_foreign(found.group(1), keys) if found else "", before, after)
    yaml, above, below = (re.sub(r"\r\n|\r", "\n", part).strip() for part in parts)
    return yaml, above, below


def generated(existing: str) -> list[str] | None:
    """The lines of our block; None without one. Raises ArmError for broken markers."""
    _around(existing)
    _, begin, rest = existing.partition(BEGIN)
    return re.split(r"\r\n|\r|\n", rest.partition(END)[0].strip()) if begin else None


def stale(existing: str, block: str) -> str | None:
    """The first place at which the generated part is not ``block``, for a person; None when it is.

    Raises ArmError for broken markers.
    """
    written, lines = generated(existing), block.strip().split("\n")
    if written is None:
        return "its generated part is missing"
    if written == lines:
        return None
    says, gives = next(pair for pair in zip_longest(written, lines, fillvalue="") if pair[0] != pair[1])
    return f"it says {says.strip()[:200]!r} where the manifest gives {gives.strip()[:200]!r}"


def read_head(existing: str) -> dict[str, Any]:
    """The YAML at the head of a card; empty without one. Raises ArmError when it cannot be read."""
    found = _HEAD.match(existing.removeprefix("\ufeff"))
    return _load(found.group(1)) if found else {}


def _around(body: str) -> tuple[str, str]:
    begins, ends = body.count(BEGIN), body.count(END)
    if not begins and not ends:
        text = body.rstrip()
        return (f"{text}\n\n" if text else "\n"), "\n"
    if begins != 1 or ends != 1 or body.index(END) < body.index(BEGIN):
        raise ArmError(
            f"the card's markers are broken: {begins} × {BEGIN} and {ends} × {END}, where one of each, in this order, "
            "is needed; nothing was changed",
            where="README.md",
            next_command="put the two markers, each on a line of its own, around the generated part, or delete both: "
            "the generated part then goes below your text",
        )
    return body[: body.index(BEGIN)], body[body.index(END) + len(END) :]


def _foreign(text: str, keys: Collection[str]) -> str:
    """The YAML of the keys that are not in ``keys``, verbatim, with the comments before and between them."""
    import yaml

    text = "".join(f"{line}\n" for line in re.split(r"\r\n|\r|\n", text)).rstrip("\n") + "\n"
    data = _load(text)
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        return _comments(text)
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        raise _unreadable("one key a line is expected")
    starts = [key.start_mark.index for key, _ in node.value] + [len(text)]
    kept = _comments(text[: starts[0]])
    for position, (key, _) in enumerate(node.value):
        part = text[starts[position] : starts[position + 1]]
        if key.value in keys:
            trailing = re.search(r"(?:^[ \t]*(?:#.*)?\n)*\Z", part, re.MULTILINE)
            part = _comments(trailing.group()) if trailing else ""
        kept += part
    _check(kept, {key: value for key, value in data.items() if key not in keys})
    return kept


def _load(text: str) -> dict[str, Any]:
    return deepcopy(_loaded(text))


@lru_cache(maxsize=32)  # a plan asks some thirty times about the same few cards, and YAML is read slowly
def _loaded(text: str) -> dict[str, Any]:
    import yaml

    try:
        _require_plain(text)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise _unreadable(str(error).splitlines()[0]) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _unreadable("keys with values are expected")
    return data


def _require_plain(text: str) -> None:
    """No aliases: a few hundred bytes of them stand for more than any machine holds. No key twice: which one counts?

    Raises ValueError.
    """
    import yaml

    keys: list[set[str] | None] = []  # of the mappings around; None for a sequence
    at_key: list[bool] = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"an alias, *{event.anchor}; write the value out")
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            keys.pop()
            at_key.pop()
        elif isinstance(event, yaml.NodeEvent):
            around = keys[-1] if keys else None
            if around is not None:
                if at_key[-1] and isinstance(event, yaml.ScalarEvent):
                    if event.value in around:
                        raise ValueError(f"the key {event.value!r} stands there twice")
                    around.add(event.value)
                at_key[-1] = not at_key[-1]
            if isinstance(event, yaml.CollectionStartEvent):
                keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
                at_key.append(True)
            if len(keys) > _DEEPEST:
                raise ValueError(f"nested deeper than {_DEEPEST}")


def _comments(text: str) -> str:
    return "".join(f"{line}\n" for line in text.split("\n") if line.startswith("#"))


def _check(kept: str, expected: dict[str, Any]) -> None:
    """A person's keys must mean the same alone: an alias to something in our part would not."""
    try:
        same = _load(kept) == expected
    except ArmError:
        same = False
    if not same:
        raise _unreadable("keys that are not generated refer to ones that are")


def _unreadable(why: str) -> ArmError:
    return ArmError(
        f"the YAML at the head of the card cannot be kept: {why}; nothing was changed",
        where="README.md",
        next_command="mend the part between the two `---` lines",
    )
