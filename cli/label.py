"""``arm label``: a teacher's verdicts on candidate sets, live, as a batch, or through files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import UsageError
from . import generate_options, output
from .asking import Asking
from .progress import duration

if TYPE_CHECKING:
    from ..builders.generate.batches.joining import Names, Oddities
    from ..builders.generate.batches.status import BatchStanding
    from ..builders.generate.batches.submit import Submitted
    from ..registry.generating import Generation
    from ..servers.endpoints import Server


@click.group("label", short_help="Ask a teacher for the declared labels: run, submit, status, collect, cancel, files.")
def command() -> None:
    """Ask a teacher which candidate is best, for the sources of a registry that declare `label:`.

    `run` asks any OpenAI-compatible server live. `submit`, `status`, `collect` and `cancel` speak with OpenAI's Batch
    API. `files` writes requests for `vllm run-batch`, whose outputs `collect` takes. Whatever the way, each question
    ends in one named outcome, answers are kept beside the file as they come, and only what has none is asked again.
    """


@command.command(
    "run",
    short_help="Ask live.",
    epilog=output.examples(
        "arm label run --dry-run", "arm label run --limit 20 --yes", "arm label run registry.yaml --cap 20 --json"
    ),
)
@output.registry_argument
@generate_options.meant
@generate_options.live
@generate_options.dry_run_option
@output.json_option
def run(
    registry: str, name: str | None, source: str | None, endpoints: Path | None, dry_run: bool, as_json: bool,
    **how: Any,
) -> None:  # fmt: skip
    """Ask the teacher live, and write the labels of REGISTRY (default: registry.yaml).

    It may be killed, run again, and run several times at once. Sets with one distinct action are not asked about; equal
    sets of a state are asked about once. Exit status 1 when something failed or is still missing.
    """
    asking = Asking.of(registry, "label", endpoints, as_json)

    def do(asked: Generation, server: Server) -> dict[str, Any]:
        return asking.tell(asked, server) if dry_run else asking.ask(asked, server, **how)

    asking.each(name, source, do, known=not dry_run)


@command.command(
    "submit",
    short_help="Ask as batches, at a lower price.",
    epilog=output.examples("arm label submit --dry-run", "arm label submit --yes", "arm label submit --cap 20 --json"),
)
@output.registry_argument
@generate_options.meant
@generate_options.cap_option
@generate_options.limit_option
@generate_options.yes_option
@generate_options.dry_run_option
@output.json_option
def submit(
    registry: str, name: str | None, source: str | None, endpoints: Path | None, cap_usd: float | None,
    limit: int | None, yes: bool, dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Send what has no answer and is in no open batch to the server's Batch API.

    Files are split by requests, bytes and, where `batch: {tokens: N}` says so, by what may be enqueued at once; what
    does not fit yet is sent by the next `submit`. A `submit` that was killed pays for nothing twice.
    """
    asking = Asking.of(registry, "label", endpoints, as_json)

    def do(asked: Generation, server: Server) -> dict[str, Any]:
        from ..builders.generate.batches.submit import submit as send

        if dry_run:
            return asking.tell(asked, server, batch=True)
        asking.begin(asked, server, cap_usd=cap_usd, limit=limit, yes=yes, batch=True)
        done = send(
            asked.work, server, asked.spec.model, cap_usd=cap_usd, limit=limit,
            progress=(lambda _: None) if as_json else output.note,
        )  # fmt: skip
        waiting = bool(done.batches or done.adopted or done.open)
        if not as_json:
            output.note(_submitted(done))
            _names("too large for a batch", done.too_large)
            if done.stopped:
                output.note(
                    output.one_line(f"stopped: {done.stopped}; what is left is sent by the next arm label submit")
                )
            if waiting:
                output.note(f"next: {asking.typed(shlex.join(['arm', 'label', 'collect', registry]))}")
        asking.failed |= bool(done.too_large.count) or bool(done.stopped and not waiting)
        idle = not (waiting or done.stopped or done.too_large.count)  # then the labels are written, and told of
        return (asking.end(asked, server, stopped=None, way="submit") if idle else {}) | {
            "batches": done.batches, "adopted": done.adopted, "asked": done.asked, "answered": done.answered,
            "open": done.open, "not_asked": done.not_asked + done.not_seen, "too_large": done.too_large.count,
            "stopped": done.stopped or None,
        }  # fmt: skip

    asking.each(name, source, do)


@command.command(
    "status",
    short_help="How far are the batches?",
    epilog=output.examples("arm label status", "arm label status --json"),
)
@output.registry_argument
@generate_options.meant
@output.json_option
def status(registry: str, name: str | None, source: str | None, endpoints: Path | None, as_json: bool) -> None:
    """Ask the server about every open batch, and say what can be collected."""
    asking = Asking.of(registry, "label", endpoints, as_json)

    def do(asked: Generation, server: Server) -> dict[str, Any]:
        from ..builders.generate.batches.status import status as look

        found = look(asked.work, server)
        if not as_json:
            asking.tell(asked, server, batch=True)
            _batches(found.batches)
            waiting = [s for s in found.batches if s.batch.stage == "open"]
            if not found.batches:
                output.note(
                    f"no batch was submitted; next: {asking.typed(f'arm label submit {shlex.quote(registry)}')}"
                )
            if waiting:
                output.note(f"{_count(len(waiting), 'batch')} not collected yet; {found.to_collect} ended")
            if unsure := [s.batch.number for s in found.batches if s.batch.stage == "planned"]:
                output.note(
                    f"whether batch {unsure[0]} was created is not known; the next arm label submit asks for it"
                )
            if found.to_collect:
                output.note(f"next: {asking.typed(f'arm label collect {shlex.quote(registry)}')}")
        return {
            "batches": [_batch(standing) for standing in found.batches],
            "requests": found.requests, "to_collect": found.to_collect,
        }  # fmt: skip

    asking.each(name, source, do)


@command.command(
    "collect",
    short_help="Take what batches or files answered, and write the labels.",
    epilog=output.examples("arm label collect", "arm label collect registry.yaml replies-00001.jsonl --json"),
)
@output.registry_argument
@click.argument(
    "outputs", nargs=-1, metavar="[OUTPUT]...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--accept-cut", is_flag=True,
    help="Take a file of answers that ends inside a line every time it is fetched; the rest is `missing`.",
)  # fmt: skip
@generate_options.meant
@output.json_option
def collect(
    registry: str, outputs: tuple[Path, ...], accept_cut: bool, name: str | None, source: str | None,
    endpoints: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Fetch every batch that has ended, or read OUTPUT files, and write the labels.

    OUTPUT is what was made of the files of `arm label files`: of `vllm run-batch`, or output and error files of a
    service, in any order. Ids that come twice or that nobody asked for are named. Safe to run again.
    """
    asking = Asking.of(registry, "label", endpoints, as_json)

    def do(asked: Generation, server: Server) -> dict[str, Any]:
        from ..builders.generate.batches import collect as batches
        from ..builders.generate.batches.files import collect_files

        more: dict[str, Any]
        if outputs:
            taken = collect_files(
                asked.work, outputs, engine=server.engine, engine_version=server.engine_version
            )  # fmt: skip
            problems, odd, outcomes, more = [], taken.odd, taken.outcomes, {"files": taken.files}
        else:
            found = batches.collect(
                asked.work, server, accept_cut=accept_cut, progress=(lambda _: None) if as_json else output.note
            )
            problems, odd, outcomes = found.problems, found.odd, found.outcomes
            more = {"batches": found.batches, "open": found.open}
            if found.open and not as_json:
                output.note(f"{_count(found.open, 'batch')} not collected yet")
        if not as_json:
            for problem in problems:
                output.note(output.one_line(f"problem: {problem}"))
            _odd(odd)
            counts = ", ".join(f"{n:,} {word}" for word, n in sorted(outcomes.items()) if n)
            output.note(f"collected: {counts or 'nothing'}")
        asking.failed |= bool(problems)
        told = {"outcomes": dict(outcomes), "problems": problems, "odd": dict(odd.told()), **more}
        return asking.end(asked, server, stopped=None, way="files" if outputs else "submit", collected=told)

    if outputs:
        _one(asking, name, source)
    asking.each(name, source, do, known=not outputs)


@command.command(
    "cancel",
    short_help="Stop open batches.",
    epilog=output.examples("arm label cancel", "arm label cancel --batch 1 --json"),
)
@output.registry_argument
@click.option("--batch", "numbers", type=int, multiple=True, metavar="N", help="Only this one; likewise several.")
@generate_options.meant
@output.json_option
def cancel(
    registry: str, numbers: tuple[int, ...], name: str | None, source: str | None, endpoints: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Stop the open batches, or those that --batch names. What they have answered by then is billed, and collected."""
    asking = Asking.of(registry, "label", endpoints, as_json)

    def do(asked: Generation, server: Server) -> dict[str, Any]:
        from ..builders.generate.batches.status import cancel as stop

        done = stop(asked.work, server, numbers or None)
        if not as_json:
            _batches(done.batches)
            stopped = len(done.batches) + len(done.never_created) + len(done.lost)
            output.note(f"{_count(stopped, 'batch')} stopped" if stopped else "no batch is open")
            if done.batches:
                output.note(f"next: {asking.typed(f'arm label collect {shlex.quote(registry)}')}")
        return {
            "batches": [_batch(standing) for standing in done.batches],
            "never_created": list(done.never_created), "lost": list(done.lost),
        }  # fmt: skip

    if numbers:
        _one(asking, name, source)
    asking.each(name, source, do)


@command.command(
    "files",
    short_help="Write the questions as files for vllm run-batch.",
    epilog=output.examples("arm label files registry.yaml questions", "arm label files registry.yaml more --json"),
)
@click.argument("registry", type=click.Path(path_type=str), metavar="REGISTRY")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
@generate_options.meant
@output.json_option
def files(
    registry: str, folder: Path, name: str | None, source: str | None, endpoints: Path | None, as_json: bool
) -> None:
    """Write every question without an answer into FOLDER, as files that `vllm run-batch` reads.

    Nothing is sent. `arm label collect REGISTRY OUTPUT...` takes what comes of them.
    """
    asking = Asking.of(registry, "label", endpoints, as_json)

    def do(asked: Generation, server: Server) -> dict[str, Any]:
        from ..builders.generate.batches.files import write_files
        from ..builders.generate.seeding import seed_log

        seed_log(asked.work)
        done = write_files(asked.work, asked.spec.model, folder, server.batch)
        if not as_json:
            output.note(f"{done.written:,} requests in {len(done.paths)} files; {done.answered:,} are answered")
            if done.again:
                output.note(f"{done.again:,} of them stand in earlier files, too, whose output was not collected")
            _names("too large for a file", done.too_large)
            for path in done.paths:
                click.echo(str(path))
            if done.paths:
                _how(done.paths[0], asked.spec.model, registry)
        asking.failed |= bool(done.too_large.count)
        return {
            "files": [str(path) for path in done.paths], "written": done.written, "answered": done.answered,
            "again": done.again, "open": done.open, "too_large": done.too_large.count,
        }  # fmt: skip

    _one(asking, name, source)
    asking.each(name, source, do, known=False)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'es' if n != 1 else ''}"


def _submitted(done: Submitted) -> str:
    before = f"{done.open:,} in batches that are open since earlier" if done.open else ""
    if done.stopped and not (done.asked or done.open):
        return "nothing was submitted"
    if done.asked:
        return f"{done.asked:,} requests in {_count(len(done.batches), 'batch')}{'; ' if before else ''}{before}"
    return f"nothing new was submitted: {before or f'{done.answered:,} requests are answered'}"


def _how(first: Path, model: str, registry: str) -> None:
    """How files are run, and what is done with what comes of them."""
    replies = first.with_name(first.name.replace("requests", "replies"))
    words = ["vllm", "run-batch", "-i", str(first), "-o", str(replies), "--served-model-name", model]
    output.note(f"next, for each of them: {shlex.join(words)} --model WEIGHTS   # their name or folder")
    several = shlex.quote(str(first.parent)) + "/replies-*.jsonl"
    output.note(f"then: {shlex.join(['arm', 'label', 'collect', registry])} {several}")


def _one(asking: Asking, name: str | None, source: str | None) -> None:
    """Raise UsageError unless one source is meant: batches and files are those of one."""
    from ..registry.generating import chosen

    found = chosen(asking.registry, "label", name, source)
    if len(found) > 1:
        there = ", ".join(f"{made.name} of {made.dataset}" for made in found)
        raise UsageError(f"of which source? {there}", next_command=output.typed("--source", found[0].name))


def _batches(standings: Sequence[BatchStanding]) -> None:
    columns = ["batch", "status", "requests", "completed", "failed", "age", "left"]
    rows = []
    for standing in standings:
        batch = standing.batch
        counts = ["" if n is None else f"{n:,}" for n in (batch.requests, batch.completed, batch.failed)]
        left = "" if standing.expires_in_s is None else duration(max(0.0, standing.expires_in_s))
        rows.append([f"{batch.number}", batch.status or batch.stage, *counts, duration(standing.age_s), left])
    if rows:
        output.table("batches", columns, rows)
    for standing in standings:
        for words in filter(None, (standing.problem, standing.batch.detail)):
            output.note(output.one_line(f"batch {standing.batch.number}: {words}"))


def _batch(standing: BatchStanding) -> dict[str, Any]:
    names = ("number", "stage", "batch_id", "status", "requests", "completed", "failed", "detail")
    told = {name: getattr(standing.batch, name) for name in names}
    return {**told, "age_s": standing.age_s, "expires_in_s": standing.expires_in_s, "problem": standing.problem or None}


def _names(what: str, names: Names) -> None:
    if names.count:
        more = ", ..." if names.count > len(names.shown) else ""
        output.note(output.one_line(f"{names.count:,} {what}: {', '.join(names.shown)}{more}"))


def _odd(odd: Oddities) -> None:
    for which, names in vars(odd).items():
        _names(f"lines of the answers are {which}" if which == "unreadable" else f"ids are {which}", names)
