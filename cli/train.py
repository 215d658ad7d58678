"""``arm train``: a recipe becomes a checkpoint."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import output

if TYPE_CHECKING:
    from ..recipes.inputs import Inputs
    from ..registry import ModelNode


@click.command(
    "train",
    short_help="Train a checkpoint as its recipe says.",
    epilog=output.examples(
        "arm train recipes/tiny/scalar_bt_lora.yaml --smoke 2",
        "arm train registry.yaml --name my-reward-model",
        "arm train registry.yaml --name my-reward-model --restart --yes --json",
    ),
)
@click.argument("source", default="registry.yaml", metavar="[RECIPE|REGISTRY]", type=click.Path(path_type=Path))
@click.option("--name", help="Which checkpoint of the registry. [default: the only one]")
@click.option(
    "--smoke", type=click.IntRange(min=1), metavar="STEPS",
    help="Train so many steps, save, load again in another process, and stop: does all of it work here?",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Delete what an unfinished training left, and start anew.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is deleted.")
@output.json_option
def command(source: Path, name: str | None, smoke: int | None, restart: bool, yes: bool, as_json: bool) -> None:
    """Train the checkpoint that RECIPE describes, or one that REGISTRY (default: registry.yaml) declares.

    A recipe belongs to the registry.yaml in its folder, or above it, whose models name it; then arm.lock there pins
    base model and dataset. One that no registry declares stands alone: it can be trained and evaluated, not published.

    The checkpoint goes to build/NAME beside the registry: adapter, head, processor, prompt, training log, predictions,
    card and manifest, after it was loaded again in another process and gave the same scores. What is finished is kept
    in build/.NAME-training until then: a training that was stopped or failed goes on where it was when the same command
    is run again. Nothing is trained when the last checkpoint still is what is declared. The base model is downloaded
    once, by commit: settings, tokenizer and safetensors.
    """
    from ..recipes.train import Stopped

    node = _node(source, name)
    first = os.environ.get("RANK", "0") == "0"  # one of several processes that train together speaks
    why = node.reasons()
    if not why and smoke is None and not restart:
        _up_to_date(node, as_json, first)
        return
    with output.progress() as show:
        inputs = node.inputs(show)
    if first and not as_json:
        kept = smoke is None and not restart and node.keeps_weights
        for line in _announced(node, inputs, why, smoke, kept):
            output.note(output.one_line(line))
    if restart and smoke is None and node.work.exists() and not yes:
        output.confirm(f"delete {node.work}, which an unfinished training left?", as_json)
    try:
        with output.progress() as show:
            made = node.build(smoke=smoke, restart=restart, progress=show)
    except Stopped as stopped:
        output.note(str(stopped))
        raise click.exceptions.Exit(130) from stopped
    except KeyboardInterrupt as stopped:
        then = f"; what is finished is kept in {node.work}, and the same command goes on from there"
        output.note(output.one_line(f"interrupted{then if smoke is None else ''}"))
        raise click.exceptions.Exit(130) from stopped
    if made is None:  # another process writes it
        return
    if as_json:
        output.data({"name": node.spec.name, "version": node.spec.version, "smoke": smoke, "trained": smoke is None,
                     "folder": None if smoke else str(node.folder), "reasons": why, **_facts(made)})  # fmt: skip
    else:
        _show(node, made, smoke)


def _node(source: Path, name: str | None) -> ModelNode:
    """The checkpoint that is meant. Raises UsageError that lists what could be."""
    from ..registry import Registry
    from ..registry.alone import is_recipe, of_recipe
    from ..schemas.errors import UsageError

    if is_recipe(source):
        registry, names = of_recipe(source, hub=output.hub())
    else:
        registry = Registry.load(source, hub=output.hub())
        names = tuple(spec.name for spec in registry.models)
    if name is not None:
        return registry.model(name)
    if not names:
        raise UsageError(
            "declares no checkpoint", where=str(registry.path),
            next_command='models: [{name: my-model, version: "1.0.0", recipe: recipe.yaml, license: apache-2.0}]',
        )  # fmt: skip
    if len(names) > 1:
        raise UsageError(f"which checkpoint? {', '.join(names)}", next_command=f"--name {names[0]}")
    return registry.model(names[0])


def _up_to_date(node: ModelNode, as_json: bool, first: bool) -> None:
    from ..recipes.manifest import manifest_of

    changes = node.relabel() if first and not node.registry.alone else []
    if not first:
        return
    if as_json:
        found = {"name": node.spec.name, "version": node.spec.version, "smoke": None, "trained": False,
                 "folder": str(node.folder), "reasons": [], "relabelled": changes}  # fmt: skip
        output.data({**found, **_facts(manifest_of(node.folder))})
        return
    for change in changes:
        output.note(output.one_line(f"said anew: {change}"))
    output.note(f"{node.spec.name} {node.spec.version} is up to date: {node.folder}")
    output.note(f"next: {_next(node)}")


def _announced(node: ModelNode, inputs: Inputs, why: list[str], smoke: int | None, kept: bool) -> list[str]:
    """What will be done: of what, how long, and where it goes. kept: the weights are there, and are evaluated."""
    if kept:
        return [f"{node.spec.name} {node.spec.version} is evaluated anew because {'; '.join(why[:5])}",
                "its weights stay; --restart trains them again"]  # fmt: skip
    recipe, trainer = inputs.recipe, inputs.recipe.trainer
    rows = _rows(inputs)
    batch = int(trainer.get("per_device_train_batch_size", 8)) * int(trainer.get("gradient_accumulation_steps", 1))
    batch *= int(os.environ.get("WORLD_SIZE", "1"))
    steps = int(trainer.get("max_steps", -1))
    if steps < 1:
        steps = math.ceil(math.ceil(rows / batch) * float(trainer.get("num_train_epochs", 3)))
    start = inputs.identity["init_from"] or inputs.base_source
    where = start["repo"] or str(inputs.base)
    shown = f"{smoke} of about {steps:,}" if smoke else f"about {steps:,}"
    return [
        f"{node.spec.name} {node.spec.version} is trained because {'; '.join(why[:5]) or '--restart'}",
        f"{recipe.kind} on {rows:,} rows of {recipe.table}/{recipe.split} from {inputs.dataset}",
        f"starts from {where}{' at ' + start['commit'][:12] if start['commit'] else ''}; {shown} steps of {batch} rows",
        "nothing is kept of it" if smoke else f"goes to {node.folder}; on the way it is in {node.work}",
    ]


def _rows(inputs: Inputs) -> int:
    """Rows that training reads. Raises ArmError with the tables that there are."""
    from ..schemas.errors import ArmError
    from ..schemas.manifest import manifest_of

    recipe, tables = inputs.recipe, manifest_of(inputs.dataset)["identity"]["tables"]
    splits = tables.get(recipe.table, {"splits": {}})["splits"]
    if recipe.split not in splits:
        known = ", ".join(f"{table}/{split}" for table, entry in tables.items() for split in entry["splits"])
        raise ArmError(f"has no rows of {recipe.table}/{recipe.split}; it has {known}", where=str(inputs.dataset))
    return int(splits[recipe.split]["rows"])


def _facts(made: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a checkpoint, or of a smoke run, which has no manifest."""
    return {
        "identity_sha256": made.get("identity_sha256"),
        "training": {key: value for key, value in (made["training"] or {}).items() if key != "curve"},
        "evaluations": [
            {"name": one["name"], "items": one["items"], "reports": one["reports"]}
            for one in made.get("evaluations", [])
        ],
    }


def _show(node: ModelNode, made: Mapping[str, Any], smoke: int | None) -> None:
    training = made["training"]
    loss = [f"{training[key]:.4g}" for key in ("loss_first", "loss_last") if training[key] is not None]
    output.note(
        f"{training['steps']:,} steps over {training['used']:,} of {training['rows']:,} rows in "
        f"{training['seconds']:,.0f} s; loss {' -> '.join(loss) or 'unknown'}"
    )
    for reason, count in training["unusable"].items():
        output.note(f"  left out, {reason}: {count:,}")
    reload = training["reload"]
    output.note(
        f"loaded again in another process: {reload['conversations']} conversations, scores differ by "
        f"{reload['max_difference']:.2g} at most"
    )
    for one in made.get("evaluations", []):
        rows = [[report["metric"], f"{report['value']:.4g}" if report["value"] is not None else "-", f"{report['n']:,}"]
                for report in one["reports"]]  # fmt: skip
        output.table(f"{one['name']}, {one['items']:,} items", ["metric", "value", "n"], rows)
    if smoke:
        output.note(f"it works here; next: {node.command}")
        return
    click.echo(str(node.folder))
    output.note(f"next: {_next(node)}")


def _next(node: ModelNode) -> str:
    if node.registry.alone:
        return f"declare it in a registry.yaml (models: recipe: {node.spec.recipe.path.name}), then arm plan"
    path = node.registry.path
    shown = "" if path == Path("registry.yaml") else f" {path}"
    return f"arm plan{shown} --name {node.spec.name}"
