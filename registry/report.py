"""The report of an import: plain data, from what was found in the files and what a build would make of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..builders.ledger import Row
from ..builders.spec import READY, SourceSpec
from ..builders.survey import Survey
from ..schemas.errors import Issue
from ..schemas.images import IMAGE_REASONS
from .files import as_text
from .sniff import Folder

_LINE = re.compile(r":([0-9]+) ")
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9][0-9,.]*")  # what differs between problems of one sort


@dataclass(frozen=True)
class File:
    """A file that is read. ``items``: kind -> what its valid records hold; ``broken``: records that are not valid."""

    path: str
    kind: str
    format: str
    records: int
    items: Mapping[str, int]
    broken: int


@dataclass(frozen=True)
class Speech:
    """How the responses of a format write actions; of the ``responses`` in a sample, ``read`` are in that dialect."""

    format: str
    dialect: str
    space: str
    responses: int
    read: int


@dataclass(frozen=True)
class Conflict:
    """One id with several contents; ``places`` are all of them, as file:line."""

    kind: str
    id: str
    state_id: str | None
    places: tuple[str, ...]


@dataclass(frozen=True)
class NotTaken:
    """Records that cannot be used for one reason. ``places`` are all of them, located as far as that is known."""

    kind: str
    reason: str
    places: tuple[Issue, ...]


@dataclass(frozen=True)
class Report:
    """``refused``: (file, reason). ``temperatures``, ``actors``, ``teachers``: value -> records, null where unknown."""

    place: str
    files: tuple[File, ...]
    refused: tuple[tuple[str, str], ...]
    counts: Mapping[str, int]
    temperatures: tuple[tuple[float | None, int], ...]
    actors: tuple[tuple[str | None, int], ...]
    teachers: tuple[tuple[str | None, int], ...]
    speech: tuple[Speech, ...]
    conflicts: tuple[Conflict, ...]
    not_taken: tuple[NotTaken, ...]
    remarks: tuple[Issue, ...]

    @property
    def broken(self) -> frozenset[str]:
        """Names of the files with records that stop a build unless they are declared to be excluded."""
        return frozenset(file.path for file in self.files if file.broken)

    @property
    def contested(self) -> frozenset[str]:
        """Names of the files that hold a record of an id with several contents."""
        return frozenset(place.rpartition(":")[0] for conflict in self.conflicts for place in conflict.places)

    def told(self, name: str) -> str:
        """One line about a file."""
        file = next(file for file in self.files if file.path == name)
        contested = sum(place.rpartition(":")[0] == name for c in self.conflicts for place in c.places)
        parts = [f"{file.records:,} record{'s' if file.records != 1 else ''}"]
        parts += [f"{file.broken:,} of them broken"] * bool(file.broken)
        return ", ".join([*parts, *[f"{contested:,} with an id that has other content elsewhere"] * bool(contested)])

    def to_json(self) -> dict[str, Any]:
        def shares(counted: Sequence[tuple[Any, int]], name: str) -> list[dict[str, Any]]:
            total = sum(n for _, n in counted)
            return [{name: value, "records": n, "share": round(n / total, 4)} for value, n in counted]

        return {
            "place": self.place,
            "files": [asdict(file) for file in self.files],
            "refused": [{"path": path, "reason": reason} for path, reason in self.refused],
            "counts": dict(self.counts),
            "temperatures": shares(self.temperatures, "temperature"),
            "actors": shares(self.actors, "actor"),
            "teachers": shares(self.teachers, "teacher"),
            "speech": [asdict(speech) for speech in self.speech],
            "conflicts": [asdict(conflict) for conflict in self.conflicts],
            "not_taken": [
                {
                    "kind": n.kind,
                    "reason": n.reason,
                    "records": len(n.places),
                    "places": [p.to_json() for p in n.places],
                }
                for n in self.not_taken
            ],
            "remarks": [remark.to_json() for remark in self.remarks],
        }


def report(place: Path, found: Folder, specs: Sequence[SourceSpec], surveyed: Survey) -> Report:
    """The report of ``found``, of which ``specs`` were surveyed, one for each of its sources."""
    tally, notes = surveyed.tally, Counter(surveyed.notes) - Counter(surveyed.tally.remarks)
    broken = Counter(name for name, _ in {(note.file, note.line) for note in notes})
    records = {f["path"]: f["records"] for source in surveyed.identity["sources"] for f in source["files"]}
    files = []
    for spec in specs:
        ((name, _),) = spec.files
        items = {kind: n for (file, kind), n in sorted(tally.kinds.items()) if file == name}
        files.append(File(name, spec.kind, spec.format, records[name], items, broken[name]))
    conflicts = tuple(_conflicts(surveyed, set(records)))
    return Report(
        place=as_text(place),
        files=tuple(files),
        refused=tuple((as_text(path), why) for path, why in found.skipped),
        counts=_counts(surveyed, conflicts),
        temperatures=_facts(tally.facts, "temperature"),
        actors=_facts(tally.facts, "actor"),
        teachers=_facts(tally.facts, "teacher"),
        speech=tuple(_speech(found, specs)),
        conflicts=conflicts,
        not_taken=tuple(_not_taken(sorted(notes.elements()), surveyed.exclusions, set(records))),
        remarks=tuple(sorted(tally.remarks)),
    )


def _counts(surveyed: Survey, conflicts: Sequence[Conflict]) -> dict[str, int]:
    """What the sources hold, whatever is then put aside.

    Of episodes, tasks and screenshots: how many distinct ones the states that are taken have; of sets: distinct ids,
    whether they are taken or not; of states with a label: all whose set a label names.
    """
    kinds, facts = Counter[str](), surveyed.tally.facts
    for (_, kind), n in surveyed.tally.kinds.items():
        kinds[kind] += n
    statistics, ledger = surveyed.identity["statistics"], surveyed.identity["ledger"]
    contested = [conflict for conflict in conflicts if conflict.kind == "candidate_sets"]
    lost = {
        row["source_id"]
        for row in surveyed.exclusions
        if row["stage"] == "candidate_sets" and row["reason"] in ("conflicting_id", "no_state")
    }
    counts = {}
    if kinds["states"]:
        counts["states"] = kinds["states"]
        for name, fact in (("episodes", "episode_id"), ("tasks", "task_group"), ("screenshots", "screenshot_sha256")):
            split = statistics["distinct"].get(fact, {"train": 0, "validation": 0, "both": 0})
            counts[name] = split["train"] + split["validation"] - split["both"]
    if kinds["candidate_sets"]:
        counts |= {
            "candidate_records": kinds["candidate_sets"],
            "candidate_sets": ledger["candidate_sets"]["out"] + len(lost),
            "candidates": facts["candidates", None],
            "taken_candidates": sum(int(size) * n for size, n in statistics.get("set_size", {}).items()),
            "unread_candidates": statistics.get("unparsed_candidates", {}).get("all", 0),
            "conflicting_ids": len(contested),
            "conflicting_states": len({conflict.state_id for conflict in contested}),
        }
    if kinds["teacher_labels"]:
        counts |= {
            "labels": kinds["teacher_labels"],
            "null_labels": facts["null_labels", None],
            "labelled_states": surveyed.tally.labelled_states,
        }
    if kinds["candidate_scores"]:
        counts |= {
            "score_records": kinds["candidate_scores"],
            "scored_candidates": facts["scored_candidates", None],
        }
    return counts | {kind: kinds[kind] for kind in (*READY, "reviews") if kinds[kind]}


def _facts(facts: Mapping[tuple[str, Any], int], what: str) -> tuple[tuple[Any, int], ...]:
    found = {value: n for (name, value), n in facts.items() if name == what}
    return tuple(sorted(found.items(), key=lambda item: (item[0] is None, item[0])))


def _speech(found: Folder, specs: Sequence[SourceSpec]) -> Iterator[Speech]:
    said = {spec.format: (spec.dialect, spec.space) for spec in specs if spec.dialect and spec.space}
    for fmt, (dialect, space) in said.items():
        heard = found.spoken[fmt]
        read = heard.read if heard.dialect == dialect else heard.read_as.get(dialect, 0)
        yield Speech(fmt, dialect, space, heard.responses, read)


def _conflicts(surveyed: Survey, names: set[str]) -> Iterator[Conflict]:
    places: dict[tuple[str, str], list[str]] = {}
    for row in surveyed.exclusions:
        if row["reason"] == "conflicting_id" and (found := _placed(row["detail"], names)):
            places.setdefault((row["stage"], row["source_id"]), []).append(f"{found[0]}:{found[1]}")
    for (kind, row_id), where in sorted(places.items()):
        state_id = row_id if kind == "states" else surveyed.tally.repeated.get(row_id.split("|")[0])
        yield Conflict(kind, row_id, state_id, tuple(sorted(where, key=_by_line)))


def _placed(detail: str, names: set[str]) -> tuple[str, int, str] | None:
    """(File, line, why) of a detail that begins with the place of a record, in one of the files ``names``."""
    for found in _LINE.finditer(detail):
        if detail[: found.start()] in names:
            return detail[: found.start()], int(found[1]), detail[found.end() :]
    return None


def _by_line(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return file, int(line)


def _not_taken(notes: Iterable[Issue], exclusions: Iterable[Row], names: set[str]) -> Iterator[NotTaken]:
    """Problems of one sort together: those with a note by what the notes say, the others by their reason."""
    groups: dict[tuple[str, str], list[Issue]] = {}
    for note in notes:
        sort = f"{_VARYING.sub('…', note.path)} {_VARYING.sub('…', note.message)}"
        groups.setdefault((note.file, sort), []).append(note)
    yield from (NotTaken(file, sort, tuple(found)) for (file, sort), found in groups.items())
    others: dict[tuple[str, str], list[Issue]] = {}
    for row in exclusions:
        if _is_noted(row) or row["reason"] == "conflicting_id":
            continue
        if found := _placed(row["detail"], names):
            issue = Issue(found[0], found[1], "$", f"{row['source_id']}: {found[2]}")
        else:
            issue = Issue(row["source_table"], 0, row["source_id"], row["detail"] or row["reason"])
        others.setdefault((row["stage"], row["reason"]), []).append(issue)
    yield from (NotTaken(stage, reason, tuple(sorted(found))) for (stage, reason), found in sorted(others.items()))


def _is_noted(row: Row) -> bool:
    """Whether an exclusion has a note, which says file and line: its detail then begins with the path in the record."""
    return bool(row["detail"].startswith("$")) or row["reason"] in IMAGE_REASONS
