"""``arm evaluate``: how often a checkpoint picks what the reference picked, beside baselines and another checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from . import evaluate_report, output
from .source import built, place

if TYPE_CHECKING:
    from ..registry.evaluating import Checkpoint


class _How(NamedTuple):
    """What was asked for on the command line."""

    dataset: str | None
    split: str
    orders: int
    max_items: int | None
    base: Path | None
    device: str | None
    out: Path | None


class _Side(NamedTuple):
    """One model's figures (`evaluations` of `model_manifest/1`), its predictions, and where they lie."""

    name: str
    kind: str
    entry: Mapping[str, Any]
    predictions: list[dict[str, Any]]
    folder: Path
    warnings: list[str]


@click.command(
    "evaluate",
    short_help="Measure a checkpoint on held-out candidate sets, alone or against another one.",
    epilog=output.examples(
        "arm evaluate build/my-arm --dataset build/action-reward-models-data",
        "arm evaluate build/my-arm --dataset build/action-reward-models-data --orders 3 --out asked-thrice",
        "arm evaluate evaluation/my-arm-validation --against asked-thrice --json",
    ),
)
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option("--against", metavar="OTHER", help="Compare with this one on the items that both were asked about.")
@click.option("--dataset", metavar="BUILD", help="Data to ask about. [default: what it was trained on]")
@click.option("--split", type=click.Choice(["validation", "train"]), default="validation", show_default=True)
@click.option(
    "--orders", type=click.IntRange(min=1, max=120), default=1, show_default=True,
    help="Orders in which a selection ARM sees each set, the one of training first.",
)  # fmt: skip
@click.option("--max-items", type=click.IntRange(min=1), default=None, help="At most so many sets, chosen by hash.")
@click.option(
    "--base", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the base model. [default: fetched at the commit that the checkpoint names]",
)  # fmt: skip
@click.option("--device", help="Such as cpu or cuda:0. [default: the first GPU, else the CPU]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=None,
    help="Folder for predictions and report. [default: evaluation/CHECKPOINT-SPLIT]",
)  # fmt: skip
@output.json_option
def command(checkpoint: str, against: str | None, as_json: bool, **said: Any) -> None:
    """Ask CHECKPOINT about every candidate set of the split that has a reference, and count how often it picks the
    reference's action.

    CHECKPOINT and OTHER are folders that `arm train` or `arm pull` made, NS/NAME[@REVISION] on the Hub, checkpoints of
    ./registry.yaml by name, or folders with the predictions of an earlier evaluation. BUILD is a built directory,
    NS/NAME[@REVISION] or a dataset of ./registry.yaml. Sets of tasks that the checkpoint was trained on are not asked
    about. Every answer is kept as it comes: a run that was interrupted goes on where it stopped.

    Intervals are drawn over states; p is McNemar's exact test. A figure counts an item without a usable answer as not
    right, and says beside it how many those are.
    """
    how = _How(**said)
    _refuse_useless(checkpoint, against, how)
    sides = [_side(name, how) for name in (checkpoint, against) if name is not None]
    found: dict[str, Any] = {"evaluations": [_told(side) for side in sides]}
    if len(sides) == 2:
        from ..recipes.evaluation.comparing import compare

        found["comparison"] = compare(sides[0].predictions, sides[1].predictions)
    if as_json:
        output.data(found)
        return
    for side in sides:
        evaluate_report.show(side.name, side.kind, side.entry)
        for warning in side.warnings:
            output.note(output.one_line(f"warning: {warning}"))
        output.note(f"predictions and report: {side.folder}")
    if len(sides) == 2:
        evaluate_report.compared(sides[0].name, sides[1].name, found["comparison"])
    elif sides[0].entry["items"] or sides[0].entry.get("pairs"):
        output.note(f"next: arm evaluate OTHER --against {sides[0].folder}   # on the same items")


def _told(side: _Side) -> dict[str, Any]:
    return {
        "name": side.name, "kind": side.kind, "folder": str(side.folder), "warnings": side.warnings,
        "evaluation": dict(side.entry),
    }  # fmt: skip


def _side(named: str, how: _How) -> _Side:
    """The figures of what is ``named``: read, when its predictions lie there, else made."""
    from ..recipes.evaluation.predictions import NAME
    from ..registry.evaluating import Checkpoint

    where = place(named) or built(named)
    if isinstance(where, Path):
        if (where / NAME).is_file():
            return _stored(where)
        return _evaluated(Checkpoint.here(where), how)
    return _evaluated(Checkpoint.published(output.hub(), *where), how)


def _stored(folder: Path) -> _Side:
    from ..recipes.evaluation.predictions import read, report_of

    report = report_of(folder)
    return _Side(folder.name, report["kind"], report["evaluation"], read(folder), folder, [])


def _evaluated(checkpoint: Checkpoint, how: _How) -> _Side:
    from ..recipes.evaluation import evaluate
    from ..recipes.evaluation.predictions import read
    from ..recipes.recipe import Evaluation
    from ..registry.evaluating import refuse_built, trained_on
    from ..schemas.errors import UsageError

    kind = checkpoint.manifest["checkpoint"]["kind"]
    if kind == "scalar" and how.orders > 1:
        raise UsageError(f"{checkpoint.name} is a scalar model, which sees one candidate at a time: it has no order",
                         next_command="arm evaluate without --orders")  # fmt: skip
    with output.progress() as show, _dataset(checkpoint, how, show) as (folder, source):
        out = how.out or Path("evaluation") / re.sub(r"[^A-Za-z0-9._-]", "-", f"{checkpoint.name}-{how.split}")
        refuse_built(out)
        trained = trained_on(output.hub(), checkpoint.manifest, folder)
        warnings = [f"whether it was trained on tasks that are asked about is not known: {w}" for w in trained.unknown]
        show("loading the model", 0, 1)
        output.quiet_models()
        model = checkpoint.open(how.base, how.device)
        show("loading the model", 1, 1)
        entry = evaluate(
            model, folder, Evaluation(how.split, how.orders, how.max_items), out=out, name=out.name,
            source={**source, "model_commit": checkpoint.commit, "trained_on": trained.datasets}, progress=show,
            trained=trained.groups,
        )  # fmt: skip
    return _Side(checkpoint.name, kind, entry, read(out), out, warnings)


@contextmanager
def _dataset(checkpoint: Checkpoint, how: _How, show: Any) -> Iterator[tuple[Path, dict[str, str | None]]]:
    from ..registry.evaluating import dataset
    from ..schemas.manifest import manifest_of

    where: Path | tuple[str, str]
    where = checkpoint.dataset() if how.dataset is None else place(how.dataset) or built(how.dataset)
    with dataset(output.hub(), where, show) as (folder, source):
        said = checkpoint.manifest.get("identity", {}).get("dataset", {})  # of an adopted one nobody knows it
        if source["repo"] is None and manifest_of(folder)["identity_sha256"] == said.get("identity_sha256"):
            source |= {"repo": said["repo"], "revision": said["revision"]}
        yield folder, source


def _refuse_useless(checkpoint: str, against: str | None, how: _How) -> None:
    """Raise UsageError where nothing is asked, so that options say nothing, or where two would share one folder."""
    from ..recipes.evaluation.predictions import NAME
    from ..schemas.errors import UsageError

    named = [name for name in (checkpoint, against) if name is not None]
    asked = [name for name in named if not (Path(name) / NAME).is_file()]
    given = click.get_current_context()
    said = [f"--{name.replace('_', '-')}" for name in how._fields
            if given.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]  # fmt: skip
    if not asked and said:
        both = " and ".join(named)
        raise UsageError(f"{both} hold{'s' * (len(named) == 1)} the answers of an evaluation: {', '.join(said)} would "
                         "ask nobody", next_command="name a checkpoint instead")  # fmt: skip
    if how.out is not None and len(asked) == 2:
        raise UsageError(
            "--out names one folder, and two evaluations would be written to it",
            next_command="evaluate each with its own --out, then: arm evaluate OUT1 --against OUT2",
        )
