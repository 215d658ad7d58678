"""Look into a file or folder and say what is there, so that `arm import` and `arm init --from` can write a registry
that builds.

Every decision rests on what the records hold, never on a file's name, and is told with its count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ..builders.importers import IMPORTERS, Context, RowImporter, yields
from ..builders.importers.containers import records as records_of
from ..builders.spec import READY
from ..schemas import jsonl
from ..schemas.errors import ArmError, Issue, UsageError
from ..schemas.store import load
from ..schemas.validate import for_schema, nearest
from .files import is_file
from .spoken import Sample, Spoken

Key = tuple[str, str]  # (kind, format)
Progress = Callable[[str, int, int], None]  # (what, done, total); bytes
_ENDINGS = (".jsonl", ".json", ".parquet")  # of files that are read
_ALMOST = (".ndjson", ".gz", ".zst")  # of files that may hold records, too
_ONLY_READ = "only *.jsonl, *.json and *.parquet are read; unpack or rename it"
_SAMPLE = 50  # records that decide the kind of a file, and whose responses decide dialect and space


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

    Raises UsageError for an unknown format, ArmError when there is no file of known records that a dataset can start
    from.
    """
    keys = [key for key in IMPORTERS if fmt in (None, key[1])]
    if not keys:
        known = ["auto", *dict.fromkeys(name for _, name in IMPORTERS)]
        close = nearest(str(fmt), known)
        hint = f"did you mean {close}? " if close else ""
        raise UsageError(f"no format {fmt!r}; {hint}there are {', '.join(known)}")
    found = Folder()
    look = _Look(keys, progress)
    paths = list(_files(place, found))
    look.total = sum(path.stat().st_size for path in paths)
    for path in paths:
        source = look.at(path)
        if isinstance(source, str):
            found.skipped.append((path, source))
        else:
            found.sources.append(source)
    look.drop_unjoinable(found)
    order = list(IMPORTERS)
    found.sources.sort(key=lambda source: (order.index((source.kind, source.format)), source.path))
    if not any({"states", *READY} & set(source.yields) for source in found.sources):
        alone = [(s.path, f"{s.records:,} {s.kind}, and nothing that they are about") for s in found.sources]
        raise ArmError(
            f"holds no trajectories in a known form{f' as {fmt}' if fmt else ''}: no states, no episodes, no rows of "
            "training tables",
            where=str(place),
            issues=[Issue(path.name, 0, "$", why) for path, why in [*alone, *found.skipped]],
            next_command="arm import auto PATH   # recognises every format"
            if fmt
            else "arm import --help   # names the formats; docs/formats.md shows what their records look like",
        )
    sample = Sample()
    for source in found.sources:
        schema = IMPORTERS[source.kind, source.format].schema
        sample.take(source.path, (source.kind, source.format), list(islice(_valid(source.path, schema), _SAMPLE)))
    found.spoken = sample.spoken({source.format for source in found.sources})
    found.tasks, found.text_only = len(sample.tasks), sample.text_only
    return found


def _files(place: Path, found: Folder) -> Iterator[Path]:
    """The files to look at; what is passed over for its name, or because it was seen, goes to ``found.skipped``."""
    if not place.is_dir():
        if not is_file(place):
            raise ArmError("is no file or folder", where=str(place))
        if place.suffix not in _ENDINGS:
            raise ArmError(_ONLY_READ, where=str(place))
        yield place
        return
    if (place / "manifest.json").is_file() and (place / "data").is_dir():  # a built directory: its tables
        place = place / "data"
    seen: dict[Path, Path] = {}
    builds = {path.parent for path in place.rglob("manifest.json") if (path.parent / "data").is_dir()} - {place}
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        if any(part.startswith(".") for part in path.relative_to(place).parts):
            continue
        if builds & set(path.parents):
            if path.name == "manifest.json" and path.parent in builds:
                found.skipped.append((path.parent, "is a built directory; name it itself to import its tables"))
        elif path.suffix not in _ENDINGS:
            if path.suffix.lower() in (*_ENDINGS, *_ALMOST):
                found.skipped.append((path, _ONLY_READ))
        elif not str(path).isprintable():
            found.skipped.append((path, "its name cannot be written into a registry; rename it"))
        elif (first := seen.setdefault(path.resolve(), path)) != path:
            found.skipped.append((path, f"is the same file as {first.name}"))
        else:
            yield path


class _Look:
    """Looks at one file after another."""

    def __init__(self, keys: list[Key], progress: Progress) -> None:
        self.keys, self.progress = keys, progress
        self.total = self.done = 0  # bytes
        self.sets: set[str] = set()  # ids of candidate sets, in files that are read in place
        self.states: set[str] = set()  # ids of the states that they are of
        self.about: dict[Path, list[str]] = {}  # the sets that labels or scores of a file name

    def at(self, path: Path) -> Sniffed | str:
        """What a file holds, or why it is skipped."""
        try:
            sample, broken, torn = [], 0, ""
            for line in islice(records_of(path), _SAMPLE):
                try:
                    sample.append(jsonl.loads_line(line))
                except jsonl.JsonError as error:
                    broken, torn = broken + 1, torn or f"; {error}, in line {line.number:,}"
            if not sample and not broken:
                return "holds no records"
            key = max(self.keys, key=lambda key: _fit(key, sample))
            if _fit(key, sample)[0] * 2 >= len(sample) + broken:
                return self._counted(path, key)
            count = sum(1 for _ in records_of(path))
            form = "another form" if len(self.keys) < len(IMPORTERS) else "no known form"
            return f"{count:,} record{'s' if count > 1 else ''} of {form}{self._nearest(sample) if sample else torn}"
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        except ArmError as error:
            return error.message
        finally:
            self.done += path.stat().st_size

    def _nearest(self, sample: list[Any]) -> str:
        """The form that records nearly have, and what keeps the first of them from it; "" when they have none."""
        record = next((record for record in sample if isinstance(record, dict)), {})

        def share(key: Key) -> float:
            required = load(IMPORTERS[key].schema).get("required", ())
            return sum(name in record for name in required) / max(1, len(required))

        key = max(self.keys, key=share)
        problems = for_schema(IMPORTERS[key].schema).problems(record)
        if share(key) <= 0.5 or not problems:
            return ""
        return f"; nearest is {key[0]} as {key[1]}, and the first record {' '.join(problems[0])}"

    def _counted(self, path: Path, key: Key) -> Sniffed:
        importer, records, valid = IMPORTERS[key], 0, 0
        validator = for_schema(importer.schema)
        context = Context("function", path.parent)
        for line in records_of(path):
            records += 1
            if not records & 1023:
                at = min(self.done + line.offset, self.total)  # rows of Parquet are longer than their file
                self.progress("looking", at, self.total)
            try:
                record = jsonl.loads_line(line)
            except jsonl.JsonError:
                continue
            if not validator.is_valid(record):
                continue
            valid += 1
            if isinstance(importer, RowImporter) and key[1] != "table":  # ids of tables are complete
                try:
                    self._join(path, key[0], importer.read(record, context))
                except ArmError:
                    valid -= 1
        return Sniffed(path, *key, records, valid)

    def _join(self, path: Path, kind: str, row: dict[str, Any]) -> None:
        if kind == "candidate_sets":
            self.sets.add(row["set_id"])
            self.states.add(row["state_id"])
        else:
            self.about.setdefault(path, []).append(row["set_id"])

    def drop_unjoinable(self, found: Folder) -> None:
        """Labels and scores that name no candidate set (because they lack the draw) cannot be joined: left out."""
        # Sets that come with something else are not looked into here.
        unseen = {s.format for s in found.sources if s.kind != "candidate_sets" and "candidate_sets" in s.yields}
        for source in [s for s in found.sources if s.path in self.about and s.format not in unseen]:
            ids = self.about[source.path]
            joined = sum(i in self.sets for i in ids)
            bare = sum(i in self.states and i not in self.sets for i in ids)
            if joined * 2 < len(ids):
                found.sources.remove(source)
                what = "labels" if source.kind == "teacher_labels" else "scores"
                why = f"only {joined:,} of {len(ids):,} {what} name a candidate set"
                found.skipped.append((source.path, f"{why}; they lack the draw" if bare else f"{why} that is here"))
            elif bare:  # a build refuses each of these
                found.sources[found.sources.index(source)] = replace(source, valid=source.valid - bare)


def _fit(key: Key, sample: list[Any]) -> tuple[int, int]:
    """How well records have the form of an importer: how many are valid, and how many of their fields it names. Of two
    forms that fit equally well, the first of IMPORTERS is taken."""
    known = load(IMPORTERS[key].schema).get("properties", {})
    validator = for_schema(IMPORTERS[key].schema)
    valid = [record for record in sample if validator.is_valid(record)]
    return len(valid), sum(name in known for record in valid if isinstance(record, dict) for name in record)


def _valid(path: Path, schema: str) -> Iterator[dict[str, Any]]:
    """The valid records of a file."""
    validator = for_schema(schema)
    for line in records_of(path):
        try:
            record = jsonl.loads_line(line)
        except jsonl.JsonError:
            continue
        if validator.is_valid(record):
            yield record
