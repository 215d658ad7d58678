"""Formats that raw records come in: one module per format, one entry per (kind, format)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import first_release, openai_messages, tables
from .tables import RECORDS
from .types import Context, ImportedState, InvalidTurn

__all__ = ["IMPORTERS", "RECORDS", "ROWS", "STATES", "Context", "ImportedState", "InvalidTurn", "formats"]


@dataclass(frozen=True)
class StateImporter:
    """Reads records of states, checked against ``schema``; ``read`` yields states, or turns that cannot be one.

    ``ids`` are the fields of a record that ``read`` would make of its whole content: a redaction writes them into it
    first, so that the ids stay what candidate sets name.
    """

    schema: str
    read: Callable[[Any, Context], Iterator[ImportedState | InvalidTurn]]
    ids: Callable[[Any], dict[str, Any]] = lambda record: {}


@dataclass(frozen=True)
class RowImporter:
    """Reads candidate sets or labels. ``read`` returns one row without split and without what its state knows.

    It may raise ArmError (``where`` is a JSON path) for what the schema cannot see.
    """

    schema: str
    read: Callable[[Any, Context], dict[str, Any]]


STATES: Mapping[tuple[str, str], StateImporter] = {
    ("episodes", "openai_messages"): StateImporter("episode/1", openai_messages.states, openai_messages.ids),
    ("states", "first_release"): StateImporter("first_release_state/1", first_release.states),
    ("states", "table"): StateImporter("table_state/1", tables.states),
}
ROWS: Mapping[tuple[str, str], RowImporter] = {
    ("candidate_sets", "first_release"): RowImporter("first_release_candidates/1", first_release.candidate_set),
    ("candidate_sets", "table"): RowImporter("table_candidates/1", tables.candidate_set),
    ("teacher_labels", "first_release"): RowImporter("first_release_label/1", first_release.teacher_label),
    ("teacher_labels", "table"): RowImporter("table_label/1", tables.teacher_label),
}
IMPORTERS: Mapping[tuple[str, str], StateImporter | RowImporter] = {**STATES, **ROWS}


def formats(kind: str) -> list[str]:
    """Formats that exist for one kind of source."""
    return [fmt for k, fmt in IMPORTERS if k == kind]
