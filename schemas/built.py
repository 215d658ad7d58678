"""The rows of a built directory, read back in JSON form: what cards, exports, checks and the gallery start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import arrow, digests
from .errors import ArmError
from .ids import sha256_hex
from .manifest import is_safe_path, manifest_of
from .parquet import refuse_expanding
from .store import ID_FIELDS, TABLES
from .validate import for_schema

Row = dict[str, Any]
Keep = Callable[[str, bytes], object]
_BATCH = 16  # rows; pictures make rows large


@dataclass(frozen=True)
class BuiltTables:
    """The tables of a built directory, a few rows at a time. ``progress`` is called with (what, done, total)."""

    folder: Path
    identity: dict[str, Any]
    progress: Callable[[str, int, int], None] = lambda *_: None
    doing: str = "reading"  # what the progress is called

    @classmethod
    def of(cls, folder: Path, progress: Callable[[str, int, int], None], doing: str) -> BuiltTables:
        """The tables of the build in ``folder``. Raises ArmError for a folder that is none."""
        return cls(folder, manifest_of(folder)["identity"], progress, doing)

    def has(self, table: str) -> bool:
        return table in self.identity["tables"]

    def rows(self, table: str, keep: Keep = lambda *_: None) -> Iterator[Row]:
        """Yield the rows of a table; ``keep`` gets (reference, bytes) of each embedded picture before its row comes.

        Raises ArmError for a table of another version of its schema, and for a file that is missing, damaged or holds
        other rows than its schema allows.
        """
        import pyarrow as pa

        entry = self.identity["tables"][table]
        schema = TABLES[table]
        if entry["schema"] != schema:
            raise ArmError(f"{table} is {entry['schema']}, and this version knows {schema}", where=str(self.folder))
        validator, done = for_schema(schema), 0
        for part in entry["splits"].values():
            for file in part["files"]:
                try:
                    path = self._file(file["path"])
                    for row in built_rows(path, schema, keep):
                        if not validator.is_valid(row):
                            where, message = validator.problems(row)[0]
                            raise ArmError(f"row {row.get(ID_FIELDS.get(table, ''))!r} {where} {message}")
                        yield row
                        done += 1
                        self.progress(self.doing, done, entry["rows"])
                except (ArmError, OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
                    told = error.message if isinstance(error, ArmError) else f"cannot be read: {error}"
                    raise ArmError(
                        told, where=str(self.folder / file["path"]), next_command=f"arm validate {self.folder}"
                    ) from error

    def _file(self, name: str) -> Path:
        path = self.folder / name
        if not is_safe_path(name) or self.folder.resolve() not in path.resolve().parents:
            raise ArmError("does not lie in the build")
        return path


def built_rows(path: Path, schema_name: str, keep: Keep = lambda *_: None) -> Iterator[Row]:
    """Yield the rows of one Parquet file in JSON form: pictures as ``sha256:<hex>`` of their bytes.

    ``keep`` gets each embedded picture, as (reference, bytes), before the row that shows it comes. Raises ValueError
    for a file that expands beyond all measure.
    """
    import pyarrow.parquet as pq

    refuse_expanding(path)
    pictures = arrow.image_columns(schema_name)
    # Pages are read as they are needed, one column after another: a row group with its copies would be 100 MB more.
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
        for batch in file.iter_batches(_BATCH, use_threads=False):
            for row in batch.to_pylist():
                for column, many in pictures.items():
                    value = row[column]
                    row[column] = [_reference(v, keep) for v in value] if many else _reference(value, keep)
                yield row


def row_digest(path: Path, schema_name: str) -> str:
    """The digest over the rows of one Parquet file, as a manifest has it. Raises what a damaged file raises."""
    codec = digests.for_schema(schema_name)
    return digests.combine(codec.digest(row) for row in built_rows(path, schema_name))


def _reference(value: Any, keep: Keep) -> str | None:
    """``{"bytes", "path"}`` -> ``sha256:<hex>``; a referenced picture is that already."""
    if value is None or isinstance(value, str):
        return value
    reference = f"sha256:{sha256_hex(value['bytes'])}"
    keep(reference, value["bytes"])
    return reference
