"""Run a build: partition, buckets on an executor, gates, manifest last, and the finished folder moved into place."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..prompts.render import Prompt
from ..schemas import gates
from ..schemas.errors import ArmError, Issue, UsageError
from ..schemas.ids import file_sha256
from . import executors, processor
from . import manifest as manifests
from .audits import benchmarks
from .bucket import BucketResult, Job, build_bucket
from .cluster import Cluster
from .gathering import Progress, failure
from .partition import Partition, partition
from .published import write_figures, write_loader, write_prompts, write_schemas
from .spec import BuildSpec
from .views import load
from .workspace import Kept, refuse_foreign, workspace

# Renders README.md from the manifest; the cards live on this floor too, so that the caller hands them in.
Card = Callable[[dict[str, Any]], str]
# Draws pictures for the card from the manifest's identity: path in the build -> bytes.
Figures = Callable[[dict[str, Any]], Mapping[str, bytes]]


@dataclass(frozen=True)
class Built:
    """A finished build.

    ``notes``: records sent to exclusions by declaration. ``warnings``: gates that only warn. ``resumed``: how many of
    ``buckets`` an earlier run had finished that did not come to its end.
    """

    folder: Path
    manifest: dict[str, Any]
    notes: tuple[Issue, ...]
    warnings: tuple[str, ...]
    resumed: int
    buckets: int


def build(
    spec: BuildSpec,
    out: Path,
    *,
    card: Card,
    figures: Figures = lambda _: {},
    workers: int | None = None,
    executor: Executor | None = None,
    enforce: bool = True,
    progress: Progress = lambda *_: None,
) -> Built:
    """Build ``spec`` into the folder ``out`` and return it.

    ``executor`` is any `concurrent.futures` executor whose workers see the same files; without one, ``workers`` local
    processes (default: the CPUs, never more than buckets) are used. The rows and their digests do not depend on it.
    Everything is made in a folder beside ``out`` and moved there when it is complete: a failed or killed build leaves
    the old folder as it was. One that was killed or interrupted, or that lost its workers, also leaves its finished
    buckets, and the next build of the same sources with the same parameters and code goes on from there. Without
    ``enforce`` violated gates only warn. Raises ArmError for problems of the sources, gates and prompts, and while
    another process builds ``out``.
    """
    started = time.monotonic()
    out = out.resolve()  # through a link: the folder it leads to is replaced, not the link
    prompts = _prompts(spec)
    with workspace(out) as work:
        work.keep = True  # nothing is known yet against what an earlier run had finished
        refuse_foreign(out, spec.name)
        if isinstance(executor, Cluster):
            read = [path for source in spec.sources for _, path in source.files]
            executor.inspect(work.run, [*read, *(processor.files(spec.tokens.folder) if spec.tokens else ())])
        work.keep = False
        parts = partition(spec, work.run, progress)
        if parts.issues:
            raise failure(parts.issues)
        kept = work.adopt(manifests.fingerprint(spec, parts))
        found = {bucket: result for bucket in range(parts.buckets) if (result := kept.get(bucket))}
        at_once = executor.workers if isinstance(executor, Cluster) else workers or os.cpu_count() or 1
        used = min(at_once, parts.buckets)
        try:
            results = _run(spec, parts, kept, found, used, executor, progress)
        except executors.LostWorkersError:
            work.keep = True
            raise
        issues = [issue for result in results for issue in result.issues]
        if issues:
            raise failure(issues)
        parts.refuse_changed()
        ledger = manifests.account_of(parts, results)
        identity = manifests.assemble(spec, parts, results, ledger, prompts)
        violated = gates.violations(identity)
        if violated and enforce:
            raise gates.refusal(violated)
        warnings = [f"{v.message}; publishing will refuse it without {v.allow}" for v in violated]
        warnings += gates.warnings(identity) + _empty(identity)
        kept.sweep(results)
        files = {
            f.path: {"sha256": f.sha256, "bytes": f.stored_bytes} for result in results for f in result.files
        } | _described(kept.made, spec, prompts, figures(identity))
        env = manifests.environment(files, used, time.monotonic() - started, processor.packages(spec.tokens))
        manifest = manifests.write(kept.made, identity, env)
        (kept.made / "README.md").write_text(card(manifest), "utf-8")
        work.replace(out)
    notes = sorted([*parts.notes, *(note for result in results for note in result.notes)])
    return Built(out, manifest, tuple(notes), tuple(warnings), len(found), parts.buckets)


def check(
    spec: BuildSpec, *, workers: int | None = None, progress: Progress = lambda *_: None
) -> tuple[list[Issue], dict[str, Any]]:
    """Read everything as a build would, write nothing, and return (all issues, the account per stage)."""
    prompts = _prompts(spec)
    with tempfile.TemporaryDirectory(prefix="arm-check-") as folder:
        parts = partition(spec, Path(folder), progress)
        used = min(workers or os.cpu_count() or 1, parts.buckets)
        results = _run(spec, parts, None, {}, used, None, progress)
        issues = parts.issues + [issue for result in results for issue in result.issues]
        if issues:
            return sorted(issues), {}
        parts.refuse_changed()
        ledger = manifests.account_of(parts, results)
        violated = gates.violations(manifests.assemble(spec, parts, results, ledger, prompts))
        return [Issue(spec.name, 0, violation.path, violation.message) for violation in violated], ledger


@dataclass(frozen=True)
class _Task:
    """One bucket to be built and ``kept``, or only checked. ``code``: digest of the code that it is for."""

    job: Job
    kept: Kept | None
    code: str
    records: int


def _run(
    spec: BuildSpec, parts: Partition, kept: Kept | None, found: dict[int, BucketResult], workers: int,
    executor: Executor | None, progress: Progress,
) -> list[BucketResult]:  # fmt: skip
    """The results of all buckets; those that are ``found`` are not built."""
    code = manifests.code_sha256()
    records = parts.records
    jobs = [job for job in parts.jobs(spec, None) if job.bucket not in found]
    tasks = [_Task(job, kept, code, records[job.bucket]) for job in jobs]
    results = [*found.values()]
    done, total = sum(records[bucket] for bucket in found), sum(records)
    progress("building", done, total, done)
    try:
        for task, result in executors.results(_finish, tasks, workers, executor):
            results.append(result)
            done += task.records
            progress("building", done, total, done)
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        parts.refuse_changed()  # in another file buckets read nonsense
        raise
    return results


def _finish(task: _Task) -> BucketResult:
    """In a worker: build a bucket, and hand it over when it is complete."""
    if task.code != manifests.code_sha256():
        raise ArmError("a worker runs another version of the code", next_command="start the workers anew")
    if task.kept is None:
        return build_bucket(task.job)
    if known := task.kept.get(task.job.bucket):  # a cluster asks again when it lost what a worker had answered
        return known
    written = Path(tempfile.mkdtemp(prefix=f"bucket-{task.job.bucket:05d}-", dir=task.job.folder))
    result = build_bucket(replace(task.job, out=written))
    task.kept.put(task.job.bucket, result, written)
    shutil.rmtree(written, ignore_errors=True)
    return result


def _prompts(spec: BuildSpec) -> list[Prompt]:
    """Load the declared prompts, benchmarks and processor before anything is read: a typo costs nothing."""
    for benchmark in spec.benchmarks:
        benchmarks.read(benchmark)
    if spec.tokens:
        processor.load(spec.tokens)
    prompts: dict[str, Prompt] = {}
    episodes = spec.pairs.trajectories if spec.pairs else None
    for table, kind, declared in (
        ("selection_sft", "selection", spec.selection and spec.selection.prompt),
        ("bt_pairs", "scalar", spec.pairs and spec.pairs.prompt),
        ("pointwise_scores", "scalar", spec.pointwise and spec.pointwise.prompt),
        ("bt_pairs", "trajectory", episodes and episodes.prompt),
    ):
        if declared and table not in spec.tables:
            raise UsageError(f"{table} is declared but not published")
        if not declared:
            if kind != "trajectory" and table in spec.tables and table not in spec.kinds:
                raise UsageError(f"{table} is published but not declared")
            continue
        prompt = load(declared)
        if prompt.kind != kind:
            raise UsageError(f"{table} needs a {kind} prompt, and {prompt.id} is a {prompt.kind} prompt")
        prompts.setdefault(prompt.sha256, prompt)
    return list(prompts.values())


def _empty(identity: dict[str, Any]) -> list[str]:
    """Tables that came out without a row, with what happened to the units that went in."""
    found = []
    for table, entry in identity["tables"].items():
        stage = identity["ledger"].get(table)
        if stage and not entry["rows"]:
            reasons = ", ".join(f"{reason} {n}" for reason, n in stage["excluded"].items()) or "nothing went in"
            found.append(f"{table} has no rows ({reasons})")
    return found


def _described(
    made: Path, spec: BuildSpec, prompts: Sequence[Prompt], figures: Mapping[str, bytes]
) -> dict[str, dict[str, Any]]:
    """Write schemas, prompts, load.py and figures beside the data; return path -> hash and size."""
    written = [*write_schemas(made, spec.published), *write_prompts(made, prompts)]
    written.append(write_loader(made, f"{spec.namespace}/{spec.name}", spec.version))
    written += write_figures(made, figures)
    result = {}
    for path in written:
        name = path.relative_to(made).as_posix()
        result[name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    return result
