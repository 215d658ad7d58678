"""Rows of training tables as other trainers take them: with the bytes of their pictures, and texts that end no turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ...prompts.escape import escape_tokens
from ...schemas.built import BuiltTables
from ...schemas.ids import sha256_hex
from ...schemas.store import ID_FIELDS, UNSPLIT
from ..ledger import Row
from ..spec import BASE_TABLES
from .types import Exported

SIDES = ("prompt", "completion", "chosen", "rejected")  # columns of messages
NOT_HERE = "its picture is referred to, and no table embeds it"
# Tables that training rows are made of, and those that say how: no trainer reads them.
_BEHIND = {*BASE_TABLES, *UNSPLIT}


def rows(
    tables: BuiltTables, table: str, beside: Path, exported: Exported, *,
    wanted: Callable[[Row], bool] = lambda row: True, escape: Callable[[str], str] = escape_tokens,
) -> Iterator[tuple[Row, list[bytes]]]:  # fmt: skip
    """Yield the ``wanted`` rows of a table with their pictures, one for each image block of the prompt, in order.

    Neighbouring text blocks are one, as chat templates write them, and what would open a turn or stand for a picture
    is harmless in them: rows that were made here are so already, and rows that came ready-made are counted where that
    changed something. Pictures that the table only refers to are those of a table that embeds them, kept below
    ``beside`` meanwhile. A row whose picture is nowhere is refused.
    """
    here: dict[str, bytes] = {}
    how = _stored(tables)
    with tempfile.TemporaryDirectory(prefix=".pictures-", dir=beside) as folder:
        kept = Path(folder)
        if how.get(table) == "reference":
            _fetch(tables, table, kept)
        for row in tables.rows(table, here.__setitem__):
            pictures = [here.get(image) or _read(kept, image) for image in row["images"]]
            here.clear()
            if not wanted(row):
                continue
            found = [picture for picture in pictures if picture is not None]
            if len(found) < len(pictures):
                exported.refuse(table, row[ID_FIELDS[table]], NOT_HERE)
                continue
            made = {side: harmless(row[side], escape) for side in SIDES if side in row}
            if any(changed for _, changed in made.values()):
                exported.left_out[f"{table} texts as they were before placeholders were escaped"] += 1
            yield row | {side: messages for side, (messages, _) in made.items()}, found


def harmless(messages: Sequence[Row], escape: Callable[[str], str] = escape_tokens) -> tuple[list[Row], bool]:
    """The messages with one text block for neighbouring ones, and whether a text had to be escaped."""
    made, changed = [], False
    for message in messages:
        content: list[dict[str, str]] = []
        for kind, blocks in groupby(message["content"], key=lambda block: block["type"]):
            if kind == "image":
                content += [{"type": "image"} for _ in blocks]
                continue
            text = "".join(block["text"] for block in blocks)  # first joined: a token may lie across blocks
            content.append({"type": "text", "text": escape(text)})
            changed = changed or content[-1]["text"] != text
        made.append({"role": message["role"], "content": content})
    return made, changed


def shows(tables: BuiltTables, table: str) -> bool:
    """Whether any row of the table has a picture."""
    return any(row["images"] for row in tables.rows(table))


def leave_out(exported: Exported, table: str, row: Row, held: Sequence[str]) -> None:
    """Count what a row says beside its messages, its pictures and its split, and that is none of ``held``."""
    kept = {*SIDES, "images", "split", "rendered_sha256", *held}
    exported.leave_out(table, {name: value for name, value in row.items() if name not in kept})


def no_place(exported: Exported, tables: BuiltTables, held: Sequence[str]) -> None:
    """Note the tables of training rows that a format has no place for."""
    entries: dict[str, Any] = tables.identity.get("tables", {})
    others = {table: entry["rows"] for table, entry in entries.items() if table not in {*_BEHIND, *held}}
    if told := ", ".join(f"{table} ({rows:,} rows)" for table, rows in sorted(others.items()) if rows):
        exported.notes.append(f"the format has no place for {told}")


def _stored(tables: BuiltTables) -> dict[str, str]:
    """How each table holds its pictures: embed, or reference."""
    return {name: entry["images"] for name, entry in tables.identity.get("tables", {}).items()}


def _fetch(tables: BuiltTables, table: str, folder: Path) -> None:
    """Write the pictures that a table refers to into ``folder``, from the tables that embed them."""
    wanted = {image for row in tables.rows(table) for image in row["images"]}

    def keep(reference: str, data: bytes) -> None:
        if reference in wanted:
            wanted.remove(reference)
            (folder / sha256_hex(reference)).write_bytes(data)

    # states first: it has each screenshot once, or is not there
    for other in sorted(_stored(tables), key=lambda name: name != "states"):
        if wanted and _stored(tables)[other] == "embed":
            for _ in tables.rows(other, keep):
                pass


def _read(folder: Path, reference: str) -> bytes | None:
    path = folder / sha256_hex(reference)
    return path.read_bytes() if path.is_file() else None
