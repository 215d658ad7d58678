"""What exporters get and give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...schemas.built import BuiltTables

MAX_NAMED = 10_000  # rows that are named for one reason; they are all counted


@dataclass(frozen=True)
class Unexpressed:
    """A row that the format has no way to say, and why."""

    table: str
    row_id: str
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"table": self.table, "id": self.row_id, "reason": self.reason}


@dataclass
class Exported:
    """What an export came to."""

    files: dict[str, int] = field(default_factory=dict)  # file of records -> how many
    pictures: int = 0
    unexpressed: list[Unexpressed] = field(default_factory=list)  # at most MAX_NAMED for each table and reason
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)  # (table, reason) -> all such rows
    left_out: Counter[str] = field(default_factory=Counter)  # table.field without a place in the format -> rows with it
    notes: list[str] = field(default_factory=list)  # what else a reader of the files should know

    def refuse(self, table: str, row_id: str, reason: str) -> None:
        self.reasons[table, reason] += 1
        if self.reasons[table, reason] <= MAX_NAMED:
            self.unexpressed.append(Unexpressed(table, row_id, reason))

    def leave_out(self, table: str, facts: dict[str, Any]) -> None:
        """Count the facts of a row that say something and that the format cannot hold."""
        for name, value in facts.items():
            if value is not None and value != []:
                self.left_out[f"{table}.{name}"] += 1

    def lost(self) -> str:
        """What a README says of it, as a Markdown list."""
        lines = [f"{n:,} rows of {table}: {why}" for (table, why), n in sorted(self.reasons.items())]
        lines += [f"no column for {what} ({n:,} rows)" for what, n in sorted(self.left_out.items())]
        return "\n".join(f"- {line}" for line in [*lines, *self.notes]) or "- nothing"

    def to_json(self) -> dict[str, Any]:
        counted = sorted(self.reasons.items())
        return {
            "files": self.files,
            "pictures": self.pictures,
            "complete": not self.reasons,
            "unexpressed": [{"table": t, "reason": why, "rows": n} for (t, why), n in counted],
            "rows": [row.to_json() for row in self.unexpressed],
            "left_out": dict(sorted(self.left_out.items())),
            "notes": self.notes,
        }


Exporter = Callable[[BuiltTables, Path, Exported], None]  # writes into the folder, which is empty
