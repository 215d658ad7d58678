"""Rows that come ready-made: another project's training rows, checked, split and accounted for like our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..prompts.render import rendered_sha256
from ..schemas.actions import View
from ..schemas.errors import Issue
from ..schemas.ids import canonical_json, sha256_hex, task_group
from ..schemas.images import CheckedImage, ImageChecker, ImageError
from ..schemas.store import ID_FIELDS
from .ledger import Claim, Ledger, Row
from .ready_pairs import ReadyPairs
from .spec import BuildSpec
from .splits import split_of
from .training_rows import SOURCES, TrainingRows


class ReadyRows:
    """Takes the copied records of one bucket, kind by kind. ``issues`` stop the build, ``notes`` are only told.

    ``groups`` are the task groups of states of this dataset: a row that names one of them shares its split.
    """

    def __init__(
        self, spec: BuildSpec, ledger: Ledger, training: TrainingRows, blobs: dict[str, bytes],
        groups: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._spec, self._ledger, self._training, self._blobs = spec, ledger, training, blobs
        self._groups = groups
        self._checker = ImageChecker()
        self._pairs = ReadyPairs(spec.pair_rules)
        self.issues: list[Issue] = []
        self.notes: list[Issue] = []

    def add(self, kind: str, records: Sequence[Row]) -> None:
        """Make the rows of one table. ``records`` hold ``row``, ``images`` (bytes), ``task``, ``source``, ``line``."""
        by_id: dict[str, list[Row]] = {}
        for record in records:
            by_id.setdefault(record["row"][ID_FIELDS[kind]], []).append(record)
        for row_id, same in sorted(by_id.items()):
            self._training.reviews.met(kind, row_id)
            same.sort(key=lambda r: (r["source"]["file"], r["line"]))
            if len(same) > 1:
                stands, issues = self._ledger.settle(kind, row_id, [self._claim(record) for record in same])
                self.issues += issues
                if not stands:
                    continue
            self._row(kind, row_id, same[0])

    def _claim(self, record: Row) -> Claim:
        pictures = [sha256_hex(image) for image in record["images"]]
        # the task decides the split, so that it must not be that of whichever record came first
        content = canonical_json([record["row"], record["task"], pictures]).encode()
        how = self._spec.sources[record["declared"]].on_conflict
        return Claim(record["source"]["file"], record["line"], content, how)

    def _row(self, kind: str, row_id: str, record: Row) -> None:
        checked: list[CheckedImage] = []
        for data in record["images"]:
            try:
                image = self._checker.check(data)
            except ImageError as error:
                self._bad_image(kind, row_id, record, error)
                return
            self._blobs.setdefault(f"sha256:{image.sha256}", image.data)
            checked.append(image)
        images = [image.sha256 for image in checked]
        self._ledger.units_in[kind] += 1
        if reason := self._training.reviewed(kind, row_id):
            self._ledger.exclude(kind, SOURCES[kind], row_id, reason)
            return
        unit = images[-1] if images else sha256_hex(canonical_json(record["row"]["prompt"]))
        group = self._groups.get(record["row"].get("state_id") or "") or task_group(record["task"], unit)
        split = "validation" if kind == "bench_items" else split_of(group, self._spec.split)
        row = {**record["row"], "images": [f"sha256:{sha}" for sha in images], "split": split}
        row["rendered_sha256"] = rendered_sha256(row["prompt"], images)
        if kind == "bt_pairs":
            declared = self._spec.sources[record["declared"]]
            assert declared.dialect is not None
            size = (checked[-1].width, checked[-1].height) if checked else (None, None)
            verdict = self._pairs.judge(row, declared.dialect, View(declared.space or "", *size))
            lifted = verdict.status == "quarantined" and self._training.reviews.verdict(kind, row_id) == "keep"
            if verdict.reason and not lifted:
                self._ledger.exclude(kind, SOURCES[kind], row_id, verdict.reason, status=verdict.status)
                return
            row |= {"relation": verdict.relation, "pair_type": verdict.pair_type}
        if self._is_made(kind, row_id, record, row):
            return
        self._training.audits.ready(kind, row, record["task"], group, checked)
        self._training.keep(kind, row)

    def _is_made(self, kind: str, row_id: str, record: Row, row: Row) -> bool:
        """Whether the dataset makes a row of this id itself, which stands; with other content that is an issue, or
        declared."""
        same = self._training.repeats(kind, row)
        if same is None:
            return False
        place, source = f"{record['source']['file']}:{record['line']}", self._spec.sources[record["declared"]]
        if same:
            self._ledger.exclude(kind, SOURCES[kind], row_id, "duplicate_record", f"{place} repeats a row made here")
        elif source.on_conflict == "quarantine":
            detail = f"{place} one id, two contents: this and the row made here"
            self._ledger.exclude(kind, SOURCES[kind], row_id, "conflicting_id", detail, "quarantined")
        else:
            message = f"the id {row_id!r} is that of a row made of this dataset's own records, with other content"
            self.issues.append(Issue(record["source"]["file"], record["line"], "$", message))
        return True

    def _bad_image(self, kind: str, row_id: str, record: Row, error: ImageError) -> None:
        issue = Issue(
            record["source"]["file"], record["line"], record["where"], f"picture of {row_id}: {error.message}"
        )
        if self._spec.sources[record["declared"]].on_invalid == "error":
            self.issues.append(issue)
            return
        self.notes.append(issue)
        self._ledger.units_in[kind] += 1
        self._ledger.exclude(kind, SOURCES[kind], row_id, error.reason, error.message)
