"""Read all sources as a build would, publish no table, and say what they hold and what cannot be taken."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..schemas.built import built_rows
from ..schemas.errors import Issue
from ..schemas.store import TABLES
from . import executors, manifest
from .bucket import BucketResult, build_bucket
from .gathering import Progress, failure
from .ledger import Row
from .partition import Partition, partition
from .spec import BuildSpec
from .tally import Tally


@dataclass(frozen=True)
class Survey:
    """What the sources came to.

    ``identity`` is that of a build without tables: its ledger, statistics and sources. ``notes`` are the located
    problems of records that cannot be used, ``exclusions`` the rows of that table but for those of `coverage`.
    """

    identity: dict[str, Any]
    notes: tuple[Issue, ...]
    exclusions: tuple[Row, ...]
    tally: Tally


def survey(spec: BuildSpec, *, workers: int | None = None, progress: Progress = lambda *_: None) -> Survey:
    """Survey the sources of ``spec``, whose tables are not looked at.

    Broken records are notes and ids with two contents go into quarantine, whatever the sources declare. Raises ArmError
    when a file changes meanwhile.
    """
    lenient = tuple(replace(source, on_invalid="exclude", on_conflict="quarantine") for source in spec.sources)
    bare = replace(
        spec, sources=lenient, tables=(), images={}, selection=None, pairs=None, pointwise=None, actor_sft=None,
        tokens=None, benchmarks=(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="arm-survey-") as folder:
        work, made = Path(folder), Path(folder, "made")
        made.mkdir()
        parts = partition(bare, work, progress)
        results = list(_results(bare, parts, made, workers, progress))
        issues = [*parts.issues, *(issue for result in results for issue in result.issues)]
        if issues:
            raise failure(issues)
        ledger = manifest.account_of(parts, results)
        identity = manifest.assemble(bare, parts, results, ledger, [])
        exclusions = tuple(_exclusions(made, results))
    notes = sorted([*parts.notes, *(note for result in results for note in result.notes)])
    return Survey(identity, tuple(notes), exclusions, parts.tally)


def _results(
    spec: BuildSpec, parts: Partition, made: Path, workers: int | None, progress: Progress
) -> Iterator[BucketResult]:
    used = min(workers or os.cpu_count() or 1, parts.buckets)
    total, done = sum(parts.records), 0
    progress("checking", done, total)
    try:
        for job, result in executors.results(build_bucket, parts.jobs(spec, made), used, None):
            done += parts.records[job.bucket]
            progress("checking", done, total)
            yield result
    finally:  # in a changed file they read nonsense
        parts.refuse_changed()


def _exclusions(made: Path, results: Sequence[BucketResult]) -> Iterator[Row]:
    paths = sorted({file.path for result in results for file in result.files if file.table == "exclusions"})
    for path in paths:
        yield from (row for row in built_rows(made / path, TABLES["exclusions"]) if row["stage"] != "coverage")
