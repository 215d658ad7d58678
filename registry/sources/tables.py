"""A table of a built directory as JSON Lines that depend on its rows alone: not on files, versions or machines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...builders.gathering import Progress
from ...builders.importers import RECORDS
from ...schemas import digests
from ...schemas.built import built_rows
from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json
from ...schemas.store import ID_FIELDS, TABLES
from ...schemas.validate import for_schema


def write_table(manifest: Mapping[str, Any], folder: Path, kind: str, out: Path, where: str, progress: Progress) -> int:
    """Write the rows of the table ``kind`` to ``out``, sorted by id, and return their number.

    Rows go to a temporary file beside ``out`` as they come and are sorted by their places, so that memory holds ids
    and no rows. Raises ArmError when the build has no such table, not its pictures, or other rows than it says.
    """
    identity = manifest["identity"]
    table = identity["tables"].get(kind)
    if table is None or kind not in RECORDS:
        raise ArmError(f"has no table {kind}; it has {', '.join(identity['tables'])}", where=where)
    if table["schema"] != TABLES[kind]:
        message = f"{kind} has rows of {table['schema']!r}, and this version reads {TABLES[kind]}"
        raise ArmError(message, where=where, next_command="pip install --upgrade action-reward-models")
    if table["images"] == "reference":
        raise ArmError(
            f"{kind} has only the hashes of its pictures (images: reference); they are not in it", where=where
        )
    with tempfile.TemporaryFile(dir=out.parent) as spill:
        places: list[tuple[str, bytes, int, int]] = []  # row id, row digest, offset and length of its line
        for split in table["splits"].values():
            for file in split["files"]:
                own = len(places)
                for row_id, digest, line in _lines(folder, file["path"], kind, where):
                    places.append((row_id, digest, spill.tell(), len(line)))
                    spill.write(line)
                if digests.combine(digest for _, digest, *_ in places[own:]) != file["row_digest"]:
                    raise ArmError(f"{file['path']} holds other rows than the manifest says", where=where)
                progress(f"reading {kind}", len(places), table["rows"])
        if digests.combine(digest for _, digest, *_ in places) != table["row_digest"]:
            raise ArmError(f"the table {kind} holds other rows than the manifest says", where=where)
        places.sort()
        with out.open("wb") as lines:
            for _, _, offset, length in places:
                spill.seek(offset)
                lines.write(spill.read(length))
    return len(places)


def _lines(folder: Path, name: str, kind: str, where: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield (row id, row digest, line) of one Parquet file."""
    import pyarrow as pa

    validator, codec = for_schema(TABLES[kind]), digests.for_schema(TABLES[kind])
    pictures: dict[str, bytes] = {}
    try:
        for row in built_rows(folder / name, TABLES[kind], pictures.__setitem__):
            if not validator.is_valid(row):
                problems = "; ".join(" ".join(problem) for problem in validator.problems(row)[:3])
                raise ArmError(f"{name} holds a row that is none of {kind}: {problems}", where=where)
            line = canonical_json(RECORDS[kind](row, pictures.__getitem__)).encode() + b"\n"
            pictures.clear()
            yield row[ID_FIELDS[kind]], codec.digest(row), line
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:  # damage, columns of other types
        raise ArmError(f"{name} cannot be read: {error}", where=where) from error
