"""The one pass over the sources: hash files, check records, join ids, and deal everything out to buckets.

A bucket holds everything about its states, so that it can be built alone, on any machine that sees the files. Which
bucket a state falls in is a range of a hash of its screenshot (its text, or its id without either); so equal pictures
meet in one file and nothing depends on the order of the input. States are copied (their pictures once), and so is what
formats hold that tell of several things at once; big files of candidate sets and labels stay where they are and are
found by offset.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from ..schemas import jsonl
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import canonical_json, sha256_hex
from ..schemas.validate import for_schema
from . import actors, collector, redact
from .importers import (
    IMPORTERS,
    Context,
    GroupImporter,
    Imported,
    ImportedRow,
    ImportedState,
    InvalidTurn,
    Remark,
    RowImporter,
)
from .importers.containers import is_parquet
from .importers.containers import records as records_of
from .importers.parquet import problems_of
from .ledger import Claim, Ledger, Row
from .legacy import LegacyDraws
from .pool import Drawing, Place
from .spec import READY, BuildSpec, SourceSpec
from .splits import split_of
from .tally import Tally

BUCKET_BYTES = 32 << 20  # of input: what a worker holds at once is a small multiple of it
MAX_ISSUES = 1000  # a file of the wrong kind should not print a million lines
SPILLED = ("states.jsonl", "rows.jsonl", "images.bin")  # copies, in the folder of the partition
COPIED = -1  # stands for a file's number: the record stands in rows.jsonl
JOINED = ("candidate_sets", "teacher_labels", "candidate_scores")  # kinds that are found by the set or state they name
Progress = Callable[..., None]  # (what, done, total), bytes or records; where it is known, how many records that is


@dataclass
class SourceFile:
    """A source file as it was read: its digest was taken in the pass that indexed it."""

    name: str
    path: Path
    source: int  # position in BuildSpec.sources
    index: int  # position in Partition.files
    sha256: str = ""
    bytes: int = 0
    records: int = 0
    stamp: tuple[int, int] = (0, 0)  # (size, mtime_ns) when it was read
    copy: Path | None = None  # its records as lines, of a file in which they cannot be found again by offset


@dataclass
class Partition:
    """Where everything lies: files in the order of BuildSpec, and one index per bucket in ``folder``."""

    folder: Path
    buckets: int
    files: list[SourceFile]
    ledger: Ledger
    notes: list[Issue]  # records excluded by declaration, to be shown
    issues: list[Issue]  # records that stop a build
    redacted: Counter[str]  # kind of secret -> how many were replaced
    tally: Tally
    records: list[int]  # per bucket: how many states, sets, labels and other records are in its index


@dataclass
class _State:
    """What the pass remembers of a state: enough to join and to see a conflict."""

    claims: list[Claim]  # the records of its id; the first is the one that was kept
    key: str  # hex; decides the bucket
    spill: tuple[int, int]  # offset, length in states.jsonl
    quarantined: bool = False
    labelled: bool = False
    bucket: int = -1


@dataclass(frozen=True, slots=True)
class _Row:
    """What the pass remembers of a copied row."""

    source: SourceSpec
    file: SourceFile
    line: int
    about: Row  # the ids that say where it belongs
    key: str  # hex; decides the bucket of a ready-made row
    place: tuple[int, int]  # offset, length in rows.jsonl


class _End(NamedTuple):
    """The last state of an episode with an outcome: its history is the episode."""

    turn: int  # 0-based
    state_id: str
    task_group: str
    place: tuple[int, int]  # offset, length in states.jsonl


class _Spills(NamedTuple):
    """The open copies, in the order of SPILLED."""

    states: IO[bytes]
    rows: IO[bytes]
    images: IO[bytes]


@dataclass
class _Pass:
    spec: BuildSpec
    folder: Path
    progress: Progress
    total: int
    done: int = 0
    issues: list[Issue] = field(default_factory=list)
    notes: list[Issue] = field(default_factory=list)
    files: list[SourceFile] = field(default_factory=list)
    states: dict[str, _State] = field(default_factory=dict)
    rows: dict[str, list[_Row]] = field(default_factory=dict)  # kind -> copied rows
    ends: dict[str, _End] = field(default_factory=dict)  # by episode; only where episodes are compared
    hosts: set[str | None] = field(default_factory=set)  # of the states of validation
    exclusions: list[Row] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    _pictures: dict[str, tuple[int, int]] = field(default_factory=dict)  # sha256 -> place in images.bin
    size: int = 0  # bytes of distinct states and pictures, whatever their order in the files

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.exclusions.append)
        self.redaction = redact.of(self.spec)

    # -- reading ------------------------------------------------------------------------------------------------

    def records(self, source: SourceSpec, file: SourceFile, stage: str) -> Iterator[tuple[jsonl.Line, Any]]:
        """Yield the valid records of a file; the others become issues or exclusions."""
        digest = hashlib.sha256()
        importer = IMPORTERS[source.kind, source.format]
        validator = for_schema(importer.schema)
        before = file.path.stat()
        lines = records_of(file.path, digest.update, source.kind)
        if parquet := is_parquet(file.path):
            lines = self._table(source, file, lines)
        for line in lines:
            file.records += 1
            try:
                record = jsonl.loads_line(line)
                if not (problems := problems_of(record) if parquet else []):
                    problems = validator.problems(record)
                    if self.redaction:
                        record, problems = self.redaction.checked(record, problems, importer)
            except jsonl.JsonError as error:
                problems = [("$", str(error))]
            if problems:
                self.invalid(source, file, line, stage, problems)
            else:
                yield line, record
            if not file.records & 1023:
                records = sum(read.records for read in self.files)
                self.progress("reading", self.done + line.offset, self.total, records)
        self.done += before.st_size
        file.sha256, file.bytes, file.stamp = digest.hexdigest(), before.st_size, (before.st_size, before.st_mtime_ns)

    def _table(self, source: SourceSpec, file: SourceFile, lines: Iterator[jsonl.Line]) -> Iterator[jsonl.Line]:
        """The rows of a Parquet file; those that are read again later are copied. None of a file that is no table."""
        try:
            if source.format != "table":
                raise ArmError("is Parquet, of which our own tables are read, with format: table")
            with ExitStack() as stack:
                copy = None
                if isinstance(IMPORTERS[source.kind, source.format], RowImporter):
                    file.copy = self.folder / f"table-{file.index}.jsonl"
                    copy = stack.enter_context(file.copy.open("wb"))
                for line in lines:
                    if copy:
                        copy.write(line.raw + b"\n")
                    yield line
        except ArmError as error:
            self.issues.append(Issue(file.name, 0, "$", error.message))

    def invalid(
        self, source: SourceSpec, file: SourceFile, line: jsonl.Line, stage: str, problems: list[tuple[str, str]],
        source_id: str | None = None, reason: str = "invalid_record",
    ) -> None:  # fmt: skip
        """A record that cannot be used: an error, or an exclusion when the source declares ``on_invalid: exclude``."""
        found = [Issue(file.name, line.number, path, message) for path, message in problems]
        if source.on_invalid == "error":
            self.issues += found
            self._stop_when_hopeless()
            return
        self.notes += found
        self.ledger.units_in[stage] += 1
        detail = "; ".join(f"{path} {message}" for path, message in problems)[:500]
        self.ledger.exclude(stage, source.kind, source_id or sha256_hex(line.raw), reason, detail)

    def _stop_when_hopeless(self) -> None:
        if len(self.issues) >= MAX_ISSUES:
            raise failure(self.issues)

    # -- states -------------------------------------------------------------------------------------------------

    def read_whole(self) -> None:
        """Read the sources whose records are copied: states, and whatever else comes with them or ready-made."""
        with ExitStack() as stack:
            self._spills = _Spills(*(stack.enter_context((self.folder / name).open("wb")) for name in SPILLED))
            for source, file in self._sources(whole=True):
                importer = IMPORTERS[source.kind, source.format]
                assert not isinstance(importer, RowImporter)
                context = _context(source, file)
                groups: dict[str, list[tuple[int, int, int]]] = {}  # key -> (line, offset, length) of its records
                for line, record in self.records(source, file, importer.yields[0]):
                    if isinstance(importer, GroupImporter):
                        groups.setdefault(importer.key(record), []).append((line.number, line.offset, len(line.raw)))
                    else:
                        self._take(source, file, [line], importer.read(record, context))
                if isinstance(importer, GroupImporter):
                    self._groups(source, file, importer, groups)
        for state_id, state in self.states.items():
            if len(state.claims) > 1:
                stands, issues = self.ledger.settle("states", state_id, state.claims)
                state.quarantined = not stands and not issues  # an issue stops the build; a check goes on to find more
                self.issues += issues
        self._stop_when_hopeless()

    def _groups(
        self, source: SourceSpec, file: SourceFile, importer: GroupImporter,
        groups: dict[str, list[tuple[int, int, int]]],
    ) -> None:  # fmt: skip
        """Read the records of each group again, together, one group after another."""
        context = _context(source, file)
        with file.path.open("rb") as again:
            for places in groups.values():
                lines = []
                for number, offset, length in places:
                    again.seek(offset)
                    lines.append(jsonl.Line(number, offset, again.read(length), True))
                # These bytes were read strictly before; here they only have to be read again.
                read = [orjson.loads(line.raw) for line in lines]
                if self.redaction:
                    read = [self.redaction(record) for record in read]
                self._take(source, file, lines, importer.read(read, context))

    def _take(self, source: SourceSpec, file: SourceFile, lines: list[jsonl.Line], items: Iterator[Imported]) -> None:
        for item in items:
            line = lines[item.record]
            if isinstance(item, InvalidTurn):
                problem = [(item.path, item.message)]
                self.invalid(source, file, line, item.kind, problem, item.state_id, item.reason)
            elif isinstance(item, Remark):
                self.notes.append(Issue(file.name, line.number, item.path, item.message))
                self.tally.remarks.append(self.notes[-1])
            elif isinstance(item, ImportedState):
                self._keep_state(source, file, line, item)
            else:
                self._keep_row(source, file, line, item)

    def _keep_state(self, source: SourceSpec, file: SourceFile, line: jsonl.Line, state: ImportedState) -> None:
        row, state_id = state.row, state.row["state_id"]
        self.tally.kinds[file.name, "states"] += 1
        image_sha = sha256_hex(state.image) if state.image is not None else None
        canonical = canonical_json([row, image_sha]).encode()
        claim = Claim(file.name, line.number, hashlib.sha256(canonical).digest(), source.on_conflict)
        if known := self.states.get(state_id):
            known.claims.append(claim)
            return
        self.size += len(canonical)
        spilled = {
            "row": row,
            "image": self._picture(image_sha, state.image) if image_sha else None,
            "source": {"file": file.name, "record_sha256": sha256_hex(line.raw)},
            "line": line.number,
            "where": state.where,
            "declared": file.source,
        }
        text = row["observation_text"]
        key = image_sha or sha256_hex(f"text\n{text}" if text is not None else f"id\n{state_id}")
        if split_of(row["task_group"], self.spec.split) == "validation":
            self.hosts.add(row["host"])
        place = _write(self._spills.states, spilled)
        self.states[state_id] = _State([claim], key, place)
        if self.spec.pairs and self.spec.pairs.trajectories and row["episode_outcome"] is not None:
            known_end = self.ends.get(row["episode_id"])
            if known_end is None or row["turn"] > known_end.turn:
                self.ends[row["episode_id"]] = _End(row["turn"], state_id, row["task_group"], place)

    def _keep_row(self, source: SourceSpec, file: SourceFile, line: jsonl.Line, item: ImportedRow) -> None:
        """Copy what a record holds besides states; it is dealt out when all states are known."""
        self.tally.add(item.kind, file.name, item.row, source.constants)
        hashes = [sha256_hex(image) for image in item.images]
        spilled = {
            "row": item.row,
            "images": [self._picture(sha, image) for sha, image in zip(hashes, item.images, strict=True)],
            "task": item.task,
            "source": {"file": file.name, "record_sha256": sha256_hex(line.raw)},
            "line": line.number,
            "where": item.where,
            "declared": file.source,
        }
        place = _write(self._spills.rows, spilled)
        self.size += place[1]
        about = {name: item.row.get(name) for name in ("set_id", "state_id", "item_id", "selection", "teacher")}
        key = hashes[-1] if hashes else sha256_hex(canonical_json(item.row.get("prompt") or item.row))
        self.rows.setdefault(item.kind, []).append(_Row(source, file, line.number, about, key, place))

    def _picture(self, sha256: str, data: bytes | None) -> tuple[int, int]:
        """Where the bytes of a picture stand in the copy; each is copied once."""
        if sha256 not in self._pictures:
            assert data is not None
            self.size += len(data)
            self._pictures[sha256] = (self._spills.images.tell(), len(data))
            self._spills.images.write(data)
        return self._pictures[sha256]

    # -- what belongs to states ------------------------------------------------------------------------------------

    def deal(self, buckets: int) -> None:
        """Index everything else by bucket and write the buckets' index files."""
        for state in self.states.values():
            state.bucket = bucket_of(state.key, buckets)
        index = {kind: [array("q") for _ in range(buckets)] for kind in JOINED}
        sets: dict[str, _State] = {}  # set id -> its state
        pool = Drawing(self.spec)
        for source, file, line, row, place in self._all("candidate_sets"):
            state_of = self.states.get(row["state_id"])
            if state_of is None or state_of.quarantined:
                self.ledger.units_in["candidate_sets"] += 1
                why = f"no state {row['state_id']!r}" if state_of is None else "its state is in quarantine"
                detail = f"{file.name}:{line.number} {why}"
                self.ledger.exclude("candidate_sets", "candidate_sets", row["set_id"], "no_state", detail)
                continue
            if row["set_id"] in sets:
                self.tally.repeated[row["set_id"]] = row["state_id"]
            sets[row["set_id"]] = state_of
            pool.set(row["set_id"], source, place)
            index["candidate_sets"][state_of.bucket].extend(place)
        drawn: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]  # labels held out: (file, offset)
        legacy = LegacyDraws(self.spec.split)
        for kind in ("teacher_labels", "candidate_scores"):
            for source, file, line, row, place in self._all(kind):
                if (state_of := sets.get(row["set_id"])) is not None:
                    index[kind][state_of.bucket].extend(place)
                    state_of.labelled |= kind == "teacher_labels"
                    if kind == "teacher_labels":
                        pool.pick(
                            row["set_id"], row.get("teacher") or source.constants.get("teacher"), row["selection"]
                        )
                        if legacy.holds_out(row):
                            drawn[state_of.bucket].append((place[0], place[2]))
                elif row["set_id"] in self.states:
                    judged = "a label must name the candidate set it judged"
                    judged = judged if kind == "teacher_labels" else "scores must name the candidate set they are of"
                    message = f"{row['set_id']!r} is a state, not a draw: {judged}"
                    problem = [("$.state_id", message)]
                    self.invalid(source, file, line, kind, problem, row["set_id"], "base_state_id")
                else:
                    self.ledger.units_in[kind] += 1
                    detail = f"{file.name}:{line.number} no candidate set has this id"
                    self.ledger.exclude(kind, kind, row["set_id"], "no_candidate_set", detail)
        ready: list[dict[str, list[tuple[int, int]]]] = [{} for _ in range(buckets)]
        for kind in READY:
            for found in self.rows.get(kind, ()):
                ready[bucket_of(found.key, buckets)].setdefault(kind, []).append(found.place)
        self.tally.labelled_states = sum(state.labelled for state in self.states.values())
        reviews = self._reviews(buckets, sets)
        # Of ready-made rows no host is known, and the legacy rule decides later: then all may resemble validation.
        known = self.spec.split.rule == "task_group" and not self.spec.kinds.intersection(READY)
        hosts = sorted(self.hosts, key=str) if known else None
        extra: list[Row] = [
            {"ready": ready[b], "reviews": reviews[b], "held_out": drawn[b], "hosts": hosts} for b in range(buckets)
        ]
        for bucket, tasks in zip(extra, self._episodes(buckets), strict=True):
            bucket["episodes"] = tasks
        self._write_indices(buckets, index, extra)
        pool.write(self.folder, lambda set_id, place: self._again(sets[set_id], place))

    def _again(self, state: _State, place: Place) -> tuple[str, list[str]]:
        """(task group of its state, responses) of a candidate set, read once more."""

        def read(path: Path, offset: int, length: int) -> Row:
            with path.open("rb") as file:
                file.seek(offset)
                found: Row = orjson.loads(file.read(length))
                return found

        number, _, offset, length = place
        group = str(read(self.folder / "states.jsonl", *state.spill)["row"]["task_group"])
        if number == COPIED:
            return group, read(self.folder / "rows.jsonl", offset, length)["row"]["responses"]
        file = self.files[number]
        source = self.spec.sources[file.source]
        importer = IMPORTERS[source.kind, source.format]
        assert isinstance(importer, RowImporter)
        record = read(file.copy or file.path, offset, length)
        record = self.redaction(record) if self.redaction else record
        return group, importer.read(record, _context(source, file))["responses"]

    def _all(self, kind: str) -> Iterator[tuple[SourceSpec, SourceFile, jsonl.Line, Row, tuple[int, int, int, int]]]:
        """Yield every record of a kind, read in place or copied, with where the bucket finds it."""
        for source, file in self._sources(kind):
            for line, row in self._rows(source, file):
                yield source, file, line, row, (file.index, line.number, line.offset, len(line.raw))
        for found in self.rows.get(kind, ()):
            line = jsonl.Line(found.line, 0, b"", True)
            row = {**found.about, "set_id": actors.qualified(self.spec, found.source, found.about["set_id"])}
            yield found.source, found.file, line, row, (COPIED, found.line, *found.place)

    def _episodes(self, buckets: int) -> list[list[list[tuple[int, int]]]]:
        """Of each bucket, for each task with several episodes, where their last states stand, by episode id."""
        tasks: dict[str, list[tuple[int, int]]] = {}
        for _, end in sorted(self.ends.items()):
            if not self.states[end.state_id].quarantined:
                tasks.setdefault(end.task_group, []).append(end.place)
        dealt: list[list[list[tuple[int, int]]]] = [[] for _ in range(buckets)]
        for group, places in sorted(tasks.items()):
            if len(places) > 1:
                dealt[bucket_of(group, buckets)].append(places)
        return dealt

    def _reviews(self, buckets: int, sets: dict[str, _State]) -> list[list[tuple[int, int]]]:
        """The reviews of each bucket: those of its states, sets, and all rows whose ids begin with theirs."""
        dealt: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        for found in self.rows.get("reviews", ()):
            item = str(found.about["item_id"])
            parts = item.split("|")
            begins = ("|".join(parts[:n]) for n in range(len(parts), 0, -1))
            bucket = next((sets[begin].bucket for begin in begins if begin in sets), None)
            if bucket is None and (state := self.states.get(item)):
                bucket = state.bucket
            if bucket is None:
                bucket = bucket_of(sha256_hex(item), buckets)  # of a ready-made row, or of nothing
            dealt[bucket].append(found.place)
        return dealt

    def _rows(self, source: SourceSpec, file: SourceFile) -> Iterator[tuple[jsonl.Line, Row]]:
        """Yield the rows of a file that is read in place; what cannot be one becomes an issue or an exclusion."""
        importer, context = IMPORTERS[source.kind, source.format], _context(source, file)
        assert isinstance(importer, RowImporter)
        for line, record in self.records(source, file, source.kind):
            try:
                row = importer.read(record, context)
            except ArmError as error:
                self.invalid(source, file, line, source.kind, [(error.where or "$", error.message)])
            else:
                row["set_id"] = actors.qualified(self.spec, source, row["set_id"])
                self.tally.add(source.kind, file.name, row, source.constants)
                yield line, row

    def _write_indices(self, buckets: int, index: dict[str, list[array[int]]], extra: list[Row]) -> None:
        states: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        for state in self.states.values():
            if not state.quarantined:
                states[state.bucket].append(state.spill)
        exclusions: list[list[Row]] = [[] for _ in range(buckets)]
        for row in sorted(self.exclusions, key=lambda row: tuple(row.values())):  # not by which line came first
            exclusions[bucket_of(sha256_hex(row["source_id"]), buckets)].append(row)
        self.indexed = [
            len(states[b]) + sum(len(a[b]) for a in index.values()) // 4 + sum(map(len, extra[b]["ready"].values()))
            for b in range(buckets)
        ]
        for bucket in range(buckets):
            stem = self.folder / f"bucket-{bucket:05d}"
            stem.with_suffix(".json").write_bytes(
                orjson.dumps({"states": states[bucket], "exclusions": exclusions[bucket], **extra[bucket]})
            )
            for kind, arrays in index.items():
                stem.with_suffix(f".{kind}").write_bytes(arrays[bucket].tobytes())

    def _sources(self, kind: str = "", *, whole: bool = False) -> Iterator[tuple[SourceSpec, SourceFile]]:
        """Sources of a kind that are read in place, or, with ``whole``, all those whose records are copied."""
        for position, source in enumerate(self.spec.sources):
            in_place = isinstance(IMPORTERS[source.kind, source.format], RowImporter)
            if (not in_place) if whole else (in_place and source.kind == kind):
                for name, path in source.files:
                    self.files.append(SourceFile(name, path, position, len(self.files)))
                    yield source, self.files[-1]


def partition(spec: BuildSpec, folder: Path, progress: Progress) -> Partition:
    """Read all sources once and lay the buckets out in ``folder``; problems are collected in the result.

    Raises ArmError only when there are MAX_ISSUES of them.
    """
    total = sum(path.stat().st_size for source in spec.sources for _, path in source.files)
    work = _Pass(spec, folder, progress, total)
    with collector.paused():
        work.read_whole()
        in_place = [s for s in spec.sources if isinstance(IMPORTERS[s.kind, s.format], RowImporter)]
        joined = sum(path.stat().st_size for source in in_place for _, path in source.files)
        buckets = spec.shards or bucket_count(work.size + joined)
        work.deal(buckets)
    redacted = work.redaction.counts if work.redaction else Counter()
    return Partition(
        folder, buckets, work.files, work.ledger, work.notes, work.issues, redacted, work.tally, work.indexed
    )


def failure(issues: list[Issue]) -> ArmError:
    """The error that lists what is wrong with the sources, and what the user can write to go on without it."""
    many = f"at least {MAX_ISSUES}" if len(issues) >= MAX_ISSUES else str(len(issues))
    return ArmError(
        f"the sources have {many} problem{'s' if len(issues) != 1 else ''}; nothing was built",
        issues=issues,
        next_command="mend the records, or write `on_invalid: exclude` (broken records) or `on_conflict: quarantine` "
        "(one id, two contents) below the source: such records then go to exclusions and the others are built",
    )


def _context(source: SourceSpec, file: SourceFile) -> Context:
    return Context(source.dialect or "", file.path.parent, source.space, source.constants)


def _write(file: IO[bytes], value: Row) -> tuple[int, int]:
    """Write a line; return (offset, length)."""
    data = orjson.dumps(value)
    offset = file.tell()
    file.write(data + b"\n")
    return offset, len(data)


def bucket_count(size: int) -> int:
    """Number of buckets for ``size`` bytes of input: a power of two, so that growth splits files and moves no row
    between the halves."""
    return 1 << max(0, (max(1, size) - 1) // BUCKET_BYTES).bit_length()


def bucket_of(key: str, buckets: int) -> int:
    """Range of the hash ``key`` (hex) that falls in: 0..buckets-1."""
    return (int(key[:8], 16) * buckets) >> 32
