"""The pass over the sources: hash files, check records, copy what has to be copied, remember what belongs together.

States are copied (their pictures once), and so is what formats hold that tell of several things at once; big files of
candidate sets and labels stay where they are and are found by offset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from ..schemas import jsonl
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import canonical_json, sha256_hex
from ..schemas.integers import floats
from ..schemas.store import ID_FIELDS
from ..schemas.validate import for_schema
from . import actors, redact
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
from .spec import READY, BuildSpec, SourceSpec
from .splits import split_of
from .tally import Tally

MAX_ISSUES = 1000  # a file of the wrong kind should not print a million lines
SPILLED = ("states.jsonl", "rows.jsonl", "images.bin")  # copies, in the folder of the partition
COPIED = -1  # stands for a file's number: the record stands in rows.jsonl
Progress = Callable[..., None]  # (what, done, total), bytes or records; where it is known, how many records that is
Place = tuple[int, int]  # offset, length


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
class SeenState:
    """What the pass remembers of a state: enough to join and to see a conflict."""

    claims: list[Claim]  # the records of its id; the first is the one that was kept
    key: str  # hex; decides the bucket
    spill: Place  # in states.jsonl
    group: str  # its task group
    quarantined: bool = False
    labelled: bool = False
    bucket: int = -1


@dataclass(frozen=True, slots=True)
class CopiedRow:
    """What the pass remembers of a copied row."""

    source: SourceSpec
    file: SourceFile
    line: int
    about: Row  # the ids that say where it belongs
    key: str  # hex; decides the bucket of a ready-made row
    place: Place  # in rows.jsonl


class EpisodeEnd(NamedTuple):
    """The last state of an episode with an outcome: its history is the episode."""

    turn: int  # 0-based
    state_id: str
    task_group: str
    place: Place  # in states.jsonl


class _Grouped(NamedTuple):
    """Where a record stands that is read together with others."""

    file: SourceFile
    line: int
    offset: int
    length: int


class _Spills(NamedTuple):
    """The open copies, in the order of SPILLED."""

    states: IO[bytes]
    rows: IO[bytes]
    images: IO[bytes]


@dataclass
class Gathering:
    """What the pass has read and remembers."""

    spec: BuildSpec
    folder: Path
    progress: Progress
    total: int
    done: int = 0
    issues: list[Issue] = field(default_factory=list)
    notes: list[Issue] = field(default_factory=list)
    files: list[SourceFile] = field(default_factory=list)
    states: dict[str, SeenState] = field(default_factory=dict)
    rows: dict[str, list[CopiedRow]] = field(default_factory=dict)  # kind -> copied rows
    ends: dict[str, EpisodeEnd] = field(default_factory=dict)  # by episode; only where episodes are compared
    hosts: set[str | None] = field(default_factory=set)  # of the states of validation
    exclusions: list[Row] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    _pictures: dict[str, Place] = field(default_factory=dict)  # sha256 -> place in images.bin
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
                    problems = validator.problems(record) or floats(importer.schema, record)
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
        if source.on_invalid == "error" and reason != "not_sampled":  # an outcome, of a record that is as it should be
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
            for source, files in self._whole():
                importer = IMPORTERS[source.kind, source.format]
                assert not isinstance(importer, RowImporter)
                groups: dict[str, list[_Grouped]] = {}
                for file in files:
                    context = context_of(source, file)
                    for line, record in self.records(source, file, importer.yields[0]):
                        if isinstance(importer, GroupImporter):
                            place = _Grouped(file, line.number, line.offset, len(line.raw))
                            groups.setdefault(importer.key(record), []).append(place)
                        else:
                            self._take(source, [(file, line)], importer.read(record, context))
                if isinstance(importer, GroupImporter):
                    self._groups(source, importer, groups)
        for state_id, state in self.states.items():
            if len(state.claims) > 1:
                stands, issues = self.ledger.settle("states", state_id, state.claims)
                state.quarantined = not stands and not issues  # an issue stops the build; a check goes on to find more
                self.issues += issues
        self._stop_when_hopeless()

    def _whole(self) -> Iterator[tuple[SourceSpec, Iterator[SourceFile]]]:
        for source, files in groupby(self.sources(whole=True), key=lambda found: found[1].source):
            yield self.spec.sources[source], (file for _, file in files)

    def _groups(self, source: SourceSpec, importer: GroupImporter, groups: dict[str, list[_Grouped]]) -> None:
        """Read the records of each group again, together, one group after another."""
        with ExitStack() as stack:
            opened: dict[int, IO[bytes]] = {}
            for places in groups.values():
                lines = []
                for file, number, offset, length in places:
                    if file.index not in opened:
                        opened[file.index] = stack.enter_context(file.path.open("rb"))
                    opened[file.index].seek(offset)
                    lines.append((file, jsonl.Line(number, offset, opened[file.index].read(length), True)))
                # These bytes were read strictly before; here they only have to be read again.
                read = [orjson.loads(line.raw) for _, line in lines]
                if self.redaction:
                    read = [self.redaction(record) for record in read]
                self._take(source, lines, importer.read(read, context_of(source, places[0].file)))

    def _take(
        self, source: SourceSpec, lines: Sequence[tuple[SourceFile, jsonl.Line]], items: Iterator[Imported]
    ) -> None:
        for item in items:
            file, line = lines[item.record]
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
        self.states[state_id] = SeenState([claim], key, place, row["task_group"])
        if self.spec.pairs and self.spec.pairs.trajectories and row["episode_outcome"] is not None:
            known_end = self.ends.get(row["episode_id"])
            if known_end is None or row["turn"] > known_end.turn:
                self.ends[row["episode_id"]] = EpisodeEnd(row["turn"], state_id, row["task_group"], place)

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
        about = {
            name: item.row.get(name) for name in ("set_id", "state_id", "label_id", "item_id", "selection", "teacher")
        }
        about["row_id"] = item.row[ID_FIELDS[item.kind]] if item.kind in READY else None
        key = hashes[-1] if hashes else sha256_hex(canonical_json(item.row.get("prompt") or item.row))
        self.rows.setdefault(item.kind, []).append(CopiedRow(source, file, line.number, about, key, place))

    def _picture(self, sha256: str, data: bytes | None) -> Place:
        """Where the bytes of a picture stand in the copy; each is copied once."""
        if sha256 not in self._pictures:
            assert data is not None
            self.size += len(data)
            self._pictures[sha256] = (self._spills.images.tell(), len(data))
            self._spills.images.write(data)
        return self._pictures[sha256]

    # -- records that stay where they are ----

    def rows_of(self, source: SourceSpec, file: SourceFile) -> Iterator[tuple[jsonl.Line, Row]]:
        """Yield the rows of a file that is read in place; what cannot be one becomes an issue or an exclusion."""
        importer, context = IMPORTERS[source.kind, source.format], context_of(source, file)
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

    def sources(self, kind: str = "", *, whole: bool = False) -> Iterator[tuple[SourceSpec, SourceFile]]:
        """Sources of a kind that are read in place, or, with ``whole``, all those whose records are copied."""
        for position, source in enumerate(self.spec.sources):
            in_place = isinstance(IMPORTERS[source.kind, source.format], RowImporter)
            if (not in_place) if whole else (in_place and source.kind == kind):
                for name, path in source.files:
                    self.files.append(SourceFile(name, path, position, len(self.files)))
                    yield source, self.files[-1]


def failure(issues: list[Issue]) -> ArmError:
    """The error that lists what is wrong with the sources, and what the user can write to go on without it."""
    many = f"at least {MAX_ISSUES}" if len(issues) >= MAX_ISSUES else str(len(issues))
    return ArmError(
        f"the sources have {many} problem{'s' if len(issues) != 1 else ''}; nothing was built",
        issues=issues,
        next_command="mend the records, or write `on_invalid: exclude` (broken records) or `on_conflict: quarantine` "
        "(one id, two contents) below the source: such records then go to exclusions and the others are built",
    )


def context_of(source: SourceSpec, file: SourceFile) -> Context:
    return Context(source.dialect or "", file.path.parent, source.space, source.constants)


def _write(file: IO[bytes], value: Row) -> Place:
    """Write a line; return (offset, length)."""
    data = orjson.dumps(value)
    offset = file.tell()
    file.write(data + b"\n")
    return offset, len(data)
