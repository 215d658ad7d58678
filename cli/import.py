"""``arm import``: what somebody's files hold, and the registry that builds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from . import import_report, output

# Options that say what records do not: name, type, help.
_CONSTANTS: tuple[tuple[str, Any, str], ...] = (
    ("actor", str, "Policy that was sampled; for labels and scores, whose candidates they are about."),
    ("actor-revision", str, "Its revision."),
    ("teacher", str, "Who judged."),
    ("score-source", str, "What made the scores (prm, mcts_value, outcome, ...)."),
)
_SAMPLING: tuple[tuple[str, Any, str], ...] = (
    ("temperature", click.FloatRange(min=0), "Sampling temperature of all candidates."),
    ("top-p", click.FloatRange(0, 1), "Nucleus: share of probability mass kept."),
    ("top-k", click.IntRange(min=-1), "Tokens kept at each step; -1 or 0 keeps all."),
    ("min-p", click.FloatRange(0, 1), "Least probability of a kept token, relative to the likeliest."),
    ("max-tokens", click.IntRange(min=0), "Longest response allowed."),
    ("seed", int, "Seed of the sampler."),
    ("engine", str, "Software that sampled (vllm, ...)."),
    ("engine-version", str, "Its version."),
)


def _constants(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, kind, text in reversed((*_CONSTANTS, *_SAMPLING)):
        command = click.option(f"--{name}", type=kind, help=text)(command)
    return command


@click.command(
    "import",
    short_help="Look into somebody's files and write the registry that builds them.",
    epilog=output.examples(
        "arm import auto runs --out their-registry --teacher some-model",
        "arm import openai_messages runs/episodes.jsonl --out episodes-only --dialect function --json",
    ),
)
@click.argument("fmt", metavar="FORMAT")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder of registry.yaml; by default that of PATH."
)
@click.option("--dialect", help="How responses write actions; by default what most of a sample are.")
@click.option("--space", help="Space of their points: pixel or norm1000.")
@click.option("--license", "license_", default="other", show_default=True, help="Licence of the records.")
@click.option(
    "--on-invalid",
    type=click.Choice(["error", "exclude"]),
    help="Broken records; by default exclude, if there are any.",
)
@click.option(
    "--on-conflict", type=click.Choice(["error", "quarantine"]),
    help="One id with two contents; by default quarantine, if there are any.",
)  # fmt: skip
@_constants
@output.workers_option
@output.json_option
def command(
    fmt: str, path: Path, out: Path | None, dialect: str | None, space: str | None, license_: str,
    on_invalid: str | None, on_conflict: str | None, workers: int | None, as_json: bool, **constants: Any,
) -> None:  # fmt: skip
    """Read PATH, a file or a folder with its subfolders, as a build would, say what it holds and what cannot be taken,
    and write registry.yaml, so that the next command is `arm build`. No table is written.

    FORMAT is `auto`: files are recognised by what their records hold, never by their names. Or it is one of
    openai_messages, openwebrl_turns, agent_chat (episodes), first_release, molmoweb, molmoweb_result (states, candidate
    sets, labels, scores), scores (of candidates that are there), rest_mcts (search trees), agentrm, molmoweb_catts
    (ready-made training rows), webprmbench (bench items), review (a person's verdicts) and table (our own tables,
    .jsonl or .parquet); docs/formats.md tells what their records look like.

    Records that break their schema, pictures that cannot be read, ids
    with several contents and what names something that is not there are told with file and line. What records do not
    say can be declared: it holds for every source of PATH that it means something for. A registry.yaml that is there
    is never overwritten.
    """
    from ..registry import Registry, importing
    from ..schemas.errors import ArmError, UsageError

    folder = out or (path if path.is_dir() else path.parent)
    target = folder / "registry.yaml"
    if target.exists():
        raise ArmError(
            "is there already and is not overwritten", where=str(target), next_command="--out ANOTHER-FOLDER"
        )
    if (folder / "manifest.json").is_file():
        raise UsageError(
            "is a built directory, which holds nothing else", where=str(folder), next_command="--out FOLDER"
        )
    sampling = {name.replace("-", "_"): constants.pop(name.replace("-", "_")) for name, _, _ in _SAMPLING}
    given = {**constants, "sampling": {name: value for name, value in sampling.items() if value is not None}}
    said = importing.Said(dialect, space, license_, given, on_invalid, on_conflict)
    with output.progress() as show:
        report, text = importing.look(
            path, None if fmt == "auto" else fmt, said, folder, workers=workers, progress=show
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.write(text.encode())
    try:
        Registry.load(target)
    except ArmError:  # of a constant that no registry can hold, such as a name with a line end
        target.unlink()
        raise
    if as_json:
        output.data({"registry": str(target), **report.to_json()})
        return
    import_report.show(report, on_invalid=on_invalid, on_conflict=on_conflict)
    output.note(f"wrote {target}")
    stops = (on_invalid == "error" and report.broken) or (on_conflict == "error" and report.contested)
    output.note(f"next: arm {'validate' if stops else 'build'} {target}")
