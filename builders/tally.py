"""What the sources hold, counted as it is read: before anything is joined, put aside or found to be broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..schemas.errors import Issue
from .ledger import Row


@dataclass
class Tally:
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)  # (file, kind) -> items of valid records
    facts: Counter[tuple[str, Any]] = field(default_factory=Counter)  # (what, value) -> items that say so
    repeated: dict[str, str] = field(default_factory=dict)  # id of a set that came more than once -> its state
    remarks: list[Issue] = field(default_factory=list)  # of the notes, those on records that are used all the same
    labelled_states: int = 0  # states of which a candidate set has a label

    def add(self, kind: str, file: str, row: Row, constants: Mapping[str, Any]) -> None:
        """Count an item; what it does not say itself, its source may declare."""
        self.kinds[file, kind] += 1
        facts = self.facts
        if kind == "candidate_sets":
            temperature = row["sampling"].get("temperature")
            if temperature is None:
                temperature = constants.get("sampling", {}).get("temperature")
            facts["temperature", temperature if temperature is None else float(temperature)] += 1
            facts["actor", row.get("actor") or constants.get("actor")] += 1
            facts["candidates", None] += len(row["responses"])
        elif kind == "teacher_labels":
            facts["null_labels", None] += row["selection"] is None
            facts["teacher", row.get("teacher") or constants.get("teacher")] += 1
        elif kind == "candidate_scores":
            facts["scored_candidates", None] += sum(score is not None for score in row["scores"])
