"""Secrets and addresses in a built directory, each with its file, row and field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.errors import Issue
from ..schemas.parquet import refuse_expanding
from ..schemas.secrets import Finding, findings
from ..schemas.store import ID_FIELDS
from ..schemas.validate import json_path

if TYPE_CHECKING:
    import pyarrow as pa

MAX_SHOWN = 200  # findings of one file that are listed; the others are counted
_BATCH = 64  # rows; pictures are not read
_LONGEST_ID = 80  # characters of it that are shown
# Copied from a base model: words by the hundred thousand, of which some look like keys. Weights have no words.
_WORDS = ("tokenizer.json", "vocab.json", "merges.txt")
_PERSONS = frozenset({"README.md"})  # who writes an address there means it to be read
Step = tuple[str | int, ...]


def scan(folder: Path, files: Sequence[str], progress: Callable[[str, int, int], None]) -> tuple[list[Issue], ...]:
    """(Findings, issues of files that could not be read) in ``files``: rows of Parquet files, lines of all others.

    Every string column is read, with what lies in lists and structs; JSON inside a string is read as text. A finding
    says row, id and field; its message says the kind and a masked form, never the secret.
    """
    import pyarrow as pa

    found: list[Issue] = []
    broken: list[Issue] = []
    for done, name in enumerate(files):
        progress("looking for secrets", done, len(files))
        if name in _WORDS or name.endswith(".safetensors"):
            continue
        places = (
            _in_rows(folder / name, Path(name).parent.name) if name.endswith(".parquet") else _in_lines(folder / name)
        )
        left: Counter[str] = Counter()
        shown = 0
        try:
            for line, place, finding in places:
                if finding.kind == "e-mail address" and name in _PERSONS:
                    continue
                if shown < MAX_SHOWN:
                    found.append(Issue(name, line, place, f"holds {finding}"))
                    shown += 1
                else:
                    left[finding.kind] += 1
        except (OSError, ValueError, pa.ArrowException) as error:
            broken.append(Issue(name, 0, "$", f"cannot be searched for secrets: {error}"))
        found += [Issue(name, 0, "$", f"holds {n:,} more of the kind {kind}") for kind, n in sorted(left.items())]
    progress("looking for secrets", len(files), len(files))
    pa.default_memory_pool().release_unused()  # what comes next is the upload, which needs memory of its own
    return found, broken


def _in_lines(path: Path) -> Iterator[tuple[int, str, Finding]]:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:  # a picture
        return
    line, before = 1, 0
    for finding in findings(text):
        line += text.count("\n", before, finding.start)
        before = finding.start
        yield line, "$", finding


def _in_rows(path: Path, table: str) -> Iterator[tuple[int, str, Finding]]:
    """The findings of a Parquet file of ``table``; a place is the row (0-based), its id, and the field's JSON path."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:  # pages as they are needed
        columns = [field.name for field in file.schema_arrow if _is_text(field.type)]
        refuse_expanding(path, columns)
        number = 0
        for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
            known: dict[str, list[Finding]] = {}
            for row in batch.to_pylist():
                for step, text in _strings(row, ()):
                    if text not in known:
                        known[text] = list(findings(text))
                    for finding in known[text]:
                        yield 0, f"row {number}{_named(row, table)} {json_path(step)}", finding
                number += 1


def _named(row: dict[str, Any], table: str) -> str:
    """The id of a row, unless it holds what must not be shown."""
    field = ID_FIELDS.get(table, "source_id")
    row_id = row.get(field)
    if not isinstance(row_id, str) or any(findings(row_id)):
        return ""
    return f" ({field} {row_id if len(row_id) <= _LONGEST_ID else f'{row_id[: _LONGEST_ID - 1]}…'})"


def _is_text(kind: pa.DataType) -> bool:
    """Whether strings are in it; a picture has a path, too, and is left out for its bytes."""
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_text(kind.value_type)
    if pa.types.is_struct(kind):
        inner = [field.type for field in kind]
        return not any(map(pa.types.is_binary, inner)) and any(map(_is_text, inner))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _strings(value: Any, path: Step) -> Iterator[tuple[Step, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings(inner, (*path, index))
