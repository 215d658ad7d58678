"""What importers get and give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...schemas.errors import ArmError


@dataclass(frozen=True)
class Context:
    """What a record cannot say about itself: its source's declaration and where its picture paths start."""

    dialect: str
    folder: Path  # of the source file; relative picture paths start here and may not leave it
    space: str | None = None  # of the points in responses
    constants: Mapping[str, Any] = field(default_factory=dict)  # as declared: actor, teacher, score_source, ...


@dataclass(frozen=True, slots=True)
class ImportedState:
    """A `states` row without split, screenshot facts and source; the screenshot as bytes, or None without one."""

    row: dict[str, Any]
    image: bytes | None
    where: str = "$"  # JSON path of the screenshot within the record
    record: int = 0  # of the records that were read together, the one it came from (0-based)


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """What else a record holds. ``kind`` says what ``row`` is:

    candidate_sets, teacher_labels: what a `RowImporter` of that kind gives. candidate_scores: ``set_id``, ``scores``
    (one number or None for each candidate, as sampled), ``score_source``, ``source_record_json``. reviews: a `review`
    row. selection_sft, bt_pairs, pointwise_scores, bench_items: a row of that table that comes ready-made, without
    ``images``, ``rendered_sha256`` and ``split``; ``images`` are then its pictures, one for each image block in order,
    and ``task`` is the text that decides its split (None: its pictures decide, else its prompt).
    """

    kind: str
    row: dict[str, Any]
    images: tuple[bytes, ...] = ()
    task: str | None = None
    where: str = "$"  # JSON path of what it was made of
    record: int = 0


@dataclass(frozen=True, slots=True)
class InvalidTurn:
    """What should be a state, or something else of ``kind``, and cannot; ``reason`` is one of the ledger's for it."""

    state_id: str  # or the id of the row it would have been
    reason: str
    path: str  # JSON path within the record
    message: str
    kind: str = "states"
    record: int = 0

    @classmethod
    def of(cls, row_id: str, error: ArmError, path: str = "$", kind: str = "states", record: int = 0) -> InvalidTurn:
        """What ``error`` made impossible, at its own place, else at ``path``."""
        return cls(row_id, reason_of(error), error.where or path, error.message, kind, record)


def reason_of(error: ArmError) -> str:
    """The ledger's reason: errors of pictures carry their own."""
    return str(getattr(error, "reason", "invalid_record"))


@dataclass(frozen=True, slots=True)
class Remark:
    """What a person should know of records that are used all the same."""

    path: str  # JSON path within the record
    message: str
    record: int = 0


Imported = ImportedState | ImportedRow | InvalidTurn | Remark


@dataclass(frozen=True)
class StateImporter:
    """Reads records that hold states, or anything else; ``read`` yields what a record checked against ``schema`` holds.

    ``ids`` are the fields of a record that ``read`` would make of its whole content: a redaction writes them into it
    first, so that the ids stay what candidate sets name. ``yields`` are the kinds of what it gives.
    """

    schema: str
    read: Callable[[Any, Context], Iterator[Imported]]
    ids: Callable[[Any], dict[str, Any]] = lambda record: {}
    yields: tuple[str, ...] = ("states",)


@dataclass(frozen=True)
class GroupImporter:
    """Reads records that only say something together: all records of one source with one ``key``, in file order."""

    schema: str
    key: Callable[[Any], str]
    read: Callable[[list[Any], Context], Iterator[Imported]]
    yields: tuple[str, ...] = ("states",)


@dataclass(frozen=True)
class RowImporter:
    """Reads big files of candidate sets, labels or scores. ``read`` returns one row without split and without what its
    state knows; it is called again for the same bytes when the row is built.

    It may raise ArmError (``where`` is a JSON path) for what the schema cannot see.
    """

    schema: str
    read: Callable[[Any, Context], dict[str, Any]]


Importer = StateImporter | GroupImporter | RowImporter
