"""The rows of one table in two versions, matched by id and compared column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...schemas.arrow import arrow_type
from ...schemas.store import ID_FIELDS, load
from .arrays import integers
from .files import DataFile, Reader
from .flips import Flips
from .join import by_group, checked, join, keys
from .model import ChangedRow, Follows, Move, TableDiff
from .values import changes, holds_numbers, picked, same, unequal

if TYPE_CHECKING:
    import pyarrow as pa

Step = Callable[[int], None]  # told how many rows of after are done


class TableRows:
    """Compares the files that are not equal, and writes into ``out``. ``flips`` is filled by the labels and read by
    the tables behind them."""

    def __init__(
        self, table: str, before: Sequence[DataFile], after: Sequence[DataFile], out: TableDiff, flips: Flips,
        step: Step,
    ) -> None:  # fmt: skip
        self.table, self.before, self.after, self.out, self.flips, self.step = table, before, after, out, flips, step
        self.id = ID_FIELDS[table]
        self.properties = load(after[0].schema if after else before[0].schema)["properties"]
        self.follows = "label_id" in self.properties and self.id != "label_id"
        # The id is what rows are matched by, and provenance is outside the digest.
        self.compared = [
            name for name, node in self.properties.items() if name != self.id and not node.get("x-arm-provenance")
        ]
        self._readers: dict[str, Reader] = {}

    def run(self) -> None:
        """Raises ArmError when a file is not what its manifest says."""
        import pyarrow as pa

        columns = [self.id, "label_id"] if self.follows else [self.id]
        if self.follows:
            self.out.follows = Follows()
        try:
            places = {file.path: number for number, file in enumerate(self.before)}
            partners = {file.path: places.pop(file.path) for file in self.after if file.path in places}
            left_before, left_after = [], []
            for number, file in enumerate(self.after):
                found = keys(self.after, [number], columns)
                if file.path in partners:  # a row stands in the file of the same name, unless the shards are others
                    joined = join(keys(self.before, [partners[file.path]], columns), found)
                    self._compare(joined.pairs)
                    left_before.append(joined.only_before)
                    found = joined.only_after
                left_after.append(found)
                pa.default_memory_pool().release_unused()
            left_before += [keys(self.before, [number], columns) for number in places.values()]
            rest = [
                checked(pa.concat_tables(parts), self.id, files) if parts else None
                for parts, files in ((left_before, self.before), (left_after, self.after))
            ]
            del left_before, left_after
            self._unmatched(*rest)
        finally:
            for reader in self._readers.values():
                reader.close()

    def _unmatched(self, before: pa.Table | None, after: pa.Table | None) -> None:
        if before is not None and after is not None:
            joined = join(before, after)
            self._compare(joined.pairs)
            before, after = joined.only_before, joined.only_after
        for rows, files, kind in ((before, self.before, "removed"), (after, self.after, "added")):
            if rows is None:
                continue
            for entry in rows.column("file").value_counts().to_pylist():
                counts = self.out.splits[files[entry["values"]].split]
                setattr(counts, kind, getattr(counts, kind) + entry["counts"])
                if kind == "added":
                    self.step(entry["counts"])
            listed = getattr(self.out, kind)
            listed.add(rows.column(self.id).slice(0, listed.room).to_pylist(), len(rows))
            if self.out.follows:
                followed = getattr(self.out.follows, kind) + self.flips.count(rows.column("label_id"))
                setattr(self.out.follows, kind, followed)

    def _compare(self, pairs: pa.Table) -> None:
        for (new_file, new_group, old_file, old_group), old_rows, new_rows in by_group(pairs):
            old = _Part(self._reader("before", self.before[old_file]), old_group, old_rows)
            new = _Part(self._reader("after", self.after[new_file]), new_group, new_rows)
            self._pair(old, new)
            self.step(len(new_rows))

    def _pair(self, old: _Part, new: _Part) -> None:
        splits = old.file.split, new.file.split
        moved = splits[0] != splits[1]
        listed = self.out.moved if moved else self.out.changed
        differing: dict[str, list[int]] = {}
        values: dict[int, dict[str, tuple[Any, Any]]] = {}
        for name in self.compared:
            if moved and name == "split":
                continue
            before, after = old.column(name), new.column(name)
            places = unequal(before, after)
            if places and holds_numbers(arrow_type(self.properties[name], "reference")):
                places = [
                    p for p in places if not same(name, self.properties[name], before[p].as_py(), after[p].as_py())
                ]
            if places:
                differing[name] = places
            # Of the rows that are listed in the end, each is among the first of every column in which it differs.
            for place in places[: 0 if moved else listed.room]:
                values.setdefault(place, {})[name] = before[place].as_py(), after[place].as_py()
        self._note(old, new, differing, values)

    def _note(
        self, old: _Part, new: _Part, differing: dict[str, list[int]], values: dict[int, dict[str, tuple[Any, Any]]]
    ) -> None:
        out, split = self.out, new.file.split
        rows = sorted({place for places in differing.values() for place in places})
        if old.file.split == split:
            out.splits[split].changed += len(rows)
            out.splits[split].unchanged += len(new.rows) - len(rows)
            out.fields = dict(Counter(out.fields) + Counter({name: len(places) for name, places in differing.items()}))
            ids = new.column(self.id)
            shown = (ChangedRow(ids[p].as_py(), split, self._changes(values[p])) for p in rows)
            out.changed.add(shown, len(rows))
        else:
            out.splits[old.file.split].moved_out += len(new.rows)
            out.splits[split].moved_in += len(new.rows)
            out.moved.add(self._moves(old, new, differing), len(new.rows))
        if out.follows and rows:
            out.follows.changed += self.flips.count(new.column("label_id").take(integers(rows)))
        if self.table == "teacher_labels":
            verdicts = sorted({*differing.get("selected_index", ()), *differing.get("status", ())})
            self.flips.note(verdicts, old.column, new.column, new.file.path)

    def _moves(self, old: _Part, new: _Part, differing: dict[str, list[int]]) -> Iterator[Move]:
        sets = {name: set(places) for name, places in differing.items()}
        ids = new.column(self.id)
        for place in range(len(new.rows)):
            fields = sorted(name for name, places in sets.items() if place in places)
            yield Move(ids[place].as_py(), old.file.split, new.file.split, fields)

    def _changes(self, values: dict[str, tuple[Any, Any]]) -> list[Any]:
        return [change for name in sorted(values) for change in changes(name, *values[name])]

    def _reader(self, side: str, file: DataFile) -> Reader:
        """The open file of a side: one at a time."""
        reader = self._readers.get(side)
        if reader is None or reader.file is not file:
            if reader is not None:
                reader.close()
            reader = self._readers[side] = Reader(file)
        return reader


class _Part:
    """Some rows of one row group, column by column."""

    def __init__(self, reader: Reader, group: int, rows: pa.Array) -> None:
        self.file, self.rows = reader.file, rows
        self._reader, self._group = reader, group

    def column(self, name: str) -> pa.Array:
        return picked(self._reader.column(self._group, name), self.rows)
