"""Build one bucket: everything about its states, from index file to Parquet, alone and in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..schemas.actions import Parsed, View
from ..schemas.errors import Issue
from ..schemas.ids import sha256_hex
from ..schemas.images import CheckedImage, ImageChecker, ImageError
from ..schemas.store import ID_FIELDS
from . import candidate_scores, candidate_sets, collector, legacy, states, teacher_labels
from .dealt import Dealt, Record
from .ledger import Claim, Ledger, Row
from .ready_rows import ReadyRows
from .reviews import Reviews
from .scene import Scene
from .spec import BuildSpec
from .training_rows import TrainingRows
from .writer import TableWriter, Target, WrittenFile


@dataclass(frozen=True)
class Job:
    """What a worker needs to build one bucket. ``out`` is None for a check that writes nothing."""

    spec: BuildSpec
    folder: Path  # of the partition
    files: tuple[tuple[str, Path, int], ...]  # (name, path, position of the source) in the partition's order
    bucket: int
    buckets: int
    out: Path | None


@dataclass
class BucketResult:
    """What a bucket came to. Counters add up over buckets."""

    files: list[WrittenFile] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    notes: list[Issue] = field(default_factory=list)
    units_in: Counter[str] = field(default_factory=Counter)
    units_out: Counter[str] = field(default_factory=Counter)
    excluded: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    statistics: Counter[tuple[str, ...]] = field(default_factory=Counter)
    seen: dict[tuple[str, str], bytes] = field(default_factory=dict)  # (table, split) -> distinct rendered digests
    groups: dict[str, set[bytes]] = field(default_factory=dict)  # fact -> distinct hashed values, for the card's counts
    audits: Row = field(default_factory=dict)  # as `Audits.partial` gives it


def build_bucket(job: Job) -> BucketResult:
    """Build (or only check) one bucket. A plain function of its job: any executor may run it."""
    with collector.paused():
        return _Bucket(job).run()


class _Bucket:
    def __init__(self, job: Job) -> None:
        self.job, self.spec = job, job.spec
        self.result = BucketResult()
        self.blobs: dict[str, bytes] = {}
        target = Target(job.out, job.bucket, job.buckets, self.blobs) if job.out else None
        self.tables = {t: TableWriter(t, job.spec.images.get(t, "embed"), target) for t in job.spec.published}
        self.spoken: dict[str, tuple[str, str | None]] = {}  # state id -> dialect and space of its own record
        self.splits: tuple[dict[str, str], dict[str, str]] | None = None  # by state and set, of the legacy rule
        self.held_out: set[tuple[int, ...]] = set()
        # No lambda over self: a bucket in a reference cycle would stay in memory beside the next one.
        self.ledger = Ledger(partial(self.tables["exclusions"].add, split="train"))
        self.training = TrainingRows(job.spec, self.ledger, self.tables, self.result.statistics, job.folder, self.blobs)
        self.audits = self.training.audits
        self.contents: dict[str, str] = {}  # state id -> what stands for all that can be seen of it
        self.judged: list[tuple[list[Row], Scene]] = []  # sets of states that look the same, until the last of them

    def run(self) -> BucketResult:
        dealt = Dealt(self.spec, self.job.folder, self.job.files, self.job.bucket)
        index = dealt.index
        self.audits.hosts = None if index["hosts"] is None else frozenset(index["hosts"])
        for row in index["exclusions"]:
            self.tables["exclusions"].add(row, split="train")
        self.reviews = Reviews(dealt.copied(index["reviews"]), dealt.copied(index["heard"]))
        self.training.reviews = self.reviews
        sets = dealt.grouped("candidate_sets", "set_id")
        labels = dealt.grouped("teacher_labels", "set_id")
        scores = dealt.grouped("candidate_scores", "set_id")
        self.held_out = {tuple(place) for place in index["held_out"]}
        if self.spec.split.rule == "legacy_draws":
            self.splits = legacy.splits(*self._draws(sets, labels))
        built = self._states(dealt)
        covered = set()
        looked = ""
        for set_id in sorted(sets, key=lambda s: (self._group(built.get(sets[s][0].imported["state_id"])), s)):
            if record := self._one("candidate_sets", set_id, sets.pop(set_id)):
                state = built.get(record.imported["state_id"])
                if state is None:
                    self.ledger.units_in["candidate_sets"] += 1
                    detail = "its state was excluded"
                    self.ledger.exclude("candidate_sets", "candidate_sets", set_id, "no_state", detail)
                else:
                    covered.add(state["state_id"])
                    if (content := self.contents[state["state_id"]]) != looked:
                        self._train()
                        looked = content
                    self._set(record, state, labels.pop(set_id, []), scores.pop(set_id, []))
        self._train()
        for kind, left in (("teacher_labels", labels), ("candidate_scores", scores)):
            for set_id in sorted(left):
                for record in left[set_id]:
                    self.ledger.units_in[kind] += 1
                    detail = f"{record.file}:{record.line} its set was excluded"
                    self.ledger.exclude(kind, kind, set_id, "no_candidate_set", detail)
        self._coverage("states", sorted(built), covered, "no_candidate_set")
        for places in index["episodes"]:
            self.training.compare_episodes(dealt.ends(places))
        ready = ReadyRows(self.spec, self.ledger, self.training, self.blobs, index["groups"])
        for kind, places in index["ready"].items():
            ready.add(kind, list(dealt.copied(places)))
        self.result.issues += ready.issues
        self.result.notes += ready.notes
        self.training.finish(self._train_screenshots(built))
        if "reviews" in self.tables:
            take = partial(self.tables["reviews"].add, split="train")
            self.reviews.account(self.ledger, take, self._bad_review, self.result.statistics)
        return self._close()

    # -- states -------------------------------------------------------------------------------------------------

    def _states(self, dealt: Dealt) -> dict[str, Row]:
        checker = ImageChecker()
        built: dict[str, Row] = {}
        for record, data in dealt.states():
            image, given = None, None
            if data is not None:
                try:
                    image = checker.check(data)
                    given = sha256_hex(data) if image.ops else image.sha256
                except ImageError as error:
                    self._bad_image(record, error)
                    continue
            self.contents[record["row"]["state_id"]] = states.content(record["row"], given)
            self._state(record, image, built)
        for row in sorted(built.values(), key=lambda row: (self._group(row), row["state_id"])):
            self._add("states", row)
        return built

    def _state(self, record: Row, image: CheckedImage | None, built: dict[str, Row]) -> None:
        split = self.splits[0].get(record["row"]["state_id"], "train") if self.splits else None
        row = states.build(record["row"], record["source"], image, self.spec.split, split)
        source = self.spec.sources[record["declared"]]
        self.spoken[row["state_id"]] = source.dialect or "", source.space
        if image:
            self.blobs.setdefault(f"sha256:{image.sha256}", image.data)
        built[row["state_id"]] = row
        self.audits.state(row, self.contents[row["state_id"]], image)
        count = self.result.statistics
        count["states", row["split"]] += 1
        count["screenshots", "with" if image else "without"] += 1
        for op in row["screenshot_ops"]:
            count["screenshot_ops", op] += 1
        for fact in ("episode_id", "task_group", "host", "screenshot_sha256"):
            if row[fact] is not None:
                name = f"{fact}/{row['split']}"
                self.result.groups.setdefault(name, set()).add(bytes.fromhex(sha256_hex(row[fact])[:16]))

    def _bad_image(self, record: Row, error: ImageError) -> None:
        state_id = record["row"]["state_id"]
        message = f"screenshot of {state_id}: {error.message}"
        issue = Issue(record["source"]["file"], record["line"], record["where"], message)
        self._bad(record, issue, "states", state_id, error.reason, error.message)

    # -- candidate sets and labels --------------------------------------------------------------------------------

    def _draws(
        self, sets: dict[str, list[Record]], labels: dict[str, list[Record]]
    ) -> tuple[dict[str, str], dict[str, list[bool]]]:
        """(set id -> state id, set id -> for each label that names a candidate, whether it is held out)."""
        states_of = {set_id: str(records[0].imported["state_id"]) for set_id, records in sets.items()}
        picked = {
            set_id: [r.place in self.held_out for r in records if r.imported["selection"] is not None]
            for set_id, records in labels.items()
        }
        return states_of, picked

    def _one(self, stage: str, row_id: str, records: list[Record]) -> Record | None:
        """The one record of an id: repeats are excluded; other contents are an error, or in quarantine all of them."""
        if len(records) == 1:
            return records[0]
        ordered = sorted(records, key=lambda r: (r.file, r.line))
        claims = [Claim(r.file, r.line, r.content, r.declared.on_conflict) for r in ordered]
        stands, issues = self.ledger.settle(stage, row_id, claims)
        self.result.issues += issues
        return ordered[0] if stands else None

    def _set(self, record: Record, state: Row, label_records: list[Record], score_records: list[Record]) -> None:
        declared = record.declared
        assert declared.space is not None
        assert declared.dialect is not None
        view = View(declared.space, state["width"], state["height"], state["elements"])
        split = self.splits[1].get(record.imported["set_id"], "train") if self.splits else state["split"]
        row, parsed = candidate_sets.build(record.imported, declared, record.source, split, view)
        self._add("candidate_sets", row)
        self.audits.candidate_set(row, parsed, view)
        count = self.result.statistics
        count["candidate_sets", row["split"]] += 1
        count["distinct_actions", str(row["distinct_actions"])] += 1
        count["set_size", str(row["n"])] += 1
        temperature = row["sampling"]["temperature"]
        count["temperature", "not recorded" if temperature is None else f"{temperature:g}"] += 1
        count["unparsed_candidates", "all"] += sum(p.parse_error is not None for p in parsed)
        labels, answered = self._labels(label_records, row, parsed)
        scores = self._scores(score_records, row)
        judged = bool(labels or scores)
        self._coverage("candidate_sets", [row["set_id"]], {row["set_id"]} if judged else set(), "no_label")
        if judged:
            scene = Scene(row, parsed, view, state, declared.dialect, self.spoken[state["state_id"]], scores, answered)
            self.judged.append((labels, scene))

    def _train(self) -> None:
        """Make training rows of the judged sets, now that all labels of states that look the same are known."""
        quarantined = self.audits.judged(self.judged)
        for labels, scene in self.judged:
            self.training.add(labels, scene, quarantined)
        self.training.settle()
        self.judged.clear()

    def _scores(self, records: list[Record], set_row: Row) -> candidate_scores.Scores:
        """The scores of a set, by what made them; records that do not fit the set are excluded."""
        by_source: dict[str, list[Record]] = {}
        for record in records:
            by_source.setdefault(candidate_scores.source_of(record.imported, record.declared), []).append(record)
        found: candidate_scores.Scores = {}
        for source, same in sorted(by_source.items()):
            score_id = f"{set_row['set_id']}|{source}"
            if (kept := self._one("candidate_scores", score_id, same)) is None:
                continue
            self.ledger.units_in["candidate_scores"] += 1
            scores = kept.imported["scores"]
            if len(scores) != set_row["n"]:
                detail = f"{kept.file}:{kept.line} {len(scores)} scores for {set_row['n']} candidates"
                self.ledger.exclude("candidate_scores", "candidate_scores", score_id, "wrong_size", detail)
                continue
            self.ledger.units_out["candidate_scores"] += 1
            found[source] = scores
        return found

    def _labels(self, records: list[Record], set_row: Row, parsed: list[Parsed]) -> tuple[list[Row], dict[str, Row]]:
        """(the labels of a set as training rows see them, those of them that a person answered as they were given)."""
        built: dict[str, list[tuple[Record, Row]]] = {}
        for record in records:
            split = set_row["split"]
            if self.splits:
                split = "validation" if record.place in self.held_out else "train"
            row = teacher_labels.build(record.imported, record.declared, record.source, set_row, parsed, split)
            built.setdefault(row["label_id"], []).append((record, row))
        labels = []
        answered: dict[str, Row] = {}
        for label_id, rows in sorted(built.items()):
            if kept := self._one("teacher_labels", label_id, [record for record, _ in rows]):
                label = next(row for record, row in rows if record is kept)
                self._add("teacher_labels", label)
                count = self.result.statistics
                count["label_status", label["status"]] += 1
                if label["status"] == "ok":
                    count["picked_slot", str(label["selected_index"])] += 1
                if (index := self.reviews.answer(label, len(parsed))) is not None:
                    answered[label_id] = label
                    label = teacher_labels.answered(label, index, parsed)
                labels.append(label)
        return labels, answered

    def _bad_review(self, record: Row, problem: str) -> None:
        issue = Issue(record["source"]["file"], record["line"], "$.selected_index", problem)
        detail = f"{issue.path} {issue.message}"
        self._bad(record, issue, "reviews", record["row"]["item_id"], "invalid_record", detail)

    def _bad(self, record: Row, issue: Issue, table: str, unit_id: str, reason: str, detail: str) -> None:
        """What is wrong with a record stops the build, or takes its unit out where the source declares so."""
        if self.spec.sources[record["declared"]].on_invalid == "error":
            self.result.issues.append(issue)
            return
        self.result.notes.append(issue)
        self.ledger.units_in[table] += 1
        self.ledger.exclude(table, table, unit_id, reason, detail)

    def _coverage(self, table: str, ids: list[str], covered: set[str], reason: str) -> None:
        self.ledger.units_in["coverage"] += len(ids)
        for row_id in ids:
            if row_id in covered:
                self.ledger.units_out["coverage"] += 1
            else:
                self.ledger.exclude("coverage", table, row_id, reason)

    # -- closing ------------------------------------------------------------------------------------------------

    def _add(self, table: str, row: Row) -> None:
        self.ledger.units_in[table] += 1
        self.ledger.units_out[table] += 1
        self.reviews.met(table, row[ID_FIELDS[table]])
        if table in self.tables:
            self.tables[table].add(row)

    def _group(self, state: Row | None) -> tuple[str, str]:
        """What rows are written together by: the screenshot, so that it repeats within one row group, then content."""
        return ("", "") if state is None else (str(state["screenshot_sha256"] or ""), self.contents[state["state_id"]])

    def _train_screenshots(self, built: Mapping[str, Row]) -> set[str]:
        if not self.spec.split.isolate_screenshots:
            return set()
        return {s["screenshot_sha256"] for s in built.values() if s["split"] == "train" and s["screenshot_sha256"]}

    def _close(self) -> BucketResult:
        result = self.result
        result.units_in, result.units_out, result.excluded = (
            self.ledger.units_in, self.ledger.units_out, self.ledger.excluded,
        )  # fmt: skip
        result.seen = self.training.seen()
        result.audits = self.audits.partial()
        for table in self.tables.values():
            result.files += table.close()
        return result
