"""Scores of candidates: what a process reward model or a tree search said of each action of a set."""

from __future__ import annotations

from .ledger import Row
from .spec import SourceSpec

Scores = dict[str, list[float | None]]  # what made them -> one for each candidate, as sampled; None: not scored


def source_of(imported: Row, declared: SourceSpec) -> str:
    """What made a score: what the record says, else what its source declares."""
    return str(imported.get("score_source") or declared.constants.get("score_source") or "prm")
