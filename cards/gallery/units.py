"""What could be looked at, told from a few columns: every row, what was excluded, labels that fed nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...schemas.built import BuiltTables
from ...schemas.ids import heads
from ...schemas.store import ID_FIELDS, TABLES, load
from .choice import BASE, ROW_TABLES, STAGES, Choice

Row = dict[str, Any]
# Exclusions of records that no table holds: of ready-made rows, and repeats of what stands in one.
_NOT_HELD = {"invalid_record", "duplicate_record", "conflicting_id"}
_KINDS = {"pointwise_scores": "score_source", "actor_sft": "selected_by", "reserve": "reason", "bench_items": "bench"}
_PARENTS = ("label_id", "set_id", "state_id")


class Unit(NamedTuple):
    """One thing that can become an item.

    table: of the row, or the stage that excluded it. kind: pair type, reason, status, ... or "".
    excluded: None, or its row of `exclusions`.
    """

    table: str
    split: str
    kind: str
    id: str
    excluded: Row | None = None

    def names(self, prompts: Iterable[str]) -> Iterator[str]:
        """The ids under which somebody may have spoken of it, or of what it is made of: an excluded unit could have
        been a row before, which ends in the id of its prompt."""
        yield from heads(self.id)
        if self.excluded is not None:
            yield from (f"{self.id}|{prompt}" for prompt in prompts)

    @property
    def stratum(self) -> tuple[str, bool, str, str]:
        return self.table, self.excluded is not None, self.kind, self.split


class Units:
    """All units of a build that a choice lets through. ``met`` are the ids of the choice that named something."""

    def __init__(self, tables: BuiltTables, choice: Choice) -> None:
        self._tables, self._choice = tables, choice
        self._family = _family(tables, choice.ids) if choice.ids else {}
        self.met: set[str] = set()

    def __iter__(self) -> Iterator[Unit]:
        for unit in self._all():
            if self._choice.split in (None, unit.split):
                yield unit

    def _all(self) -> Iterator[Unit]:
        rows = [table for table in ROW_TABLES if self._tables.has(table)]
        if not self._choice.reasons:
            for table in rows:
                yield from self._rows(table)
            yield from self._base(made_rows=bool(rows))
        if self._tables.has("exclusions"):
            yield from self._excluded()

    def _rows(self, table: str, status: bool = False) -> Iterator[Unit]:
        if not self._choice.table(table):
            return
        own, fields = ID_FIELDS[table], load(TABLES[table])["properties"]
        names = [own, "split", *(("status",) if status else ()), *_kind_columns(table)]
        names += [name for name in _PARENTS if self._choice.ids and name in fields and name != own]
        for row in self._tables.columns(table, names):
            if self._wanted(row[own], *(row.get(name) for name in _PARENTS)):
                yield Unit(table, row["split"], row["status"] if status else _kind(table, row), row[own])

    def _base(self, made_rows: bool) -> Iterator[Unit]:
        """Labels without a usable pick that no exclusion names; all labels, sets or states where no rows are made."""
        shown = None if made_rows else next((table for table in BASE if self._tables.has(table)), None)
        if self._tables.has("teacher_labels"):
            account = self._tables.identity["ledger"].get("selection_sft", {}).get("excluded", {})
            for unit in self._rows("teacher_labels", status=True):
                if shown == "teacher_labels" or (unit.kind != "ok" and unit.kind not in account):
                    yield unit
        elif shown is not None:
            yield from self._rows(shown)

    def _excluded(self) -> Iterator[Unit]:
        choice, validation = self._choice, self._validation()
        for row in self._tables.columns("exclusions", ["stage", "source_id", "reason", "detail", "status"]):
            if row["stage"] not in STAGES or row["reason"] in _NOT_HELD or not choice.table(row["stage"]):
                continue
            if choice.reasons and row["reason"] not in choice.reasons:
                continue
            if self._wanted(*heads(row["source_id"])):
                held_out = any(head in validation for head in heads(row["source_id"]))
                split = "validation" if held_out else "train"
                yield Unit(row["stage"], split, row["reason"], row["source_id"], row)

    def _wanted(self, *ids: str | None) -> bool:
        if not self._choice.ids:
            return True
        named = {self._family[one] for one in ids if one is not None and one in self._family}
        self.met |= named
        return bool(named)

    def _validation(self) -> set[str]:
        """The labels, sets and states of validation, which is the smaller part; exclusions do not say their split."""
        held_out = set()
        for table in filter(self._tables.has, BASE):
            if "validation" in self._tables.identity["tables"][table]["splits"]:
                for row in self._tables.columns(table, [ID_FIELDS[table], "split"]):
                    if row["split"] == "validation":
                        held_out.add(row[ID_FIELDS[table]])
        return held_out


def _family(tables: BuiltTables, ids: tuple[str, ...]) -> Mapping[str, str]:
    """Every id that belongs to one of ``ids`` -> that one: the ids, the sets and labels of a state, a set's labels."""
    family = {one: one for one in ids}
    for table in ("candidate_sets", "teacher_labels"):
        if tables.has(table):
            own, parents = ID_FIELDS[table], ["state_id"] if table == "candidate_sets" else ["set_id", "state_id"]
            for row in tables.columns(table, [own, *parents]):
                if named := [row[name] for name in parents if row[name] in family]:
                    family.setdefault(row[own], family[named[0]])
    return family


def _kind_columns(table: str) -> tuple[str, ...]:
    return ("unit", "pair_type", "negative_source") if table == "bt_pairs" else tuple(_KINDS.get(table, "").split())


def _kind(table: str, row: Mapping[str, Any]) -> str:
    if table == "bt_pairs":
        if row["unit"] == "trajectory":
            return "trajectory"
        source = row["negative_source"]
        return str(row["pair_type"]) if source == "sampled" else f"{row['pair_type']}, {source}"
    return str(row[_KINDS[table]]) if table in _KINDS else ""
