"""Training rows of our own tables, ready-made: another dataset takes them as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...prompts.replies import parse_selection
from ...schemas.errors import ArmError
from ...schemas.store import ID_FIELDS
from . import chat
from .types import Context, ImportedRow, InvalidTurn

Record = dict[str, Any]
_MESSAGES = ("prompt", "completion", "chosen", "rejected")


def of(kind: str) -> Callable[[Record, Context], Iterator[ImportedRow | InvalidTurn]]:
    """A reader of records of the table ``kind``, which yields the one row of each."""

    def read(record: Record, context: Context) -> Iterator[ImportedRow | InvalidTurn]:
        row = {k: v for k, v in record.items() if k != "images"}
        row |= {name: chat.without_nulls(row[name]) for name in _MESSAGES if name in row}
        try:
            if row.get("order") is not None:
                _picks_one(row)
            pictures = chat.pictures(row["prompt"], record["images"], context.folder)
        except ArmError as error:
            yield InvalidTurn.of(row[ID_FIELDS[kind]], error, kind=kind)
            return
        yield ImportedRow(kind, row, pictures)

    return read


def _picks_one(row: Record) -> None:
    """Raises ArmError when the reply does not pick one of the candidates that are shown."""
    said = parse_selection(chat.text_of(row["completion"]), max(1, len(row["order"])))
    if said.status != "ok":
        raise ArmError(f"is {said.status}, and {len(row['order'])} candidates are shown", where="$.completion")
