"""Ids of candidate sets in a dataset that holds the draws of several policies."""

from __future__ import annotations

import re

from .spec import BuildSpec, SourceSpec

_DRAW = re.compile(r"#d[0-9]+\Z")


def qualified(spec: BuildSpec, source: SourceSpec, set_id: str) -> str:
    """``set_id`` with the source's actor before its draw, where draws of several policies would share an id.

    A source of labels or scores declares whose sets it is about. Ids of our own tables are complete.
    """
    actor = source.constants.get("actor")
    if actor is None or source.format == "table" or len(spec.actors) < 2:
        return set_id
    draw = _DRAW.search(set_id)
    return f"{set_id[: draw.start()]}#{actor}{draw[0]}" if draw else f"{set_id}#{actor}"
