"""The first release's files of training rows: ShareGPT messages with the reply, pairs for the scalar model.

`selection_sft/owrl_selection_{train,val}.json` and `scalar_rm/owrl_scalar_{train,val}.json` are JSON arrays; their
pictures lie in `state_images/` beside them. Each record is read by the importer before it is written: one that it would
refuse, or read as something else, is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson

from ...prompts.escape import escape_tokens
from ...schemas.built import BuiltTables
from ...schemas.columns import picture_name
from ...schemas.errors import UsageError
from ...schemas.images import data_url
from ...schemas.store import ID_FIELDS
from ...schemas.validate import for_schema
from ..importers import Context, Imported, ImportedRow, InvalidTurn, first_release_rows
from ..importers.chat import MARKER
from ..ledger import Row
from . import training
from .types import Exported

PICTURES = "state_images"
_SPLITS = {"train": "train", "validation": "val"}
# Table -> its folder, its file for a split, the reader of its records and their schema.
_FORMS: dict[str, tuple[str, str, Callable[[Row, Context], Any], str]] = {
    "selection_sft": (
        *("selection_sft", "owrl_selection_{}.json"),
        *(first_release_rows.selection, "first_release_selection/1"),
    ),
    "bt_pairs": ("scalar_rm", "owrl_scalar_{}.json", first_release_rows.pair, "first_release_pair/1"),
}  # fmt: skip
# What an import takes for granted, and what it finds out again.
_USUAL = {"unit": "step", "label_source": "selection", "negative_source": "sampled"}
_FOUND = ("relation", "pair_type")


def export(tables: BuiltTables, out: Path, exported: Exported) -> None:
    """Write all rows of both tables into ``out``. Raises UsageError for a build that has neither."""
    if not any(tables.has(table) for table in _FORMS):
        raise UsageError(f"publishes none of the tables {', '.join(_FORMS)}", where=str(tables.folder))
    write(tables, out, exported, escape_tokens)
    training.no_place(exported, tables, tuple(_FORMS))


def write_ready(tables: BuiltTables, out: Path, exported: Exported) -> Counter[str]:
    """Write the rows that came ready-made, to the letter; return how many there are that did not, by table."""
    made: Counter[str] = Counter()

    def ready(table: str, row: Row) -> bool:
        made[table] += row["prompt_id"] is not None
        return row["prompt_id"] is None

    write(tables, out, exported, lambda text: text.replace(MARKER, f"&lt;{MARKER[1:]}"), ready)
    return made


def write(
    tables: BuiltTables, out: Path, exported: Exported, escape: Callable[[str], str],
    wanted: Callable[[str, Row], bool] = lambda *_: True,
) -> None:  # fmt: skip
    """Write the ``wanted`` rows of both tables below ``out``."""
    for table, form in _FORMS.items():
        if not tables.has(table):
            continue
        with ExitStack() as opened:
            files = _Files(out, form[0], form[1], opened)
            read = _Reader(table, *form[2:])
            found = training.rows(tables, table, out.parent, exported, escape=escape, wanted=partial(wanted, table))
            for row, pictures in found:
                record = record_of(row)
                said = read(record, pictures)
                if isinstance(said, str):
                    exported.refuse(table, row[ID_FIELDS[table]], said)
                    continue
                files.write(row["split"], record, row["images"], pictures)
                _count(exported, table, row, said)
        exported.files |= files.counts
        exported.pictures += len(files.pictures)


def record_of(row: Row) -> Row:
    """A row as a record, but for the paths of its pictures."""
    turns = [_flat(message) for message in row["prompt"]]
    if "completion" in row:
        return {"messages": [*turns, *map(_flat, row["completion"])]}
    # A side of several messages is left as it is: the schema knows one.
    sides = {side: [_flat(message) for message in row[side]] for side in ("chosen", "rejected")}
    return {"messages": turns, **{side: said[0] if len(said) == 1 else said for side, said in sides.items()}}


def _flat(message: Row) -> Row:
    parts = [MARKER if block["type"] == "image" else block["text"] for block in message["content"]]
    return {"role": message["role"], "content": "".join(parts)}


class _Reader:
    """Reads a record as an import would; pictures stand in it as data URLs meanwhile."""

    def __init__(self, table: str, read: Callable[[Row, Context], Any], schema: str) -> None:
        self._table, self._read, self._validator = table, read, for_schema(schema)

    def __call__(self, record: Row, pictures: Sequence[bytes]) -> Row | str:
        """The row that comes of it, or why there is none."""
        whole = {**record, "images": [data_url(picture) for picture in pictures]}
        if problems := self._validator.problems(whole):
            return f"the format does not take it: {' '.join(problems[0])}"
        said: Imported = next(iter(self._read(whole, Context("function", Path()))))
        if isinstance(said, InvalidTurn):
            return f"the format does not take it: {said.path} {said.message}"
        assert isinstance(said, ImportedRow)
        return said.row


class _Files:
    """The files of one table, and the pictures that their records name: once each, by digest."""

    def __init__(self, out: Path, folder: str, name: str, opened: ExitStack) -> None:
        self._out, self._folder, self._name, self._opened = out, folder, name, opened
        self._files: dict[str, IO[bytes]] = {}
        self.counts: dict[str, int] = {}
        self.pictures: set[str] = set()

    def write(self, split: str, record: Row, references: Sequence[str], pictures: Sequence[bytes]) -> None:
        """Add a record to the array of its split."""
        images = [self._put(reference, data) for reference, data in zip(references, pictures, strict=True)]
        path = f"{self._folder}/{self._name.format(_SPLITS[split])}"
        if path not in self._files:
            (self._out / self._folder).mkdir(exist_ok=True)
            self._files[path] = file = self._opened.enter_context((self._out / path).open("wb"))
            self._opened.callback(file.write, b"\n]\n")
        count = self.counts.get(path, 0)
        self._files[path].write((b",\n" if count else b"[\n") + orjson.dumps({**record, "images": images}))
        self.counts[path] = count + 1

    def _put(self, reference: str, data: bytes) -> str:
        name = f"{PICTURES}/{picture_name(reference, data)}"
        if reference not in self.pictures:
            self.pictures.add(reference)
            path = self._out / self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return name


def _count(exported: Exported, table: str, row: Row, said: Row) -> None:
    """Count what an import of the record would not know again."""
    facts = {name: value for name, value in row.items() if _USUAL.get(name) != value and name not in _FOUND}
    named = ID_FIELDS[table]
    training.leave_out(exported, table, facts, (named,) if said[named] == row[named] else ())
