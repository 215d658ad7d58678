"""A recipe as YAML for a card: it reads back as the same recipe, and nothing in it can end the block it stands in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .text import Markdown

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/@+*-]*")


def recipe(data: Mapping[str, Any]) -> Markdown:
    """``data`` as the text of a YAML file, keys in the order of the form."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None if _PLAIN.fullmatch(value) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, represent)
    keys = [*(key for key in _ORDER if key in data), *sorted(set(data) - set(_ORDER))]
    written: str = yaml.dump(
        {key: _sorted(data[key]) for key in keys}, Dumper=Dumper, sort_keys=False, allow_unicode=False, width=2**30
    )
    return Markdown(written.replace("<", "\\x3C").replace("`", "\\x60").rstrip("\n"))


_ORDER = (
    "recipe", "kind", "objective", "dataset", "split", "evaluation", "base", "init_from", "dtype", "vision",
    "template_options", "limits", "max_unusable", "lora", "head_std", "trainer", "seed",
)  # fmt: skip


def _sorted(value: Any) -> Any:
    """Keys by name, whatever order a manifest has them in."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
