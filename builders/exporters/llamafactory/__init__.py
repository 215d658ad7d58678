"""The folder that LLaMA-Factory trains from: dataset_info.json, JSON Lines of each table and split, pictures, recipes.

Selection rows and actor rows are `sharegpt` data of stage sft, pairs are `ranking` data of stage rm. Both splits are
registered, so that a recipe is evaluated on this dataset's validation rows. What the format has no way to say is
refused by name: the loader would drop such a row with a line in its log, stop, or read it as something else. The column
``row`` is ours; the loader takes the columns that dataset_info.json names and leaves others alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import orjson

from ....schemas.built import BuiltTables
from ....schemas.images import sniff
from ....schemas.store import ID_FIELDS
from ...ledger import Row
from ..types import Exported
from . import folder
from .records import record_of, thinks

_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
_TABLES = ("selection_sft", "bt_pairs", "actor_sft")
_NO_STAGE = ("pointwise_scores", "reserve")
_ELSEWHERE = ("states", *_TABLES)  # where a picture may be embedded that a row only refers to
_HELD = {"prompt", "completion", "chosen", "rejected", "images", "split"}  # columns with a place, beside the id


def export(tables: BuiltTables, out: Path, exported: Exported) -> None:
    """Write the folder into ``out``; no file of records when no row can be expressed."""
    run = _Export(tables, out, exported)
    with ExitStack() as opened:
        run.write(opened)
    if not run.parts:
        return
    if beside := [table for table in _NO_STAGE if tables.has(table)]:
        exported.notes.append(f"no stage of LLaMA-Factory trains on {', '.join(beside)}: not written")
    folder.write(tables, out, exported, run.parts, run.thinking)


class _Export:
    def __init__(self, tables: BuiltTables, out: Path, exported: Exported) -> None:
        self.tables, self.out, self.exported = tables, out, exported
        self.present = [table for table in _TABLES if tables.has(table)]
        self.places: dict[str, str] = {}  # picture -> its path below ``out``
        self.parts: Counter[folder.Part] = Counter()  # rows
        self.thinking: set[str] = set()  # kinds of data in which an assistant turn holds a thought

    def write(self, opened: ExitStack) -> None:
        self._fetch()
        files: dict[folder.Part, IO[bytes]] = {}
        for table, row, record in self._records():
            part = folder.Part(folder.kind_of(table, row), row["split"])
            if part not in files:
                path = self.out / part.file(self.tables.identity["name"])
                files[part] = opened.enter_context(path.open("wb"))
            files[part].write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
            self.parts[part] += 1
            if thinks(record):
                self.thinking.add(part.kind)
        self.exported.files |= {p.file(self.tables.identity["name"]): self.parts[p] for p in sorted(self.parts)}
        self.exported.pictures = len(self.places)

    def _records(self) -> Iterator[tuple[str, Row, Row]]:
        for table in self.present:
            named = ID_FIELDS[table]
            for row in self.tables.rows(table, self._put):
                images = [self.places.get(image) for image in row["images"]]
                found = record_of(table, row, [i for i in images if i]) if all(images) else _NOT_HERE
                if isinstance(found, str):
                    self.exported.refuse(table, row[named], found)
                    continue
                record, changed = found
                left_out = {name: value for name, value in row.items() if name not in _HELD and name != named}
                self.exported.leave_out(table, left_out)
                if changed:
                    self.exported.left_out[f"{table} texts as they were before placeholders were escaped"] += 1
                yield table, row, record

    def _put(self, reference: str, data: bytes) -> None:
        """Write a picture, once. Its name is its digest: nothing that somebody wrote becomes a path."""
        if reference in self.places:
            return
        place = f"images/{reference.removeprefix('sha256:')}{_ENDINGS.get(sniff(data) or '', '')}"
        path = self.out / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        self.places[reference] = place

    def _fetch(self) -> None:
        """Write the pictures that rows only refer to, from the tables that embed them."""
        how = {table: entry["images"] for table, entry in self.tables.identity["tables"].items()}
        referring = [table for table in self.present if how[table] == "reference"]
        wanted = {image for table in referring for row in self.tables.rows(table) for image in row["images"]}

        def keep(reference: str, data: bytes) -> None:
            if reference in wanted:
                self._put(reference, data)

        for table in _ELSEWHERE:
            if how.get(table) == "embed" and wanted - self.places.keys():
                for _ in self.tables.rows(table, keep):
                    pass


_NOT_HERE = "its picture is referred to, and no table embeds it"
