"""Look into a folder of trajectories and say what is there, so that `arm init --from` can write a registry that builds.

Every decision rests on what the records hold, never on a file's name, and is told with its count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ..builders.importers import IMPORTERS, STATES, Context, ImportedState
from ..schemas import jsonl
from ..schemas.actions import DIALECTS, SPACES, Parsed, parse
from ..schemas.errors import ArmError
from ..schemas.images import ImageChecker, ImageError
from ..schemas.validate import for_schema

_ALMOST = (".json", ".ndjson", ".jsonl", ".gz", ".zst", ".parquet")  # endings of files that may hold records, too
_SAMPLE = 50  # records that decide the kind of a file, and whose responses decide dialect and space
# What the dialect's own actors write; all others write pixels.
_DEFAULT_SPACE = {"openwebrl": "norm1000", "qwen_xml": "norm1000", "molmoweb_json": "norm1000"}
_RAW = [key for key in IMPORTERS if key[1] != "table"]  # tables come from a dataset that a registry names


@dataclass(frozen=True)
class Sniffed:
    """One file of records: what they are, how many, how many of them are valid."""

    path: Path
    kind: str
    format: str
    records: int
    valid: int


@dataclass
class Folder:
    """What a folder holds. ``skipped`` are (file, reason)."""

    sources: list[Sniffed] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    dialect: str = "function"
    dialect_share: float = 0.0  # of the sampled responses that the dialect can read
    space: str = "pixel"
    text_only: bool = False  # no state in the sample has a screenshot
    tasks: int = 0

    def of(self, *kinds: str) -> list[Sniffed]:
        return [source for source in self.sources if source.kind in kinds]


def sniff(folder: Path) -> Folder:
    """Return what ``folder`` (and its subfolders) holds. Raises ArmError when there is no file of known records."""
    if not folder.is_dir():
        raise ArmError("is no folder", where=str(folder))
    found = Folder()
    seen: dict[Path, Path] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        if path.suffix != ".jsonl":
            if path.suffix.lower() in _ALMOST:
                found.skipped.append((path, "only *.jsonl is read; unpack or rename it"))
            continue
        if not str(path).isprintable():
            found.skipped.append((path, "its name cannot be written into a registry; rename it"))
            continue
        if (first := seen.setdefault(path.resolve(), path)) != path:
            found.skipped.append((path, f"is the same file as {first.name}"))
            continue
        source = _file(path)
        if isinstance(source, str):
            found.skipped.append((path, source))
        else:
            found.sources.append(source)
    _drop_unjoinable_labels(found)
    order = list(dict.fromkeys(kind for kind, _ in _RAW))
    found.sources.sort(key=lambda source: (order.index(source.kind), source.path))
    if not found.of("episodes", "states"):
        skipped = "".join(f"\n  {path.name}: {why}" for path, why in found.skipped)
        known = ", ".join(f"{kind} as {fmt}" for kind, fmt in _RAW)
        raise ArmError(f"holds no trajectories in a known form ({known}){skipped}", where=str(folder))
    _responses(found)
    return found


def _file(path: Path) -> Sniffed | str:
    """What one file holds, or why it is skipped."""
    sample, broken, records = [], 0, 0
    try:
        for line in jsonl.read_lines(path):
            records += 1
            if records <= _SAMPLE:
                try:
                    sample.append(jsonl.loads_line(line))
                except jsonl.JsonError:
                    broken += 1
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not records:
        return "holds no records"
    fits = {key: sum(for_schema(IMPORTERS[key].schema).is_valid(r) for r in sample) for key in _RAW}
    (kind, fmt), valid = max(fits.items(), key=lambda item: item[1])
    if valid * 2 < len(sample) + broken:
        return f"{records:,} record{'s' if records > 1 else ''} of no known form"
    return Sniffed(path, kind, fmt, records, sum(1 for _ in _valid(path, IMPORTERS[kind, fmt].schema)))


def _drop_unjoinable_labels(found: Folder) -> None:
    """Labels that name no candidate set (because they lack the draw) cannot be joined and are left out."""
    sets, states = set(), set()
    for record in (record for source in found.of("candidate_sets") for record in _records(source)):
        sets.add(record["state_id"])
        states.add(record["base_state_id"])
    for source in found.of("teacher_labels"):
        ids = [r["state_id"] for r in _records(source)]
        joined = sum(i in sets for i in ids)
        if joined * 2 < len(ids):
            found.sources.remove(source)
            why = f"only {joined:,} of {len(ids):,} labels name a candidate set; they lack the draw"
            found.skipped.append((source.path, why))
        elif broken := sum(i in states and i not in sets for i in ids):  # a build refuses each of these
            found.sources[found.sources.index(source)] = replace(source, valid=source.valid - broken)


def _responses(found: Folder) -> None:
    """Choose dialect and space by what the responses hold, and count tasks."""
    responses: list[str] = []
    sizes: list[tuple[int, int]] = []
    tasks: set[str] = set()
    pictured = False
    for source in found.of("episodes", "states"):
        for record in islice(_records(source), _SAMPLE):
            for state in _states(source, record):
                tasks.add(state.row["task_group"])
                responses += [state.row["demo_response"]] if state.row["demo_response"] else []
                if state.image is not None:
                    pictured = True
                    sizes += _size(state.image)
    for source in found.of("candidate_sets"):
        responses += [r for record in islice(_records(source), _SAMPLE) for r in record["candidates"]]
    found.tasks = len(tasks)
    found.text_only = bool(tasks) and not pictured
    if not responses:
        return
    read = {name: [p for r in responses if (p := parse(name, r)).parse_error is None] for name in DIALECTS}
    found.dialect = max(read, key=lambda name: (_known(read[name]), len(read[name])))
    found.dialect_share = len(read[found.dialect]) / len(responses)
    found.space = _space(found.dialect, _points(read[found.dialect]), sizes)


def _known(parsed: list[Parsed]) -> int:
    """Responses whose calls the dialect knows.

    That decides first, because ``name(1, 2)`` is a call in several dialects; then how many it can read at all; then
    the order of ``DIALECTS``.
    """
    return sum(all(call.verb != "other" for call in response.calls) for response in parsed)


def _space(dialect: str, points: list[tuple[float, float]], sizes: list[tuple[int, int]]) -> str:
    """The space that holds all sampled points; where both do, the one the dialect's actors use."""
    width, height = max((w for w, _ in sizes), default=0), max((h for _, h in sizes), default=0)
    outside = Counter(
        {
            "norm1000": sum(x > 1000 or y > 1000 for x, y in points),
            "pixel": sum(x > width or y > height for x, y in points) if sizes else 0,
        }
    )
    usual = _DEFAULT_SPACE.get(dialect, "pixel")
    return min(SPACES, key=lambda space: (outside[space], space != usual))


def _points(parsed: list[Parsed]) -> list[tuple[float, float]]:
    return [v for p in parsed for call in p.calls for v in call.arguments.values() if isinstance(v, tuple)]


def _size(data: bytes) -> list[tuple[int, int]]:
    try:
        image = ImageChecker().check(data)
    except ImageError:
        return []
    return [(image.width, image.height)]


def _records(source: Sniffed) -> Iterator[dict[str, Any]]:
    return _valid(source.path, IMPORTERS[source.kind, source.format].schema)


def _valid(path: Path, schema: str) -> Iterator[dict[str, Any]]:
    """The valid records of a file."""
    validator = for_schema(schema)
    for line in jsonl.read_lines(path):
        try:
            record = jsonl.loads_line(line)
        except jsonl.JsonError:
            continue
        if validator.is_valid(record):
            yield record


def _states(source: Sniffed, record: dict[str, Any]) -> Iterator[ImportedState]:
    context = Context("function", source.path.parent)
    for state in STATES[source.kind, source.format].read(record, context):
        if isinstance(state, ImportedState):
            yield state
