"""What exporters get and give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...schemas.errors import ArmError
from ...schemas.manifest import is_safe_path
from ...schemas.store import ID_FIELDS, TABLES
from ...schemas.validate import for_schema
from .. import reader
from ..ledger import Row

MAX_NAMED = 10_000  # rows that are named for one reason; they are all counted
Keep = Callable[[str, bytes], object]


@dataclass(frozen=True)
class BuiltTables:
    """The tables of a built directory, a few rows at a time. ``progress`` is called with (what, done, total)."""

    folder: Path
    identity: dict[str, Any]
    progress: Callable[[str, int, int], None] = lambda *_: None

    def has(self, table: str) -> bool:
        return table in self.identity["tables"]

    def rows(self, table: str, keep: Keep = lambda *_: None) -> Iterator[Row]:
        """Yield the rows of a table; ``keep`` gets (reference, bytes) of each embedded picture before its row comes.

        Raises ArmError for a table of another version of its schema, and for a file that is missing, damaged or holds
        other rows than its schema allows.
        """
        import pyarrow as pa

        entry = self.identity["tables"][table]
        schema = TABLES[table]
        if entry["schema"] != schema:
            raise ArmError(f"{table} is {entry['schema']}, and this version knows {schema}", where=str(self.folder))
        validator, done = for_schema(schema), 0
        for part in entry["splits"].values():
            for file in part["files"]:
                try:
                    path = self._file(file["path"])
                    for row in reader.rows(path, schema, keep):
                        if not validator.is_valid(row):
                            where, message = validator.problems(row)[0]
                            raise ArmError(f"row {row.get(ID_FIELDS[table])!r} {where} {message}")
                        yield row
                        done += 1
                        self.progress("exporting", done, entry["rows"])
                except (ArmError, OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
                    told = error.message if isinstance(error, ArmError) else f"cannot be read: {error}"
                    raise ArmError(
                        told, where=str(self.folder / file["path"]), next_command=f"arm validate {self.folder}"
                    ) from error

    def _file(self, name: str) -> Path:
        path = self.folder / name
        if not is_safe_path(name) or self.folder.resolve() not in path.resolve().parents:
            raise ArmError("does not lie in the build")
        return path


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
