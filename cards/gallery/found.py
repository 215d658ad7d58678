"""What the items of a page are made of, read from a build: rows, labels, sets, states, pictures, earlier reviews."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...schemas.built import BuiltTables
from ...schemas.ids import heads
from ...schemas.store import ID_FIELDS
from .pictures import Pictures
from .units import Unit

Row = dict[str, Any]
_HEAVY = ("messages_json", "prompt_text", "tools_json", "demo_response", "source_record_json")  # not on the page


@dataclass
class Found:
    """Rows by id. ``rows`` has those of the items themselves, by (table, id)."""

    pictures: Pictures
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    labels: dict[str, Row] = field(default_factory=dict)
    sets: dict[str, Row] = field(default_factory=dict)
    states: dict[str, Row] = field(default_factory=dict)
    reviews: dict[str, list[Row]] = field(default_factory=dict)  # item -> what was said, the oldest first
    prompts: tuple[str, ...] = ()  # their ids

    def label_id(self, item_id: str) -> str | None:
        """The label that an excluded unit belongs to; likewise the others."""
        return _owner(item_id, self.labels)

    def set_id(self, item_id: str) -> str | None:
        return _owner(item_id, self.sets)

    def state_id(self, item_id: str) -> str | None:
        return _owner(item_id, self.states)

    def pick(self, label_id: str) -> int | None:
        """The candidate (0-based) from which training rows follow: a reviewer's answer comes before the label's own."""
        answers = [said for said in self.reviews.get(label_id, ()) if said["verdict"] != "note"]
        if answers and answers[-1]["selected_index"] is not None:
            return int(answers[-1]["selected_index"])
        picked = self.labels[label_id]["selected_index"]
        return None if picked is None else int(picked)


def _owner(item_id: str, known: Container[str]) -> str | None:
    return next((head for head in heads(item_id) if head in known), None)


def find(tables: BuiltTables, units: Sequence[Unit], pictures: Pictures) -> Found:
    """Read all that the units show. What a build does not hold is not found, which is no error."""
    found = Found(pictures, prompts=tuple(prompt["id"] for prompt in tables.identity["prompts"]))
    for table, ids in _by_table(units).items():
        for row in tables.some(table, ID_FIELDS[table], ids, pictures.keep):
            found.rows[table, row[ID_FIELDS[table]]] = {k: v for k, v in row.items() if k not in _HEAVY}
    rows = found.rows.values()
    loose = {head for unit in units if unit.excluded is not None for head in heads(unit.id)}
    _into(found.labels, tables, "teacher_labels", loose | _named(rows, "label_id"))
    above = [*rows, *found.labels.values()]
    _into(found.sets, tables, "candidate_sets", loose | _named(above, "set_id"))
    above += found.sets.values()
    _into(found.states, tables, "states", loose | _named(above, "state_id"), pictures)
    if tables.has("reviews"):
        ids = {row[key] for row in above for key in ("label_id", "set_id", "state_id") if row.get(key)}
        ids |= {name for unit in units for name in unit.names(found.prompts)} | set(found.states)
        for review in tables.some("reviews", "item_id", ids):
            found.reviews.setdefault(review["item_id"], []).append(review)
        for said in found.reviews.values():
            said.sort(key=lambda review: (review["time"], review["reviewer"], review["verdict"]))
    _referenced(tables, rows, pictures)
    return found


def read_again(tables: BuiltTables, found: Found, missing: set[str]) -> None:
    """Read the bytes of pictures that did not fit into memory before anybody knew which are shown."""
    wanted = {f"sha256:{sha256}" for sha256 in missing}
    states = {state_id for state_id, state in found.states.items() if state["screenshot"] in wanted}
    for table, column, ids in (
        *((table, ID_FIELDS[table], ids) for table, ids in _showing(found.rows, wanted).items()),
        ("states", "state_id", states),
        ("states", "screenshot_sha256", missing),
    ):
        if missing - found.pictures.held.keys() and tables.has(table):
            for _ in tables.some(table, column, ids, found.pictures.keep):
                pass


def _by_table(units: Iterable[Unit]) -> Mapping[str, set[str]]:
    ids: dict[str, set[str]] = {}
    for unit in units:
        if unit.excluded is None:
            ids.setdefault(unit.table, set()).add(unit.id)
    return ids


def _into(
    into: dict[str, Row], tables: BuiltTables, table: str, ids: set[str], pictures: Pictures | None = None
) -> None:
    if ids and tables.has(table):
        keep = pictures.keep if pictures else lambda *_: None
        for row in tables.some(table, ID_FIELDS[table], ids, keep):
            into[row[ID_FIELDS[table]]] = {k: v for k, v in row.items() if k not in _HEAVY}


def _named(rows: Iterable[Row], column: str) -> set[str]:
    return {row[column] for row in rows if row.get(column)}


def _referenced(tables: BuiltTables, rows: Iterable[Row], pictures: Pictures) -> None:
    """Pictures to which rows only refer: ``states`` has them."""
    shown = {reference.removeprefix("sha256:") for row in rows for reference in row.get("images") or ()}
    if (missing := shown - pictures.facts.keys()) and tables.has("states"):
        for _ in tables.some("states", "screenshot_sha256", missing, pictures.keep):
            pass


def _showing(rows: Mapping[tuple[str, str], Row], wanted: set[str]) -> Mapping[str, set[str]]:
    ids: dict[str, set[str]] = {}
    for (table, row_id), row in rows.items():
        if wanted.intersection(row.get("images") or ()):
            ids.setdefault(table, set()).add(row_id)
    return ids
