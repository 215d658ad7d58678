"""The folder that LLaMA-Factory trains from: dataset_info.json, JSON Lines of each table and split, pictures, recipes.

Selection rows and actor rows are `sharegpt` data of stage sft, pairs are `ranking` data of stage rm. Both splits are
registered, so that a recipe is evaluated on this dataset's validation rows. What the format has no way to say is
refused by name: the loader would drop such a row with a line in its log, stop, or read it as something else. The column
``row`` is ours; the loader takes the columns that dataset_info.json names and leaves others alone.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import orjson

from ....schemas.built import BuiltTables
from ....schemas.columns import picture_name
from ....schemas.store import ID_FIELDS
from ...ledger import Row
from .. import training
from ..types import Exported
from . import folder
from .records import escape, record_of, thinks

_TABLES = ("selection_sft", "bt_pairs", "actor_sft")


def export(tables: BuiltTables, out: Path, exported: Exported) -> None:
    """Write the folder into ``out``; no file of records when no row can be expressed."""
    run = _Export(tables, out, exported)
    run.write()
    if run.parts:
        training.no_place(exported, tables, _TABLES)
        folder.write(tables, out, exported, run.parts, run.thinking)


class _Export:
    def __init__(self, tables: BuiltTables, out: Path, exported: Exported) -> None:
        self.tables, self.out, self.exported = tables, out, exported
        self.places: dict[str, str] = {}  # picture -> its path below ``out``
        self.parts: Counter[folder.Part] = Counter()  # rows
        self.thinking: set[str] = set()  # kinds of data in which an assistant turn holds a thought

    def write(self) -> None:
        """Write pictures and records. Rows without a picture come last: the loader takes the type of the column
        ``images`` from what a file begins with, and where that is empty lists, a later path stops it."""
        name = self.tables.identity["name"]
        files: dict[folder.Part, tuple[IO[bytes], IO[bytes]]] = {}
        with ExitStack() as opened:
            for part, record in self._records():
                if part not in files:
                    shown: IO[bytes] = opened.enter_context((self.out / part.file(name)).open("wb"))
                    files[part] = shown, opened.enter_context(tempfile.TemporaryFile(dir=self.out))
                files[part][not record["images"]].write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                self.parts[part] += 1
                if thinks(record):
                    self.thinking.add(part.kind)
            for shown, bare in files.values():
                bare.seek(0)
                shutil.copyfileobj(bare, shown)
        self.exported.files |= {part.file(name): self.parts[part] for part in sorted(self.parts)}
        self.exported.pictures = len(self.places)

    def _records(self) -> Iterator[tuple[folder.Part, Row]]:
        for table in filter(self.tables.has, _TABLES):
            for row, pictures in training.rows(self.tables, table, self.out, self.exported, escape=escape):
                row_id = row[ID_FIELDS[table]]
                record = record_of(f"{table}:{row_id}", row)
                if isinstance(record, str):
                    self.exported.refuse(table, row_id, record)
                    continue
                images = zip(row["images"], pictures, strict=True)
                record["images"] = [self._put(reference, data) for reference, data in images]
                training.leave_out(self.exported, table, row, [ID_FIELDS[table]])
                yield folder.Part(folder.kind_of(table, row), row["split"]), record

    def _put(self, reference: str, data: bytes) -> str:
        """Write a picture, once, and return its path. Its name is its digest: nothing that somebody wrote is a path."""
        if reference not in self.places:
            place = f"images/{picture_name(reference, data)}"
            (self.out / "images").mkdir(exist_ok=True)
            (self.out / place).write_bytes(data)
            self.places[reference] = place
        return self.places[reference]
