"""Look into a file or folder and say what is there, so that `arm import` and `arm init --from` can write a registry that
builds.

Every decision rests on what the records hold, never on a file's name, and is told with its count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ..builders.importers import IMPORTERS, RowImporter, yields
from ..builders.importers.containers import records as records_of
from ..builders.spec import READY
from ..schemas import jsonl
from ..schemas.errors import ArmError, UsageError
from ..schemas.store import load
from ..schemas.validate import for_schema
from .files import is_file
from .spoken import Sample, Spoken

_ENDINGS = (".jsonl", ".json", ".parquet")  # of files that are read
_ALMOST = (".ndjson", ".jsonl", ".gz", ".zst")  # of files that may hold records, too
_SAMPLE = 50  # records that decide the kind of a file, and whose responses decide dialect and space
Progress = Callable[[str, int, int], None]  # (what, done, total); bytes


@dataclass(frozen=True)
class Sniffed:
    """One file of records: what they are, how many, how many of them are valid."""

    path: Path
    kind: str
    format: str
    records: int
    valid: int

    @property
    def yields(self) -> tuple[str, ...]:
        return yields(self.kind, self.format)

    @property
    def schema(self) -> str:
        return IMPORTERS[self.kind, self.format].schema


@dataclass
class Folder:
    """What a folder holds. ``skipped`` are (file, reason)."""

    sources: list[Sniffed] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    spoken: dict[str, Spoken] = field(default_factory=dict)  # format -> how its responses write actions
    text_only: bool = False  # no state in the sample has a screenshot
    tasks: int = 0  # distinct ones in the sample

    def of(self, *kinds: str) -> list[Sniffed]:
        return [source for source in self.sources if source.kind in kinds]


def sniff(place: Path, fmt: str | None = None, progress: Progress = lambda *_: None) -> Folder:
    """Return what ``place``, a file or a folder with its subfolders, holds; with ``fmt``, of that format only.

    Raises ArmError when there is no file of known records that a dataset can start from.
    """
    keys = [key for key in IMPORTERS if fmt in (None, key[1])]
    if not keys:
        known = ", ".join(sorted({name for _, name in IMPORTERS}))
        raise UsageError(f"no format {fmt!r}; there are {known}", next_command="arm import auto PATH")
    found = Folder()
    paths = list(_files(place, found))
    total, done = sum(path.stat().st_size for path in paths), 0
    ids: dict[Path, list[str]] = {}
    drawn: dict[Path, list[tuple[str, str]]] = {}
    for path in paths:
        source = _file(path, keys, ids, drawn, lambda offset, done=done: progress("looking", done + offset, total))
        done += path.stat().st_size
        if isinstance(source, str):
            found.skipped.append((path, source))
        else:
            found.sources.append(source)
    _drop_unjoinable(found, ids, drawn)
    order = list(IMPORTERS)
    found.sources.sort(key=lambda source: (order.index((source.kind, source.format)), source.path))
    if not any({"states", *READY} & set(source.yields) for source in found.sources):
        there = "".join(f"\n  {s.path.name}: {s.kind} as {s.format}, which nothing shows" for s in found.sources)
        skipped = there + "".join(f"\n  {path.name}: {why}" for path, why in found.skipped)
        known = ", ".join(f"{kind} as {name}" for kind, name in keys)
        raise ArmError(f"holds no trajectories in a known form ({known}){skipped}", where=str(place))
    sample = Sample()
    for source in found.sources:
        sample.take(source.path, source.kind, source.format, list(islice(_valid(source), _SAMPLE)))
    found.spoken, found.tasks, found.text_only = sample.spoken(), len(sample.tasks), sample.text_only
    return found


def _files(place: Path, found: Folder) -> Iterator[Path]:
    """The files to look at; what is passed over for its name, or because it was seen, goes to ``found.skipped``."""
    if not place.is_dir():
        if not is_file(place):
            raise ArmError("is no file or folder", where=str(place))
        if place.suffix.lower() not in _ENDINGS:
            raise ArmError(f"only {_listed(_ENDINGS)} are read; unpack or rename it", where=str(place))
        yield place
        return
    seen: dict[Path, Path] = {}
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        parts = path.relative_to(place).parts
        if any(part.startswith(".") for part in parts):
            continue
        if any((above / "manifest.json").is_file() for above in path.parents if place in above.parents):
            continue  # of a built directory, which is told at its manifest
        if path.name == "manifest.json" and path.parent != place and (path.parent / "data").is_dir():
            found.skipped.append((path.parent, "is a built directory; to import its tables, name it itself"))
        elif path.suffix not in _ENDINGS:
            if path.suffix.lower() in (*_ENDINGS, *_ALMOST):
                found.skipped.append((path, f"only {_listed(_ENDINGS)} are read; unpack or rename it"))
        elif not str(path).isprintable():
            found.skipped.append((path, "its name cannot be written into a registry; rename it"))
        elif (first := seen.setdefault(path.resolve(), path)) != path:
            found.skipped.append((path, f"is the same file as {first.name}"))
        else:
            yield path


def _listed(endings: Collection[str]) -> str:
    *most, last = (f"*{ending}" for ending in endings)
    return f"{', '.join(most)} and {last}"


def _file(
    path: Path, keys: list[tuple[str, str]], ids: dict[Path, list[str]], drawn: dict[Path, list[tuple[str, str]]],
    progress: Callable[[int], None],
) -> Sniffed | str:  # fmt: skip
    """What one file holds, or why it is skipped. ``ids`` gets the sets that its labels or scores name, ``drawn`` its
    sets as (id, state), of formats that are read in place."""
    try:
        sample, broken = [], 0
        for line in islice(records_of(path), _SAMPLE):
            try:
                sample.append(jsonl.loads_line(line))
            except jsonl.JsonError:
                broken += 1
        if not sample and not broken:
            return "holds no records"
        (kind, fmt), valid = max(((key, _fit(key, sample)) for key in keys), key=lambda item: item[1])
        if valid[0] * 2 < len(sample) + broken:
            count = sum(1 for _ in records_of(path))
            form = "no known form" if len({name for _, name in keys}) > 1 else f"another form than {keys[0][1]}"
            return f"{count:,} record{'s' if count > 1 else ''} of {form}{_nearest(keys, sample)}"
        return _counted(path, kind, fmt, ids, drawn, progress)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ArmError as error:
        return error.message


def _fit(key: tuple[str, str], sample: list[Any]) -> tuple[int, int, int]:
    """How well records have the form of an importer: how many are valid, then how much of them its schema names."""
    schema = load(IMPORTERS[key].schema)
    validator = for_schema(IMPORTERS[key].schema)
    valid = [record for record in sample if validator.is_valid(record)]
    declared = schema.get("properties", {})
    named = sum(name in declared for record in valid if isinstance(record, dict) for name in record)
    return len(valid), named, len(schema.get("required", ()))


def _nearest(keys: list[tuple[str, str]], sample: list[Any]) -> str:
    """The form that records nearly have, with what the first of them lacks; "" when they have none of it."""
    record = next((record for record in sample if isinstance(record, dict)), None)
    if record is None:
        return ""

    def share(key: tuple[str, str]) -> float:
        required = load(IMPORTERS[key].schema).get("required", ())
        return sum(name in record for name in required) / max(1, len(required))

    key = max(keys, key=share)
    if share(key) < 0.5:
        return ""
    where, message = for_schema(IMPORTERS[key].schema).problems(record)[0] if _problems(key, record) else ("$", "is it")
    return f"; the nearest is {key[0]} as {key[1]}: the first {where} {message}"


def _problems(key: tuple[str, str], record: Any) -> bool:
    return not for_schema(IMPORTERS[key].schema).is_valid(record)


def _counted(
    path: Path, kind: str, fmt: str, ids: dict[Path, list[str]], drawn: dict[Path, list[tuple[str, str]]],
    progress: Callable[[int], None],
) -> Sniffed:  # fmt: skip
    importer = IMPORTERS[kind, fmt]
    validator, records, valid = for_schema(importer.schema), 0, 0
    joined = isinstance(importer, RowImporter)
    for line in records_of(path):
        records += 1
        if not records & 1023:
            progress(line.offset)
        try:
            record = jsonl.loads_line(line)
        except jsonl.JsonError:
            continue
        if not validator.is_valid(record):
            continue
        valid += 1
        if joined and kind == "candidate_sets":
            drawn.setdefault(path, []).append(_named(record))
        elif joined:
            ids.setdefault(path, []).append(_named(record)[0])
    return Sniffed(path, kind, fmt, records, valid)


def _named(record: dict[str, Any]) -> tuple[str, str]:
    """(Id of the set, id of its state) as the record has them."""
    return str(record.get("set_id", record.get("state_id"))), str(record.get("base_state_id", record.get("state_id")))
