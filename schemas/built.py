"""The rows of a built directory, read back in JSON form: what cards, exports, checks and the gallery start from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import arrow, digests
from .errors import ArmError
from .ids import file_sha256, sha256_hex
from .manifest import is_safe_path, manifest_of
from .parquet import refuse_expanding
from .store import ID_FIELDS, TABLES, load
from .validate import for_schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Row = dict[str, Any]
Keep = Callable[[str, bytes], object]
_BATCH = 16  # rows; pictures make rows large
_LIGHT_BATCH = 1024  # rows of which a few columns are read


@dataclass(frozen=True)
class BuiltTables:
    """The tables of a built directory, a few rows at a time. ``progress`` is called with (what, done, total).

    fetch: gives a file of the manifest, for a build whose files are not in ``folder``; that is its name then.
    check: the command that finds all that is wrong with it. [`arm validate FOLDER`]
    hashes: of the bytes of files; one that has others is refused before it is read.
    """

    folder: Path
    identity: dict[str, Any]
    progress: Callable[[str, int, int], None] = lambda *_: None
    doing: str = "reading"  # what the progress is called
    fetch: Callable[[str], Path] | None = None
    check: str | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)  # files that were found to have theirs

    @classmethod
    def of(
        cls, folder: Path, progress: Callable[[str, int, int], None], doing: str, *, hashed: bool = False
    ) -> BuiltTables:
        """The tables of the build in ``folder``. ``hashed``: only with the bytes that its manifest names, which takes
        one more pass over each file. Raises ArmError for a folder that is no build."""
        manifest = manifest_of(folder)
        files = manifest["environment"]["files"] if hashed else {}
        hashes = {name: str(entry["sha256"]) for name, entry in files.items()}
        return cls(folder, manifest["identity"], progress, doing, hashes=hashes)

    def has(self, table: str) -> bool:
        return table in self.identity["tables"]

    def of_split(self, split: str, *names: str) -> BuiltTables:
        """The same build, of which the tables ``names`` hold one split only; without a name all but exclusions, which
        belong to no split."""
        tables = dict(self.identity["tables"])
        for name in names or tables.keys() - {"exclusions"}:
            held = {of: part for of, part in tables[name]["splits"].items() if of == split}
            tables[name] = {**tables[name], "splits": held, "rows": sum(part["rows"] for part in held.values())}
        return replace(self, identity={**self.identity, "tables": tables})

    def rows(self, table: str, keep: Keep = lambda *_: None) -> Iterator[Row]:
        """Yield the rows of a table; ``keep`` gets (reference, bytes) of each embedded picture before its row comes.

        Raises ArmError for a table of another version of its schema, and for a file that is missing, damaged or holds
        other rows than its schema allows.
        """
        return self._read(table, lambda path, schema: _checked(built_rows(path, schema, keep), table))

    def columns(
        self, table: str, names: Collection[str], among: tuple[str, Container[str]] | None = None
    ) -> Iterator[Row]:
        """Yield these columns of every row of a table, and read no other; only their types are checked.

        among: (column, wanted values), to skip the rows that have none of them; row groups with none are not read.
        """
        return self._read(table, lambda path, schema: _columns(path, schema, list(names), among))

    def some(self, table: str, column: str, wanted: Container[str], keep: Keep = lambda *_: None) -> Iterator[Row]:
        """Yield the rows whose ``column`` is one of ``wanted``, like `rows`; row groups with none are not read."""
        return self._read(table, lambda path, schema: _checked(_some(path, schema, column, wanted, keep), table))

    def _read(self, table: str, rows: Callable[[Path, str], Iterator[Row]]) -> Iterator[Row]:
        """What ``rows`` yields of each file of a table; what is wrong with a file names it."""
        import pyarrow as pa

        entry = self.identity["tables"][table]
        schema, before = TABLES[table], 0
        if entry["schema"] != schema:
            raise ArmError(f"{table} is {entry['schema']}, and this version knows {schema}", where=str(self.folder))
        for file in (file for part in entry["splits"].values() for file in part["files"]):
            path = self._file(file["path"])
            try:
                for done, row in enumerate(rows(path, schema), before + 1):
                    yield row
                    self.progress(self.doing, done, entry["rows"])
            except (ArmError, OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
                told = error.message if isinstance(error, ArmError) else f"cannot be read: {error}"
                raise self._wrong(file["path"], told) from error
            before += file["rows"]
            self.progress(self.doing, before, entry["rows"])

    def _file(self, name: str) -> Path:
        if self.fetch is not None:
            return self.fetch(name)
        path = self.folder / name
        if not is_safe_path(name) or self.folder.resolve() not in path.resolve().parents:
            raise self._wrong(name, "does not lie in the build")
        if name in self.hashes and name not in self._known:
            if path.is_file() and file_sha256(path) != self.hashes[name]:
                raise self._wrong(name, "is not the file that the manifest names")
            self._known.add(name)
        return path

    def _wrong(self, file: str, told: str) -> ArmError:
        check = self.check or f"arm validate {self.folder}"
        return ArmError(told, where=str(self.folder / file), next_command=check)


def built_rows(path: Path, schema_name: str, keep: Keep = lambda *_: None) -> Iterator[Row]:
    """Yield the rows of one Parquet file in JSON form: pictures as ``sha256:<hex>`` of their bytes.

    ``keep`` gets each embedded picture, as (reference, bytes), before the row that shows it comes. Raises ValueError
    for a file that expands beyond all measure.
    """
    import pyarrow.parquet as pq

    refuse_expanding(path)
    # Pages are read as they are needed, one column after another: a row group with its copies would be 100 MB more.
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
        for batch in file.iter_batches(_BATCH, use_threads=False):
            yield from _json_rows(batch.to_pylist(), schema_name, keep)


def _some(path: Path, schema_name: str, column: str, wanted: Container[str], keep: Keep) -> Iterator[Row]:
    """The rows of one file whose ``column`` is one of ``wanted``. Only they become Python objects."""
    import pyarrow.parquet as pq

    refuse_expanding(path, [column])
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
        hits = _hits(file, column, wanted)
        if hits:
            refuse_expanding(path)
        for group, places in hits.items():
            start = 0
            for batch in file.iter_batches(_BATCH, row_groups=[group], use_threads=False):
                here = [place - start for place in places if start <= place < start + batch.num_rows]
                for place in here:
                    yield from _json_rows(batch.slice(place, 1).to_pylist(), schema_name, keep)
                start += batch.num_rows


def _hits(file: pq.ParquetFile, column: str, wanted: Container[str]) -> dict[int, list[int]]:
    """Row group -> places in it of the rows whose ``column`` is one of ``wanted``; groups without any are left out."""
    hits = {}
    for group in range(file.num_row_groups):
        values = file.read_row_group(group, columns=[column], use_threads=False).column(column).to_pylist()
        if places := [place for place, value in enumerate(values) if value in wanted]:
            hits[group] = places
    return hits


def _columns(
    path: Path, schema_name: str, names: list[str], among: tuple[str, Container[str]] | None = None
) -> Iterator[Row]:
    import pyarrow.parquet as pq

    refuse_expanding(path, [*names, among[0]] if among else names)
    types, known = arrow.arrow_schema(schema_name), load(schema_name)["properties"]
    full = [name for name in names if "null" not in known[name]["type"]]
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
        for name in names:
            if name not in file.schema_arrow.names:
                raise ValueError(f"it has no column {name}")
            if (found := file.schema_arrow.field(name).type) != types.field(name).type:
                raise ValueError(f"its column {name} holds {found}, not {types.field(name).type}")
        for batch in _light(file, names, among):
            if empty := [name for name in full if batch.column(name).null_count]:
                raise ValueError(f"its column {empty[0]} holds null")
            yield from batch.to_pylist()


def _light(
    file: pq.ParquetFile, names: list[str], among: tuple[str, Container[str]] | None
) -> Iterator[pa.RecordBatch]:
    """The columns ``names`` of all rows, or of those that are ``among`` the wanted ones."""
    if among is None:
        yield from file.iter_batches(_LIGHT_BATCH, columns=names, use_threads=False)
        return
    for group, places in _hits(file, *among).items():
        start = 0
        for batch in file.iter_batches(_LIGHT_BATCH, row_groups=[group], columns=names, use_threads=False):
            here = [place - start for place in places if start <= place < start + batch.num_rows]
            if here:
                yield batch.take(here)
            start += batch.num_rows


def _json_rows(rows: list[Row], schema_name: str, keep: Keep) -> Iterator[Row]:
    """Rows as Arrow has them with references in the place of pictures, which go to ``keep``."""
    pictures = arrow.image_columns(schema_name)
    for row in rows:
        for column, many in pictures.items():
            value = row[column]
            row[column] = [_reference(v, keep) for v in value] if many else _reference(value, keep)
        yield row


def _checked(rows: Iterator[Row], table: str) -> Iterator[Row]:
    """The rows, each held against the schema of its table."""
    validator = for_schema(TABLES[table])
    for row in rows:
        if not validator.is_valid(row):
            where, message = validator.problems(row)[0]
            raise ArmError(f"row {row.get(ID_FIELDS.get(table, ''))!r} {where} {message}")
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
