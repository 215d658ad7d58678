"""Write cli.md, tables.md and registry-keys.md from what they describe; a test fails when they are out of date.

.venv/bin/python docs/generate.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from action_reward_models.builders import spec
from action_reward_models.builders.generate.spec import AskSpec, Draws, SampleSpec
from action_reward_models.builders.importers import IMPORTERS, formats
from action_reward_models.builders.ledger import REASONS, UNITS
from action_reward_models.cli import VERBS, arm
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.template import builtin, prompt_ids
from action_reward_models.registry.training import ALL_STEPS
from action_reward_models.schemas.actions import DIALECTS
from action_reward_models.schemas.store import TABLES, load, names

FOLDER = Path(__file__).parent
_BEYOND = ("eval_prediction/1", "eval_report/1")
_ASKED, _PICKED = "pick_request/1", "pick/1"


def cli() -> str:
    """The command line reference: every verb's own help."""
    width: dict[str, Any] = {"terminal_width": 100, "max_content_width": 100}
    context = click.Context(arm, info_name="arm", **width, **arm.context_settings)
    parts = ["# The `arm` command\n", "Written by `docs/generate.py` from `--help`.\n", _block(arm.get_help(context))]
    for verb in VERBS:
        command: click.Command = import_module(f"action_reward_models.cli.{verb}").command
        inner = click.Context(command, info_name=verb, parent=context, **width)
        parts += [f"\n## arm {verb}\n", _block(command.get_help(inner))]
        for name, child in command.commands.items() if isinstance(command, click.Group) else ():
            below = click.Context(child, info_name=name, parent=inner, **width)
            parts += [f"\n### arm {verb} {name}\n", _block(child.get_help(below))]
    parts.append(
        "\n## Completion\n\n"
        'Bash: `eval "$(_ARM_COMPLETE=bash_source arm)"`; zsh: `eval "$(_ARM_COMPLETE=zsh_source arm)"`; '
        "fish: `_ARM_COMPLETE=fish_source arm | source`.\n"
    )
    return "\n".join(parts)


def tables() -> str:
    """The tables field by field, from their schemas, and the reasons of exclusions."""
    parts = [
        "# Tables\n",
        "Written by `docs/generate.py` from the record schemas (`schemas/json/`), which every dataset carries too.",
        "Indices that end in `_index` count from 0. Null means not observed. Fields marked † are provenance: they are",
        "outside the row digest.\n",
    ]
    for table, schema in TABLES.items():
        parts += [f"## {table} (`{schema}`)\n", load(schema)["description"] + "\n", *_fields(schema), ""]
    parts += ["## Exclusion reasons\n", "| stage | a unit is | reasons |", "| --- | --- | --- |"]
    parts += [f"| `{stage}` | {UNITS[stage]} | {', '.join(f'`{r}`' for r in REASONS[stage])} |" for stage in UNITS]
    for title, name in (("What a model is asked", _ASKED), ("What it picked", _PICKED)):
        parts += ["", f"## {title}: `{name}`\n", load(name)["description"] + "\n", *_fields(name)]
    parts += ["", "## Files of evaluations\n"]
    parts += [f"- `{name}`: {load(name)['description']}" for name in _BEYOND]
    parts += ["", "## Source records\n"]
    files = (
        "registry/1",
        "endpoints/1",
        "manifest/1",
        "prompt_template/1",
        "recipe/1",
        "model_manifest/1",
        "lock/1",
        "plan/1",
    )
    known = {*TABLES.values(), *_BEYOND, *files, _ASKED, _PICKED}
    for name in names():
        if name not in known:
            parts += [f"### `{name}`\n", load(name)["description"] + "\n", *_fields(name), ""]
    return "\n".join(parts).rstrip() + "\n"


def _fields(schema: str) -> Iterator[str]:
    yield "| field | type | meaning |"
    yield "| --- | --- | --- |"
    for name, node in load(schema)["properties"].items():
        yield from _field(name, node)


def _field(name: str, node: dict[str, Any]) -> Iterator[str]:
    mark = " †" if node.get("x-arm-provenance") else ""
    yield f"| `{name}`{mark} | {_type(node)} | {_cell(node)} |"
    inner = node.get("items", node)
    if inner.get("properties") and name not in ("prompt", "completion", "chosen", "rejected"):
        for child, sub in inner["properties"].items():
            yield from _field(f"{name}.{child}", sub)


def _type(node: dict[str, Any]) -> str:
    if node.get("x-arm-type") == "image":
        return "image" + (" or null" if "null" in node["type"] else "")
    types = node.get("type", "any")
    named = [types] if isinstance(types, str) else types
    return " or ".join("list of " + _type(node["items"]) if t == "array" and "items" in node else t for t in named)


def _cell(node: dict[str, Any]) -> str:
    text = node.get("description", "")
    if "enum" in node:
        text += " One of " + ", ".join(f"`{v}`" for v in node["enum"] if v is not None) + "."
    return str(text.replace("|", "\\|").replace("<", "&lt;").strip())


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def registry_keys() -> str:
    """Every key of registry.yaml, from its schema."""
    parts = [
        "# Keys of registry.yaml\n",
        "Written by `docs/generate.py` from `registry/1`. Keys without ° must be given, once what holds them is.",
        "A key ° without a default is unset when absent: nothing is declared, limited or made.\n",
        f"Shipped prompts: {', '.join(f'`{name}` (kind {builtin(name).kind})' for name in prompt_ids())}.\n",
        "| key | type | default | meaning |",
        "| --- | --- | --- | --- |",
        *_keys("", load("registry/1"), _defaults()),
    ]
    return "\n".join(parts) + "\n"


def _keys(prefix: str, schema: dict[str, Any], defaults: dict[str, str]) -> Iterator[str]:
    for name, node in schema.get("properties", {}).items():
        mark = "" if name in schema.get("required", ()) else " °"
        more = {"datasets[].sources[].format": _formats, "datasets[].sources[].dialect": _dialects}
        told = more.get(f"{prefix}{name}", str)()
        default = defaults.get(f"{prefix}{name}", "")
        yield f"| `{prefix}{name}`{mark} | {_type(node)} | {default} | {_cell(node)}{told} |"
        listed = "items" in node and "properties" in node["items"]
        yield from _keys(f"{prefix}{name}{'[]' if listed else ''}.", node["items"] if listed else node, defaults)


def _defaults() -> dict[str, str]:
    """What holds when a key is absent, from the objects that the keys become; not of those that are then unset."""
    tables = "datasets[].tables"
    prompted = [
        f"{tables}.{name}" for name in ("selection_sft", "bt_pairs", "bt_pairs.trajectories", "pointwise_scores")
    ]
    made: list[tuple[str, type[Any]]] = [
        ("datasets[].sources[]", spec.SourceSpec),
        ("datasets[].sources[].sample", SampleSpec),
        ("datasets[].sources[].sample.draws[]", Draws),
        ("datasets[].sources[].label", AskSpec),
        ("datasets[].sources[].label.options", PromptOptions),
        ("datasets[].split", spec.SplitSpec),
        ("datasets[].labels", spec.LabelSpec),
        ("datasets[].benchmarks[]", spec.BenchmarkSpec),
        (f"{tables}.selection_sft", spec.SelectionSpec),
        (f"{tables}.bt_pairs", spec.PairSpec),
        (f"{tables}.bt_pairs.scores", spec.ScorePairSpec),
        (f"{tables}.bt_pairs.negatives", spec.NegativeSpec),
        (f"{tables}.bt_pairs.trajectories", spec.TrajectorySpec),
        (f"{tables}.actor_sft", spec.ActorSpec),
        ("datasets[].gates", spec.GateSpec),
        *((f"{table}.options", PromptOptions) for table in prompted),
    ]
    found = {f"{prefix}.{field.name}": field.default for prefix, kind in made for field in fields(kind)}
    found |= {f"{tables}.bt_pairs.rules.{name}": rule for name, rule in spec.DEFAULT_RULES.items()}
    found[f"{tables}.bt_pairs.trajectories.options.history_window"] = ALL_STEPS
    found |= {f"{tables}.{table}.images": "embed" for table in TABLES}
    return {key: _as_yaml(value) for key, value in found.items() if isinstance(value, bool | int | float | str | tuple)}


def _as_yaml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"`[{', '.join(value)}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _formats() -> str:
    """What the schema does not list, because importers are added without it."""
    kinds = dict.fromkeys(kind for kind, _ in IMPORTERS)
    listed = "; ".join(f"of {kind}: {', '.join(f'`{name}`' for name in formats(kind))}" for kind in kinds)
    return f" {listed[0].upper()}{listed[1:]}. See [formats.md](formats.md)."


def _dialects() -> str:
    return f" One of {', '.join(f'`{name}`' for name in DIALECTS)}."


PAGES = {"cli.md": cli, "tables.md": tables, "registry-keys.md": registry_keys}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (FOLDER / page).write_text(make(), "utf-8")
