"""What importers get and give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Context:
    """What a record cannot say about itself: its source's declaration and where its picture paths start."""

    dialect: str
    folder: Path  # of the source file; relative picture paths start here and may not leave it
    space: str | None = None  # of the points in responses


@dataclass(frozen=True, slots=True)
class ImportedState:
    """A `states` row without split, screenshot facts and source; the screenshot as bytes, or None without one."""

    row: dict[str, Any]
    image: bytes | None
    where: str = "$"  # JSON path of the screenshot within the record


@dataclass(frozen=True, slots=True)
class InvalidTurn:
    """An assistant turn that cannot become a state; ``reason`` is one of the ledger's for `states`."""

    state_id: str
    reason: str
    path: str  # JSON path within the record
    message: str
