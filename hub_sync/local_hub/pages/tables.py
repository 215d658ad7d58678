"""Rows of a dataset by configuration and split: counted in the files, beside what the card claims."""

from __future__ import annotations

from dataclasses import dataclass

from ..content import File
from .card import Config, claims, configs, matches
from .parquet_facts import row_counts
from .view import View

_MOST_COUNTED = 2000  # Parquet files of one revision
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Cell:
    """One split of one configuration. ``rows`` is None when a file of it could not be read."""

    files: int
    size: int  # bytes
    rows: int | None
    claimed: int | None

    @property
    def differs(self) -> bool:
        return self.claimed is not None and self.claimed != self.rows


@dataclass(frozen=True)
class Table:
    """``cells`` is by split; ``declared`` False for a folder of files that no card declares."""

    name: str
    default: bool
    cells: dict[str, Cell]
    declared: bool = True

    @property
    def size(self) -> int:
        return sum(cell.size for cell in self.cells.values())


@dataclass(frozen=True)
class Tables:
    """``splits`` are the columns of the overview, ``not_counted`` the files beyond the limit."""

    tables: list[Table]
    splits: list[str]
    not_counted: int

    @property
    def cells(self) -> list[Cell]:
        return [cell for table in self.tables for cell in table.cells.values()]

    @property
    def differing(self) -> int:
        return sum(cell.differs for cell in self.cells)

    @property
    def claimed(self) -> int:
        return sum(cell.claimed is not None for cell in self.cells)


def tables(view: View) -> Tables | None:
    """The overview of a dataset; None for other repositories and for a dataset without Parquet files."""
    if view.repo.type != "dataset":
        return None
    parquet = {path: file for path, file in view.files.items() if path.lower().endswith(".parquet")}
    head = view.card.head if view.card else {}
    if not parquet and not head.get("configs"):
        return None
    counted = dict(list(parquet.items())[:_MOST_COUNTED])
    rows = row_counts({file.digest: view.source(file) for file in counted.values()})
    by_path = {path: rows[file.digest] for path, file in counted.items()}
    claimed = claims(head)
    declared = configs(head)
    found = [_declared(config, counted, by_path, claimed) for config in declared] or _by_folder(counted, by_path)
    names = dict.fromkeys(split for table in found for split in table.cells)
    splits = sorted(names, key=lambda name: _SPLITS.index(name) if name in _SPLITS else len(_SPLITS))
    return Tables(found, splits, len(parquet) - len(counted))


def _declared(
    config: Config, files: dict[str, File], rows: dict[str, int | None], claimed: dict[tuple[str, str], int]
) -> Table:
    cells = {}
    for split, patterns in config.splits.items():
        paths = [path for path in files if any(matches(path, pattern) for pattern in patterns)]
        cells[split] = _cell(paths, files, rows, claimed.get((config.name, split)))
    return Table(config.name, config.default, cells)


def _by_folder(files: dict[str, File], rows: dict[str, int | None]) -> list[Table]:
    """Files that no card sorts: one line for each folder, a column for what their names say."""
    folders: dict[str, dict[str, list[str]]] = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        split = next((split for split in _SPLITS if split in name.lower()), "files")
        folders.setdefault(folder or "/", {}).setdefault(split, []).append(path)
    return [
        Table(name, False, {split: _cell(paths, files, rows, None) for split, paths in splits.items()}, declared=False)
        for name, splits in folders.items()
    ]


def _cell(paths: list[str], files: dict[str, File], rows: dict[str, int | None], claimed: int | None) -> Cell:
    known = [found for path in paths if (found := rows[path]) is not None]
    total = sum(known) if len(known) == len(paths) else None
    return Cell(len(paths), sum(files[path].size for path in paths), total, claimed)
