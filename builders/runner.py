"""Run a build: partition, buckets on an executor, gates, manifest last, and the finished folder moved into place."""

from __future__ import annotations

import glob
import multiprocessing
import os
import shlex
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..prompts.render import Prompt
from ..schemas import gates
from ..schemas.errors import ArmError, Issue, UsageError
from ..schemas.ids import file_sha256
from ..schemas.manifest import manifest_of
from . import manifest as manifests
from .bucket import BucketResult, Job, build_bucket
from .partition import Partition, Progress, failure, partition
from .published import write_loader, write_prompts, write_schemas
from .spec import BuildSpec
from .training_rows import load

# Renders README.md from the manifest; the cards live on this floor too, so that the caller hands them in.
Card = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Built:
    """A finished build. ``notes``: records sent to exclusions by declaration. ``warnings``: gates that only warn."""

    folder: Path
    manifest: dict[str, Any]
    notes: tuple[Issue, ...]
    warnings: tuple[str, ...]


def build(
    spec: BuildSpec,
    out: Path,
    *,
    card: Card,
    workers: int | None = None,
    executor: Executor | None = None,
    enforce: bool = True,
    progress: Progress = lambda *_: None,
) -> Built:
    """Build ``spec`` into the folder ``out`` and return it.

    ``executor`` is any `concurrent.futures` executor whose workers see the same files; without one, ``workers`` local
    processes (default: the CPUs, never more than buckets) are used. The rows and their digests do not depend on it.
    Everything is made in a temporary folder beside ``out`` and moved there when it is complete: a failed or killed
    build leaves the old folder as it was. Without ``enforce`` violated gates only warn. Raises ArmError for problems of
    the sources, gates and prompts.
    """
    started = time.monotonic()
    out = out.resolve()  # through a link: the folder it leads to is replaced, not the link
    prompts = _prompts(spec)
    out.parent.mkdir(parents=True, exist_ok=True)
    with _workspace(out) as work:
        _refuse_foreign(out, spec.name)
        made = work / "made"
        made.mkdir()
        parts, results, used = _run(spec, work, made, workers, executor, progress)
        issues = parts.issues + [issue for result in results for issue in result.issues]
        if issues:
            raise failure(issues)
        _refuse_changed(parts)
        ledger = _ledger(parts, results)
        identity = manifests.assemble(spec, parts, results, ledger, prompts)
        violated = gates.violations(identity)
        if violated and enforce:
            raise gates.refusal(violated)
        warnings = [f"{v.message}; publishing will refuse it without {v.allow}" for v in violated]
        warnings += gates.warnings(identity) + _empty(identity)
        files = {
            f.path: {"sha256": f.sha256, "bytes": f.stored_bytes} for result in results for f in result.files
        } | _described(made, spec, prompts)
        env = manifests.environment(files, used, time.monotonic() - started)
        manifest = manifests.write(made, identity, env)
        (made / "README.md").write_text(card(manifest), "utf-8")
        _replace(made, out, work)
    notes = sorted([*parts.notes, *(note for result in results for note in result.notes)])
    return Built(out, manifest, tuple(notes), tuple(warnings))


def check(
    spec: BuildSpec, *, workers: int | None = None, progress: Progress = lambda *_: None
) -> tuple[list[Issue], dict[str, Any]]:
    """Read everything as a build would, write nothing, and return (all issues, the account per stage)."""
    prompts = _prompts(spec)
    with tempfile.TemporaryDirectory(prefix="arm-check-") as folder:
        parts, results, _ = _run(spec, Path(folder), None, workers, None, progress)
        issues = parts.issues + [issue for result in results for issue in result.issues]
        if issues:
            return sorted(issues), {}
        _refuse_changed(parts)
        ledger = _ledger(parts, results)
        violated = gates.violations(manifests.assemble(spec, parts, results, ledger, prompts))
        return [Issue(spec.name, 0, violation.path, violation.message) for violation in violated], ledger


def _run(
    spec: BuildSpec, work: Path, out: Path | None, workers: int | None, executor: Executor | None, progress: Progress
) -> tuple[Partition, list[BucketResult], int]:
    parts = partition(spec, work, progress)
    if parts.issues and out is not None:
        raise failure(parts.issues)
    files = tuple((f.name, f.copy or f.path, f.source) for f in parts.files)
    jobs = [Job(spec, work, files, bucket, parts.buckets, out) for bucket in range(parts.buckets)]
    used = min(workers or os.cpu_count() or 1, parts.buckets)
    results: list[BucketResult] = []
    try:
        for done, result in enumerate(_results(jobs, used, executor), 1):
            results.append(result)
            progress("building", done, parts.buckets)
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        _refuse_changed(parts)  # buckets find records by offset: in another file they read nonsense
        raise
    return parts, results, used


def _results(jobs: Sequence[Job], workers: int, executor: Executor | None) -> Iterator[BucketResult]:
    if executor is None and workers == 1:
        yield from map(build_bucket, jobs)
        return
    # spawn: a forked child would inherit pyarrow's threads in whatever state they were
    spawn = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = executor or ProcessPoolExecutor(workers, mp_context=spawn, initializer=_follow_the_parent)
    try:
        futures = [pool.submit(build_bucket, job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise ArmError(
            "a worker process ended without a word, as when memory runs out", next_command="arm build --workers 1"
        ) from error
    except BaseException:  # an interrupt: nobody waits for buckets that nobody will use
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)


def _follow_the_parent() -> None:
    """In a worker: an interrupt is the parent's business, and a worker whose parent was killed ends, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _ledger(parts: Partition, results: Sequence[BucketResult]) -> dict[str, Any]:
    own = (parts.ledger.units_in, parts.ledger.units_out, parts.ledger.excluded)
    return manifests.merge_ledgers([own, *((r.units_in, r.units_out, r.excluded) for r in results)])


def _prompts(spec: BuildSpec) -> list[Prompt]:
    """Load the declared prompts before anything is read, so that a typo costs nothing."""
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


def _described(made: Path, spec: BuildSpec, prompts: Sequence[Prompt]) -> dict[str, dict[str, Any]]:
    """Write schemas, prompts and load.py beside the data; return path -> hash and size."""
    written = [*write_schemas(made, [*spec.tables, "exclusions"]), *write_prompts(made, prompts)]
    written.append(write_loader(made, f"{spec.namespace}/{spec.name}", spec.version))
    result = {}
    for path in written:
        name = path.relative_to(made).as_posix()
        result[name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    return result


@contextmanager
def _workspace(out: Path) -> Iterator[Path]:
    """A temporary folder beside ``out``, on the same file system, gone afterwards.

    What a killed build left behind is cleared first: its folder is named by host and process.
    """
    prefix = f".{out.name}-{socket.gethostname()}-"
    for left in out.parent.glob(f"{glob.escape(prefix)}*"):
        if _gone(left.name.removeprefix(prefix)):
            if (left / "old").exists() and not out.exists():  # killed between the two renames
                (left / "old").rename(out)
            shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=out.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _gone(rest: str) -> bool:
    """True for the name of a workspace, less its prefix, whose process has ended."""
    pid = rest.partition("-")[0]
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _refuse_foreign(out: Path, name: str) -> None:
    """Only a build of the same dataset is ever replaced, and only when it holds no file that no build made."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    aside = f"mv {shlex.quote(str(out))} {shlex.quote(str(out.with_name(out.name + '.old')))}"
    elsewhere = f"{aside}   # or name another folder with arm build --out"
    try:
        manifest = manifest_of(out)
    except ArmError as error:
        message = f"is not a build ({error.message}) and would be replaced"
        raise ArmError(message, where=str(out), next_command=elsewhere) from error
    if manifest["identity"]["name"] != name:
        message = f"is a build of {manifest['identity']['name']}, not of {name}"
        raise ArmError(message, where=str(out), next_command=elsewhere)
    made = {*manifest["environment"]["files"], "manifest.json", "README.md"}
    paths = {path.relative_to(out) for path in out.rglob("*") if path.is_symlink() or not path.is_dir()}
    found = {path.as_posix() for path in paths if path.parts[0] != "__pycache__"}  # of load.py, when it was imported
    if foreign := sorted(found - made):
        shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        message = f"holds files that no build made and that would be lost: {shown}"
        raise ArmError(
            message, where=str(out), next_command="move them out of it, or name another folder with arm build --out"
        )


def _refuse_changed(parts: Partition) -> None:
    for file in parts.files:
        stat = file.path.stat() if file.path.exists() else None
        if stat is None or (stat.st_size, stat.st_mtime_ns) != file.stamp:
            raise ArmError("the file changed while it was read; nothing was built", where=file.name)


def _replace(made: Path, out: Path, work: Path) -> None:
    os.chmod(made, 0o755)  # noqa: S103, PTH101 - mkdtemp's 0700 is for the workspace, a build is for its readers
    old = work / "old"
    if out.exists():
        out.rename(old)
    try:
        made.rename(out)
    except BaseException:
        if old.exists():
            old.rename(out)
        raise
