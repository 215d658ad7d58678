"""The rows of `exclusions`: they have no id, so that two versions are compared as bags of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ...schemas.store import load
from .files import DataFile
from .model import ChangedRow, TableDiff
from .values import changes

_UNIT = ("stage", "source_table", "source_id")  # what was excluded; the rest says why
Row = tuple[str, ...]


def compare_bags(
    before: Sequence[DataFile], after: Sequence[DataFile], out: TableDiff, step: Callable[[int], None]
) -> None:
    """Compare the files that are not equal, and write into ``out``.

    A unit that is excluded once in both versions, for another reason or with another status, is a changed row; every
    other row that only one side has is added or removed.
    """
    properties = load((*before, *after)[0].schema)["properties"]
    names = [name for name, node in properties.items() if not node.get("x-arm-provenance")]
    for split in out.splits:
        sides = [{file.path: file for file in files if file.split == split} for files in (before, after)]
        left: Counter[Row] = Counter()  # after's count minus before's
        for path in sorted({*sides[0], *sides[1]}):  # file by file, so that only what differs is held longer
            own: Counter[Row] = Counter()
            if path in sides[0]:
                own.subtract(_rows(sides[0][path], names))
            if path in sides[1]:
                own.update(_rows(sides[1][path], names))
            for row, count in own.items():
                if count:
                    left[row] += count
            step(sides[1][path].rows if path in sides[1] else 0)
        _note(left, names, split, sum(file.rows for file in sides[1].values()), out)


def _rows(file: DataFile, names: list[str]) -> Iterator[Row]:
    rows = file.read(names)
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _note(left: Counter[Row], names: list[str], split: str, total: int, out: TableDiff) -> None:
    units: dict[Row, list[Row]] = {}
    for row in sorted(row for row, count in left.items() if count):
        units.setdefault(tuple(row[names.index(name)] for name in _UNIT), []).append(row)
    counts = out.splits[split]
    added = changed = 0
    for unit, found in units.items():
        if sorted(left[row] for row in found) == [-1, 1]:
            old, new = (dict(zip(names, row, strict=True)) for row in sorted(found, key=left.__getitem__))
            differing = list(changes("", old, new))
            for change in differing:
                out.fields[change.field] = out.fields.get(change.field, 0) + 1
            out.changed.add([ChangedRow(" ".join(unit), split, differing)], 1)
            changed += 1
            continue
        for row in found:
            count, listed = abs(left[row]), out.added if left[row] > 0 else out.removed
            listed.add([" ".join(row)] * min(count, listed.room), count)
            added += max(0, left[row])
            counts.removed += max(0, -left[row])
    counts.added += added
    counts.changed += changed
    counts.unchanged += total - added - changed
