"""Ids for what records hold: the source's own where it gives one, else a hash of content, never a place in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...schemas.ids import canonical_json, sha256_hex

Record = dict[str, Any]


def own(record: Record, names: Iterable[str]) -> str | None:
    """The first of the fields ``names`` that is text; an integer counts the records of a file and is no identity."""
    return next((record[name] for name in names if isinstance(record.get(name), str)), None)


def of_rollout(own_id: str, record: Record) -> str:
    """Several rollouts of one task share its id, and are told apart by ``rollout_idx``."""
    rollout = record.get("rollout_idx")
    return own_id if rollout is None else f"{own_id}_r{rollout}"


def hashed(prefix: str, content: Any) -> str:
    """By all that was recorded."""
    return f"{prefix}-{sha256_hex(canonical_json(content))[:16]}"


def shown(prefix: str, record: Record, pictures: Sequence[bytes] = ()) -> str:
    """By what a training row shows: its fields and its pictures, wherever these lie."""
    said = {name: value for name, value in record.items() if name != "images"}
    return f"{prefix}-{sha256_hex(canonical_json([said, [sha256_hex(picture) for picture in pictures]]))[:32]}"
