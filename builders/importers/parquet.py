"""Tables of ours as Parquet, read as the records that the same rows would be as JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...schemas import arrow, jsonl
from ...schemas.built import built_rows
from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json
from ...schemas.store import TABLES, load
from ...schemas.validate import for_schema
from .tables import RECORDS

PROBLEMS = "problems"  # the one key of what stands for a row that is none: [[path, message], ...]
_BLOCK = 1 << 20


def records(
    path: Path, feed: Callable[[bytes], object] | None = None, table: str | None = None
) -> Iterator[jsonl.Line]:
    """Yield a line for each row of a file: the row's number (1-based), the bytes of its record, and where these begin
    in a file of all of them, each with a line end.

    A row that breaks the table's schema becomes an object with the key PROBLEMS. ``table`` says which table it must be;
    None takes any. ``feed`` gets every byte of the file before the first row. Raises ArmError for a file that is no
    Parquet, has other columns, lacks its pictures, is damaged, or expands beyond all measure.
    """
    import pyarrow as pa

    try:
        if feed:
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    feed(block)
        table = _table(path, table)
        yield from _lines(path, table)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise ArmError(f"cannot be read as Parquet: {error}") from error


def problems_of(record: Any) -> list[tuple[str, str]]:
    """What is wrong with the row that a record of `records` stands for; empty for a record."""
    return [(where, message) for where, message in record.get(PROBLEMS, ())]


def _lines(path: Path, table: str) -> Iterator[jsonl.Line]:
    validator, record_of = for_schema(TABLES[table]), RECORDS[table]
    pictures: dict[str, bytes] = {}
    offset = 0
    for number, row in enumerate(built_rows(path, TABLES[table], pictures.__setitem__), 1):
        problems = validator.problems(row)
        made = {PROBLEMS: problems} if problems else record_of(row, pictures.__getitem__)
        pictures.clear()
        line = canonical_json(made).encode()
        yield jsonl.Line(number, offset, line, True)
        offset += len(line) + 1


def _table(path: Path, wanted: str | None) -> str:
    """The table whose columns a file has. Raises ArmError when that is none, or another than ``wanted``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = pq.read_schema(path)
    columns = {table: set(load(TABLES[table])["properties"]) for table in RECORDS}
    fits = [table for table, names in columns.items() if set(found.names) == names]
    if wanted is not None and wanted not in fits:
        if fits:
            raise ArmError(f"has the columns of {fits[0]}, and is declared as {wanted}")
        names = columns[wanted]
        lacks, more = sorted(names - set(found.names)), sorted(set(found.names) - names)
        said = [f"lacks {', '.join(lacks)}"] * bool(lacks) + [f"has {', '.join(more)}, too"] * bool(more)
        raise ArmError(f"has not the columns of {wanted} ({TABLES[wanted]}): it {'; '.join(said)}")
    if not fits:
        raise ArmError(f"has the columns of no table that is read ({', '.join(columns)})")
    table = wanted or fits[0]
    for column, many in arrow.image_columns(TABLES[table]).items():
        kind = found.field(column).type
        if pa.types.is_string(kind.value_type if many else kind):
            raise ArmError(f"has only the hashes of its pictures in {column} (images: reference); they are not in it")
    return table
