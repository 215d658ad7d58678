"""Dealing what was gathered out to buckets: each gets an index of everything about its states.

Which bucket a state falls in is a range of a hash of its screenshot (its text, or its id without either); so equal
pictures meet in one file and nothing depends on the order of the input.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import orjson

from ..schemas import jsonl
from ..schemas.errors import Issue
from ..schemas.ids import sha256_hex
from . import actors, teacher_labels
from .gathering import COPIED, Gathering, Place, SeenState, SourceFile, context_of
from .homes import Homes, bucket_of, nearest
from .importers import IMPORTERS, RowImporter
from .ledger import Row
from .legacy import LegacyDraws
from .pool import Drawing
from .spec import READY, SourceSpec

JOINED = ("candidate_sets", "teacher_labels", "candidate_scores")  # kinds that are found by the set or state they name
Found = tuple[SourceSpec, SourceFile, jsonl.Line, Row, tuple[int, int, int, int]]


def deal(gathered: Gathering, buckets: int) -> list[int]:
    """Write the index files of all buckets; return how many records each of them got."""
    dealing = _Dealing(gathered, buckets)
    dealing.sets()
    dealing.judgements()
    dealing.rest()
    return dealing.write()


class _Dealing:
    def __init__(self, gathered: Gathering, buckets: int) -> None:
        self.g, self.buckets = gathered, buckets
        for state in gathered.states.values():
            state.bucket = bucket_of(state.key, buckets)
        self.index = {kind: [array("q") for _ in range(buckets)] for kind in JOINED}
        # groups: task groups of the states that ready-made rows name; heard: reviews that another bucket counts
        self.extra: list[Row] = [
            {"ready": {}, "groups": {}, "reviews": [], "heard": [], "held_out": [], "episodes": []}
            for _ in range(buckets)
        ]
        self.state_of: dict[str, SeenState] = {}  # by set id
        self.set_of_label: dict[str, str] = {}  # of labels whose id does not say it
        self.pool = Drawing(gathered.spec)

    # -- what names a state or a set --------------------------------------------------------------------------------

    def sets(self) -> None:
        """Candidate sets go to the bucket of their state."""
        g = self.g
        for source, file, line, row, place in self._all("candidate_sets"):
            set_id, state = row["set_id"], g.states.get(row["state_id"])
            if state is None or state.quarantined:
                why = f"no state {row['state_id']!r}" if state is None else "its state is in quarantine"
                self._excluded("candidate_sets", set_id, "no_state", f"{file.name}:{line.number} {why}")
                continue
            if set_id in self.state_of:
                g.tally.repeated[set_id] = row["state_id"]
            self.state_of[set_id] = state
            self.pool.set(set_id, source, place)
            self.index["candidate_sets"][state.bucket].extend(place)

    def judgements(self) -> None:
        """Labels and scores go to the bucket of the set they name."""
        legacy = LegacyDraws(self.g.spec.split)
        for found in self._all("teacher_labels"):
            if (state := self._joined("teacher_labels", "a label", found)) is not None:
                source, _, _, row, place = found
                state.labelled = True
                teacher = row.get("teacher") or source.constants.get("teacher")
                self._label(row.get("label_id") or teacher_labels.id_of(row["set_id"], teacher), state, found)
                self.pool.pick(row["set_id"], teacher, row["selection"])
                if legacy.holds_out(row):
                    self.extra[state.bucket]["held_out"].append((place[0], place[2]))  # (file, offset)
        for found in self._all("candidate_scores"):
            self._joined("candidate_scores", "a record of scores", found)
        self.g.tally.labelled_states = sum(state.labelled for state in self.g.states.values())

    def _label(self, label_id: str, state: SeenState, found: Found) -> None:
        """Where reviews of a label are heard. An id that labels of two sets have is an issue whatever the source
        declares: what rests on one of them would depend on which files they fall in."""
        _, file, line, row, _ = found
        set_id = row["set_id"]
        if label_id.startswith(f"{set_id}|") and nearest(label_id, self.state_of, self.g.states) is state:
            return
        if (other := self.set_of_label.setdefault(label_id, set_id)) != set_id:
            message = f"the id {label_id!r} is that of a label of the set {other!r}, too"
            self.g.issues.append(Issue(file.name, line.number, "$.label_id", message))

    def _joined(self, kind: str, what: str, found: Found) -> SeenState | None:
        """Index a record that names a set; None, and its place in the account, when there is no such set."""
        source, file, line, row, place = found
        set_id = row["set_id"]
        if (state := self.state_of.get(set_id)) is not None:
            self.index[kind][state.bucket].extend(place)
        elif set_id in self.g.states:
            message = f"{set_id!r} is a state, not a draw: {what} must name the candidate set it is about"
            path = "$.set_id" if kind == "candidate_scores" else "$.state_id"
            self.g.invalid(source, file, line, kind, [(path, message)], set_id, "base_state_id")
        else:
            detail = f"{file.name}:{line.number} no candidate set has this id"
            self._excluded(kind, set_id, "no_candidate_set", detail)
        return state

    def _excluded(self, kind: str, row_id: str, reason: str, detail: str) -> None:
        self.g.ledger.units_in[kind] += 1
        self.g.ledger.exclude(kind, kind, row_id, reason, detail)

    def _all(self, kind: str) -> Iterator[Found]:
        """Yield every record of a kind, read in place or copied, with where the bucket finds it."""
        for source, file in self.g.sources(kind):
            for line, row in self.g.rows_of(source, file):
                yield source, file, line, row, (file.index, line.number, line.offset, len(line.raw))
        for found in self.g.rows.get(kind, ()):
            line = jsonl.Line(found.line, 0, b"", True)
            row = {**found.about, "set_id": actors.qualified(self.g.spec, found.source, found.about["set_id"])}
            yield found.source, found.file, line, row, (COPIED, found.line, *found.place)

    # -- what stands for itself -------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Ready-made rows, reviews, episodes that are compared, and what all buckets have to know."""
        g = self.g
        labels = {label_id: self.state_of[set_id] for label_id, set_id in self.set_of_label.items()}
        homes = Homes(g.states, self.state_of, labels, g.ends, self.buckets)
        for kind in READY:
            homes.take(kind, g.rows.get(kind, ()))
            for found in g.rows.get(kind, ()):
                extra = self.extra[homes.ready(kind, found)]
                extra["ready"].setdefault(kind, []).append(found.place)
                if state := g.states.get(found.about["state_id"] or ""):
                    extra["groups"][found.about["state_id"]] = state.group
        for found in g.rows.get("reviews", ()):
            first, *others = homes.reviewed(str(found.about["item_id"]))
            self.extra[first]["reviews"].append(found.place)
            for bucket in others:
                self.extra[bucket]["heard"].append(found.place)
        for group, places in sorted(self._tasks().items()):
            if len(places) > 1:
                self.extra[bucket_of(group, self.buckets)]["episodes"].append(places)
        # Of ready-made rows no host is known, and the legacy rule decides later: then all may resemble validation.
        known = g.spec.split.rule == "task_group" and not g.spec.kinds.intersection(READY)
        hosts = sorted(g.hosts, key=str) if known else None
        for extra in self.extra:
            extra["hosts"] = hosts

    def _tasks(self) -> dict[str, list[Place]]:
        """Task group -> where the last states of its episodes stand, by episode id."""
        tasks: dict[str, list[Place]] = {}
        for _, end in sorted(self.g.ends.items()):
            if not self.g.states[end.state_id].quarantined:
                tasks.setdefault(end.task_group, []).append(end.place)
        return tasks

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self) -> list[int]:
        g = self.g
        states: list[list[Place]] = [[] for _ in range(self.buckets)]
        for state in g.states.values():
            if not state.quarantined:
                states[state.bucket].append(state.spill)
        exclusions: list[list[Row]] = [[] for _ in range(self.buckets)]
        for row in sorted(g.exclusions, key=lambda row: tuple(row.values())):  # not by which line came first
            exclusions[bucket_of(sha256_hex(row["source_id"]), self.buckets)].append(row)
        indexed = []
        for bucket, extra in enumerate(self.extra):
            stem = g.folder / f"bucket-{bucket:05d}"
            whole = {"states": states[bucket], "exclusions": exclusions[bucket], **extra}
            stem.with_suffix(".json").write_bytes(orjson.dumps(whole))
            for kind, arrays in self.index.items():
                stem.with_suffix(f".{kind}").write_bytes(arrays[bucket].tobytes())
            joined = sum(len(arrays[bucket]) for arrays in self.index.values()) // 4
            indexed.append(len(states[bucket]) + joined + sum(map(len, extra["ready"].values())))
        self.pool.write(g.folder, lambda set_id, place: self._again(self.state_of[set_id], place))
        return indexed

    def _again(self, state: SeenState, place: tuple[int, int, int, int]) -> tuple[str, list[str]]:
        """(task group of its state, responses) of a candidate set, read once more."""
        g = self.g
        number, _, offset, length = place
        if number == COPIED:
            return state.group, _read(g.folder / "rows.jsonl", offset, length)["row"]["responses"]
        file = g.files[number]
        source = g.spec.sources[file.source]
        importer = IMPORTERS[source.kind, source.format]
        assert isinstance(importer, RowImporter)
        record = _read(file.copy or file.path, offset, length)
        record = g.redaction(record) if g.redaction else record
        return state.group, importer.read(record, context_of(source, file))["responses"]


def _read(path: Path, offset: int, length: int) -> Row:
    with path.open("rb") as file:
        file.seek(offset)
        found: Row = orjson.loads(file.read(length))
        return found
