"""Picks without a usable loser, kept for the actor: the same shape as its targets, with the reason."""

from __future__ import annotations

from collections.abc import Iterable

from .actor_sft import row_of
from .ledger import Row
from .scene import Scene

ALONE = "no_other_candidate"  # the reason of a pick that had nothing beside it


def build(row_id: str, label: Row, scene: Scene, reasons: Iterable[str]) -> Row:
    """Return the `reserve` row of a usable label. ``reasons``: why its comparisons are no pairs, as the account of
    bt_pairs names them. Raises Unrenderable (``no_messages``) for a state that does not record the actor's prompt."""
    row = row_of(row_id, label, scene, label["selected_index"], "teacher")
    return {**row, "reason": ", ".join(sorted(set(reasons))) or ALONE}
