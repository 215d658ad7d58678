"""What stands beside the records: dataset_info.json, the recipes, and a README that says what this is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from ....schemas.built import BuiltTables
from ....schemas.manifest import identity_digest
from ...ledger import Row
from ..types import Exported

VERSION = "0.9.5"  # of LLaMA-Factory, that the folder is tested with
_KINDS = {"selection": "sft", "scalar": "rm", "actor": "sft", "actor_control": "sft"}  # kind of data -> stage
_TAGS = {
    "role_tag": "role", "content_tag": "content",
    "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system",
}  # fmt: skip
_CUTOFF = 8192  # tokens, of the released recipes


class Part(NamedTuple):
    """The rows of one kind of data and split."""

    kind: str
    split: str

    def dataset(self, name: str) -> str:
        return f"{name}_{self.kind}_{self.split}"

    def file(self, name: str) -> str:
        return f"{self.dataset(name)}.jsonl"


def kind_of(table: str, row: Row) -> str:
    """The kind of data that a row is of: controls are another run's targets, and are never mixed with the others."""
    if table == "actor_sft":
        return "actor_control" if row["selected_by"] == "random_control" else "actor"
    return {"selection_sft": "selection", "bt_pairs": "scalar"}[table]


def write(
    tables: BuiltTables, out: Path, exported: Exported, parts: Mapping[Part, int], thinking: set[str]
) -> None:  # fmt: skip
    """Write all that is not a record or a picture. ``thinking`` are the kinds of data whose assistant turns think."""
    name = tables.identity["name"]
    info = {part.dataset(name): _entry(part, name) for part in sorted(parts)}
    (out / "dataset_info.json").write_text(json.dumps(info, indent=2) + "\n", "ascii")
    commands = []
    for kind in [kind for kind in _KINDS if Part(kind, "train") in parts]:
        validated = Part(kind, "validation") in parts
        if not validated:
            exported.notes.append(f"{kind} has no validation rows: its recipe trains without evaluation")
        values = _values(tables, kind, validated, thinking=kind in thinking)
        trained = kind.removesuffix("_control")
        templates = {"train": f"train_{trained}.yaml", "eval": f"eval_{_KINDS[kind]}.yaml", "merge": "merge.yaml"}
        for step, verb in (("train", "train"), ("eval", "train"), ("merge", "export")):
            if step == "eval" and not validated:
                continue
            recipe = f"{step}_{kind}.yaml"
            command = f"llamafactory-cli {verb} {recipe}"
            text = _template(templates[step]).substitute(values, command=command)
            (out / recipe).write_text(text, "utf-8")
            commands.append(command)
    for kind in [kind for kind in _KINDS if Part(kind, "train") not in parts and Part(kind, "validation") in parts]:
        exported.notes.append(f"{kind} has validation rows only: it is registered, and has no recipe")
    (out / "README.md").write_text(_readme(tables, exported, commands), "utf-8")


def _entry(part: Part, name: str) -> dict[str, Any]:
    columns = {"messages": "messages", "images": "images"}
    ranking = _KINDS[part.kind] == "rm"
    return {
        "file_name": part.file(name),
        "formatting": "sharegpt",
        **({"ranking": True} if ranking else {}),
        "columns": columns | ({"chosen": "chosen", "rejected": "rejected"} if ranking else {}),
        "tags": _TAGS,
    }


def _values(tables: BuiltTables, kind: str, validated: bool, *, thinking: bool) -> dict[str, str]:
    identity = tables.identity
    tokens = identity["parameters"].get("tokens")
    validation = Part(kind, "validation").dataset(identity["name"])
    return {
        "title": _title(identity),
        "version": VERSION,
        "kind": kind,
        "stage": _KINDS[kind],
        "dataset": Part(kind, "train").dataset(identity["name"]),
        "validation": validation,
        "evaluation": _EVALUATED.substitute(validation=validation) if validated else _NOT_EVALUATED,
        "enable_thinking": "true" if thinking else "false",
        "cutoff_len": str(max(_CUTOFF, tokens["max_tokens"] if tokens else 0)),
    }


_EVALUATED = Template(
    "eval_dataset: $validation  # this dataset's own; a val_size would take rows from train\n"
    "eval_strategy: steps\n"
    "eval_steps: 0.1  # share of all steps\n"
    "per_device_eval_batch_size: 2"
)
_NOT_EVALUATED = "# no eval_dataset: the build has no validation rows of this kind"


def _template(name: str) -> Template:
    return Template(resources.files(__package__).joinpath("templates", name).read_text("utf-8"))


def _title(identity: Mapping[str, Any]) -> str:
    return f"{identity['namespace']}/{identity['name']} v{identity['version']}, build {identity_digest(identity)[:12]}"


def _readme(tables: BuiltTables, exported: Exported, commands: list[str]) -> str:
    identity = tables.identity
    files = "\n".join(f"| `{name}` | {rows:,} |" for name, rows in exported.files.items())
    prompts = "\n".join(f"- prompt `{p['id']}` ({p['kind']}): `{p['sha256']}`" for p in identity["prompts"])
    return _template("README.md").substitute(
        name=f"{identity['namespace']}/{identity['name']}",
        release=identity["version"],
        license=identity["license"],
        identity=identity_digest(identity),
        version=VERSION,
        prompts=prompts or "- no prompt: all rows came ready-made",
        files=files,
        pictures=f"{exported.pictures:,}",
        commands="\n".join(commands) or "# no recipe: there are no rows of train",
        lost=exported.lost(),
    )
