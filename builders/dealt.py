"""What the partition dealt to one bucket: its index, and the records that it names, read again at their places."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ..schemas.ids import sha256_hex
from . import actors, redact
from .gathering import COPIED, Place
from .importers import IMPORTERS, Context, RowImporter
from .ledger import Row
from .spec import BuildSpec, SourceSpec
from .trajectory_pairs import Episode

Files = Sequence[tuple[str, Path, int]]  # (name, path, position of the source) in the partition's order


class Record(NamedTuple):
    """A candidate set, label or score of this bucket, read again at its place."""

    imported: Row
    declared: SourceSpec
    file: str
    line: int
    sha256: str
    place: tuple[int, int]  # (number of its file, offset)

    @property
    def source(self) -> Row:
        return {"file": self.file, "record_sha256": self.sha256}

    @property
    def content(self) -> bytes:
        """What makes two records of one id the same, however they were written."""
        return orjson.dumps([self.imported, self.declared.constants], option=orjson.OPT_SORT_KEYS)


class Dealt:
    """The records of one bucket. ``index`` is what its index file holds."""

    def __init__(self, spec: BuildSpec, folder: Path, files: Files, bucket: int) -> None:
        self._spec, self._folder, self._files = spec, folder, files
        self._stem = folder / f"bucket-{bucket:05d}"
        self._redaction = redact.of(spec)
        self.index: Row = orjson.loads(self._stem.with_suffix(".json").read_bytes())

    def states(self) -> Iterator[tuple[Row, Any]]:
        """(record of a state as it was copied, its picture's bytes or None)."""
        with ExitStack() as stack:
            rows = mapped(self._folder / "states.jsonl", stack)
            blobs = mapped(self._folder / "images.bin", stack)
            for offset, length in self.index["states"]:
                record = orjson.loads(rows[offset : offset + length])
                start, size = record["image"] or (0, 0)
                yield record, blobs[start : start + size] if record["image"] else None

    def ends(self, places: Sequence[Place]) -> list[Episode]:
        """The episodes whose last states stand there."""
        with ExitStack() as stack:
            rows = mapped(self._folder / "states.jsonl", stack)
            records = [orjson.loads(rows[offset : offset + length]) for offset, length in places]
        return [Episode(r["row"], self._spec.sources[r["declared"]].dialect or "") for r in records]

    def grouped(self, kind: str, key: str) -> dict[str, list[Record]]:
        grouped: dict[str, list[Record]] = {}
        for record in self._records(kind):
            grouped.setdefault(record.imported[key], []).append(record)
        return grouped

    def _records(self, kind: str) -> Iterator[Record]:
        index = array("q", self._stem.with_suffix(f".{kind}").read_bytes())
        with ExitStack() as stack:
            opened: dict[int, FileIO] = {}  # read, not mapped: mapped pages count as the worker's memory
            for place in range(0, len(index), 4):
                number, line, offset, length = index[place : place + 4]
                if number == COPIED:
                    (copied,) = self.copied([(offset, length)])
                    declared = self._spec.sources[copied["declared"]]
                    imported, source = copied["row"], copied["source"]
                    name, sha256 = source["file"], source["record_sha256"]
                else:
                    name, path, position = self._files[number]
                    declared = self._spec.sources[position]
                    if number not in opened:
                        opened[number] = stack.enter_context(path.open("rb", buffering=0))
                    opened[number].seek(offset)
                    raw = opened[number].read(length)
                    # The partition has read these bytes strictly; here they only have to be read again.
                    record = orjson.loads(raw)
                    if self._redaction:
                        record = self._redaction(record)
                    importer = IMPORTERS[declared.kind, declared.format]
                    assert isinstance(importer, RowImporter)
                    context = Context(declared.dialect or "", path.parent, declared.space, declared.constants)
                    imported, sha256 = importer.read(record, context), sha256_hex(raw)
                imported["set_id"] = actors.qualified(self._spec, declared, imported["set_id"])
                yield Record(imported, declared, name, line, sha256, (number, offset))

    def copied(self, places: Sequence[Place]) -> Iterator[Row]:
        """Records that the partition copied, with ``images`` as bytes; many show the same picture, held once."""
        pictures: dict[tuple[int, int], bytes] = {}
        with ExitStack() as stack:
            if places:
                rows = mapped(self._folder / "rows.jsonl", stack)
                blobs = mapped(self._folder / "images.bin", stack)
            for offset, length in places:
                record = orjson.loads(rows[offset : offset + length])
                for start, size in record["images"]:
                    if (start, size) not in pictures:
                        pictures[start, size] = blobs[start : start + size]
                yield record | {"images": [pictures[start, size] for start, size in record["images"]]}


def mapped(path: Path, stack: ExitStack) -> Any:
    """The bytes of a file, mapped; an empty file cannot be mapped and is just empty."""
    if path.stat().st_size == 0:
        return b""
    file = stack.enter_context(path.open("rb"))
    return stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
