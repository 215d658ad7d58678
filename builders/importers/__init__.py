"""Formats that raw records come in: one module per format, one entry per (kind, format)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import first_release, openai_messages
from .types import Context, ImportedState, InvalidTurn

__all__ = ["IMPORTERS", "Context", "ImportedState", "Importer", "InvalidTurn", "formats"]


@dataclass(frozen=True)
class Importer:
    """How records of one kind and format are read.

    ``schema`` is checked first. ``read`` gets a valid record and the context of its source: for episodes and states it
    yields states (or invalid turns), for candidate sets and labels it returns one row without split and state facts.
    """

    schema: str
    read: Callable[[Any, Context], Iterator[ImportedState | InvalidTurn]] | Callable[[Any, Context], dict[str, Any]]


IMPORTERS: Mapping[tuple[str, str], Importer] = {
    ("episodes", "openai_messages"): Importer("episode/1", openai_messages.states),
    ("states", "first_release"): Importer("first_release_state/1", first_release.states),
    ("candidate_sets", "first_release"): Importer("first_release_candidates/1", first_release.candidate_set),
    ("teacher_labels", "first_release"): Importer("first_release_label/1", first_release.teacher_label),
}


def formats(kind: str) -> list[str]:
    """Formats that exist for one kind of source."""
    return [fmt for k, fmt in IMPORTERS if k == kind]
