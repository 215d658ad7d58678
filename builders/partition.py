"""The one pass over the sources: hash files, check records, join ids, and deal everything out to buckets.

A bucket holds everything about its states, so that it can be built alone, on any machine that sees the files. Which
bucket a state falls in is a range of a hash of its screenshot (its text, or its id without either); so equal pictures
meet in one file and nothing depends on the order of the input. Only states are copied (their pictures once); candidate
sets and labels stay where they are and are found by offset.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import orjson

from ..schemas import jsonl
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import canonical_json, sha256_hex
from ..schemas.validate import for_schema
from . import collector, redact
from .importers import IMPORTERS, ROWS, STATES, Context, ImportedState, InvalidTurn
from .ledger import Claim, Ledger, Row
from .spec import BuildSpec, SourceSpec

BUCKET_BYTES = 32 << 20  # of input: what a worker holds at once is a small multiple of it
MAX_ISSUES = 1000  # a file of the wrong kind should not print a million lines
Progress = Callable[[str, int, int], None]  # (what, done, total); bytes


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


@dataclass
class _State:
    """What the pass remembers of a state: enough to join and to see a conflict."""

    claims: list[Claim]  # the records of its id; the first is the one that was kept
    key: str  # hex; decides the bucket
    spill: tuple[int, int]  # offset, length in states.jsonl
    quarantined: bool = False
    bucket: int = -1


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
    exclusions: list[Row] = field(default_factory=list)
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
        for line in jsonl.read_lines(file.path, digest.update):
            file.records += 1
            try:
                record = jsonl.loads_line(line)
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
                self.progress("reading", self.done + line.offset, self.total)
        self.done += before.st_size
        file.sha256, file.bytes, file.stamp = digest.hexdigest(), before.st_size, (before.st_size, before.st_mtime_ns)

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

    def read_states(self) -> None:
        pictures: dict[str, tuple[int, int]] = {}
        with (self.folder / "states.jsonl").open("wb") as rows, (self.folder / "images.bin").open("wb") as blobs:
            for source, file in self._sources("episodes", "states"):
                read = STATES[source.kind, source.format].read
                context = Context(source.dialect or "", file.path.parent)
                for line, record in self.records(source, file, "states"):
                    for turn in read(record, context):
                        if isinstance(turn, InvalidTurn):
                            problem = [(turn.path, turn.message)]
                            self.invalid(source, file, line, "states", problem, turn.state_id, turn.reason)
                        else:
                            self._keep_state(source, file, line, turn, rows, blobs, pictures)
        for state_id, state in self.states.items():
            if len(state.claims) > 1:
                stands, issues = self.ledger.settle("states", state_id, state.claims)
                state.quarantined = not stands and not issues  # an issue stops the build; a check goes on to find more
                self.issues += issues
        self._stop_when_hopeless()

    def _keep_state(
        self, source: SourceSpec, file: SourceFile, line: jsonl.Line, state: ImportedState,
        rows: IO[bytes], blobs: IO[bytes], pictures: dict[str, tuple[int, int]],
    ) -> None:  # fmt: skip
        row, state_id = state.row, state.row["state_id"]
        image_sha = sha256_hex(state.image) if state.image is not None else None
        canonical = canonical_json([row, image_sha]).encode()
        claim = Claim(file.name, line.number, hashlib.sha256(canonical).digest(), source.on_conflict)
        if known := self.states.get(state_id):
            known.claims.append(claim)
            return
        self.size += len(canonical)
        if image_sha and image_sha not in pictures:
            assert state.image is not None
            self.size += len(state.image)
            pictures[image_sha] = (blobs.tell(), len(state.image))
            blobs.write(state.image)
        spilled = orjson.dumps(
            {
                "row": row,
                "image": pictures[image_sha] if image_sha else None,
                "source": {"file": file.name, "record_sha256": sha256_hex(line.raw)},
                "line": line.number,
                "where": state.where,
                "declared": file.source,
            }
        )
        text = row["observation_text"]
        key = image_sha or sha256_hex(f"text\n{text}" if text is not None else f"id\n{state_id}")
        self.states[state_id] = _State([claim], key, (rows.tell(), len(spilled)))
        rows.write(spilled + b"\n")

    # -- candidate sets and labels --------------------------------------------------------------------------------

    def deal(self, buckets: int) -> None:
        """Index candidate sets and labels by bucket and write the buckets' index files."""
        for state in self.states.values():
            state.bucket = bucket_of(state.key, buckets)
        sets: dict[str, int] = {}  # set id -> bucket
        index = {kind: [array("q") for _ in range(buckets)] for kind in ("candidate_sets", "teacher_labels")}
        for source, file in self._sources("candidate_sets"):
            for line, row in self._rows(source, file):
                state_of = self.states.get(row["state_id"])
                if state_of is None or state_of.quarantined:
                    self.ledger.units_in["candidate_sets"] += 1
                    why = f"no state {row['state_id']!r}" if state_of is None else "its state is in quarantine"
                    detail = f"{file.name}:{line.number} {why}"
                    self.ledger.exclude("candidate_sets", "candidate_sets", row["set_id"], "no_state", detail)
                    continue
                sets[row["set_id"]] = state_of.bucket
                self._index(index["candidate_sets"][state_of.bucket], file, line)
        for source, file in self._sources("teacher_labels"):
            for line, row in self._rows(source, file):
                if (bucket := sets.get(row["set_id"])) is not None:
                    self._index(index["teacher_labels"][bucket], file, line)
                elif row["set_id"] in self.states:
                    message = f"{row['set_id']!r} is a state, not a draw: a label must name the candidate set it judged"
                    problem = [("$.state_id", message)]
                    self.invalid(source, file, line, "teacher_labels", problem, row["set_id"], "base_state_id")
                else:
                    self.ledger.units_in["teacher_labels"] += 1
                    detail = f"{file.name}:{line.number} no candidate set has this id"
                    self.ledger.exclude("teacher_labels", "teacher_labels", row["set_id"], "no_candidate_set", detail)
        self._write_indices(buckets, index)

    def _rows(self, source: SourceSpec, file: SourceFile) -> Iterator[tuple[jsonl.Line, Row]]:
        """Yield the candidate sets or labels of a file; what cannot be one becomes an issue or an exclusion."""
        context = Context(source.dialect or "", file.path.parent, source.space)
        for line, record in self.records(source, file, source.kind):
            try:
                row = ROWS[source.kind, source.format].read(record, context)
            except ArmError as error:
                self.invalid(source, file, line, source.kind, [(error.where or "$", error.message)])
            else:
                yield line, row

    def _write_indices(self, buckets: int, index: dict[str, list[array[int]]]) -> None:
        states: list[list[tuple[int, int]]] = [[] for _ in range(buckets)]
        for state in self.states.values():
            if not state.quarantined:
                states[state.bucket].append(state.spill)
        exclusions: list[list[Row]] = [[] for _ in range(buckets)]
        for row in sorted(self.exclusions, key=lambda row: tuple(row.values())):  # not by which line came first
            exclusions[bucket_of(sha256_hex(row["source_id"]), buckets)].append(row)
        for bucket in range(buckets):
            stem = self.folder / f"bucket-{bucket:05d}"
            stem.with_suffix(".json").write_bytes(
                orjson.dumps({"states": states[bucket], "exclusions": exclusions[bucket]})
            )
            for kind, arrays in index.items():
                stem.with_suffix(f".{kind}").write_bytes(arrays[bucket].tobytes())

    def _index(self, target: array[int], file: SourceFile, line: jsonl.Line) -> None:
        target.extend((file.index, line.number, line.offset, len(line.raw)))

    def _sources(self, *kinds: str) -> Iterator[tuple[SourceSpec, SourceFile]]:
        for position, source in enumerate(self.spec.sources):
            if source.kind in kinds:
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
        work.read_states()
        joined = sum(p.stat().st_size for s in spec.sources if s.kind not in ("episodes", "states") for _, p in s.files)
        buckets = spec.shards or bucket_count(work.size + joined)
        work.deal(buckets)
    redacted = work.redaction.counts if work.redaction else Counter()
    return Partition(folder, buckets, work.files, work.ledger, work.notes, work.issues, redacted)


def failure(issues: list[Issue]) -> ArmError:
    """The error that lists what is wrong with the sources, and what the user can write to go on without it."""
    many = f"at least {MAX_ISSUES}" if len(issues) >= MAX_ISSUES else str(len(issues))
    return ArmError(
        f"the sources have {many} problem{'s' if len(issues) != 1 else ''}; nothing was built",
        issues=issues,
        next_command="mend the records, or write `on_invalid: exclude` (broken records) or `on_conflict: quarantine` "
        "(one id, two contents) below the source: such records then go to exclusions and the others are built",
    )


def bucket_count(size: int) -> int:
    """Number of buckets for ``size`` bytes of input: a power of two, so that growth splits files and moves no row
    between the halves."""
    return 1 << max(0, (max(1, size) - 1) // BUCKET_BYTES).bit_length()


def bucket_of(key: str, buckets: int) -> int:
    """Range of the hash ``key`` (hex) that falls in: 0..buckets-1."""
    return (int(key[:8], 16) * buckets) >> 32
