"""One evaluation: items of a dataset, answers of a model, and the figures made of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...inference.choosing import NEW_TOKENS
from ...inference.rendering import Renderer, Shown, prompts_in, read_prompt
from ...prompts.render import RENDERER_VERSION, Prompt
from ...schemas.actions.relations import TOLERANCE
from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json, file_sha256, sha256_hex
from ...schemas.manifest import manifest_of
from ...schemas.store import load
from ...schemas.validate import compile_schema
from . import statistics
from .asking import ask, chunks, score
from .items import Items, Pictures, Reading, trained_groups
from .metrics import recompute
from .predictions import Running
from .references import SAME

if TYPE_CHECKING:
    from ...inference.scalar import ScalarRewardModel
    from ...inference.selection import SelectionARM
    from ..recipe import Evaluation

PROTOCOL = 1  # raise it with every change to what is asked, or to what a figure counts
OTHER = {"train": "validation", "validation": "train"}


def evaluate(
    model: SelectionARM | ScalarRewardModel, dataset: Path, how: Evaluation, *, out: Path, name: str,
    source: Mapping[str, Any], progress: Callable[[str, int, int], None] = lambda *_: None,
    trained: Collection[str] | None = None, before: Collection[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Ask ``model`` about a split of a built directory and return the entry of its manifest (`model_manifest/1`).

    Writes ``predictions.jsonl`` (`eval_prediction/1`, one a line) and ``report.json`` to the folder ``out``; goes on
    with what an interrupted run of the same evaluation left there.
    source: repo, revision and commit of the dataset, null for a folder; model_commit and trained_on (see
    `registry.evaluating.Trained`), where they are known.
    trained: task groups that the model was trained on, which are not asked about. None: those of the other split.
    before: those that the checkpoints before it were trained on, which are not asked about, either.
    Raises ArmError when nothing is left to ask, when ``out`` holds something else, and for a build that shows a set
    otherwise than it is rendered here.
    """
    kind = model.kind
    manifest = manifest_of(dataset)
    prompt = _prompt(model, dataset)
    prompt_sha256 = model.contract["prompt"]["sha256"]
    said = protocol(how, kind, manifest["identity"])
    stamp = {
        "protocol_sha256": sha256_hex(canonical_json(said)),
        "prompt_sha256": prompt_sha256,
        "dataset_commit": source.get("commit"),
        "model_commit": source.get("model_commit"),
    }
    if trained is None:
        has_states = "states" in manifest["identity"]["tables"]
        trained = trained_groups(dataset, OTHER[how.split]) if has_states else set()
    trained = {*trained, *before}
    about = {
        "protocol": said,
        "prompt_sha256": prompt_sha256,
        "dataset_identity_sha256": manifest["identity_sha256"],
        "model_sha256": _weights(model.processor.folder, model.contract),
        "trained_sha256": sha256_hex(canonical_json(sorted(trained))),
    }
    running = Running(out, about)
    with tempfile.TemporaryDirectory(prefix="arm-evaluate-") as work:
        pictures = Pictures(Path(work))
        items = Reading(
            dataset, how.split, kind, prompt, prompt_sha256, how.orders, how.max_items, trained, pictures, progress
        ).read()  # fmt: skip
        _refuse_nothing(items, dataset, how.split)
        renderer = Renderer(prompt, manifest["identity"]) if prompt else None
        _answer(model, items, renderer, pictures, running, progress)
    order = [str(facts["item_id"]) for facts in items.facts()]
    rows = [row for item_id in order for row in sorted(running.done[item_id], key=lambda row: int(row["order_index"]))]
    found = recompute(rows, kind, stamp)
    entry = {
        "name": name,
        "dataset": {**{key: source.get(key) for key in ("repo", "revision", "commit")},
                    "identity_sha256": manifest["identity_sha256"]},
        "split": how.split,
        "items": found["items"],
        "states": found["states"],
        "left_out": dict(sorted(items.left_out.items())),
        "pairs": found["pairs"],
        "pairs_left_out": dict(sorted(items.pairs_left_out.items())),
        "orders": found["orders"],
        "teacher": items.teacher,
        **{key: found[key] for key in ("outcomes", "slots", "reports", "breakdown", "calibration")},
    }  # fmt: skip
    form = compile_schema(load("model_manifest/1")["properties"]["evaluations"]["items"])
    if problems := form.problems(entry):
        raise ArmError(f"the evaluation breaks its schema, which is a defect: {problems[:3]}")
    running.write(rows)
    running.finish({"kind": kind, "evaluation": entry, "about": about, "trained_on": source.get("trained_on")})
    return entry


def protocol(how: Evaluation, kind: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """How it is asked and counted; its hash says whether two evaluations can be compared."""
    shown = Shown.of(identity)
    return {
        "protocol": PROTOCOL,
        "kind": kind,
        "split": how.split,
        "orders": how.orders if kind == "selection_arm" else 1,
        "max_items": how.max_items,
        "max_new_tokens": NEW_TOKENS if kind == "selection_arm" else None,
        "each_action_once": shown.merge,
        "shuffled": shown.shuffle,
        "labels": identity["parameters"].get("labels") or {"rule": "first", "teacher": None},
        "equivalent": list(SAME),
        "near": TOLERANCE,
        "renderer": RENDERER_VERSION,
        "draws": statistics.DRAWS,
        "seed": statistics.SEED,
    }


def _answer(
    model: SelectionARM | ScalarRewardModel, items: Items, renderer: Renderer | None, pictures: Pictures,
    running: Running, progress: Callable[[str, int, int], None],
) -> None:  # fmt: skip
    """Ask what was not answered yet; what was asked together is answered together."""
    planned = chunks(items, model.kind)
    wanted = {item.facts["item_id"]: len(item.orders) for item in items.sets}
    wanted |= {pair.facts["item_id"]: 1 for pair in items.pairs}
    names = [[unit.facts["item_id"] for unit in chunk] for chunk in planned]
    whole = [all(len(running.done.get(name, ())) == wanted[name] for name in some) for some in names]
    running.keep(name for some, done in zip(names, whole, strict=True) if done for name in some)
    doing, finished, total = "asking", 0, len(wanted)
    for chunk, done in zip(planned, whole, strict=True):
        if not done:
            asked: Any = model
            if model.kind == "selection_arm":
                assert renderer is not None
                running.add(ask(asked, chunk, renderer, pictures))
            else:
                running.add(score(asked, chunk, renderer, pictures))
        finished += len(chunk)
        progress(doing, finished, total)


def _prompt(model: SelectionARM | ScalarRewardModel, dataset: Path) -> Prompt | None:
    """The prompt that the model was trained with; None when its rows came ready-made."""
    said = model.contract["prompt"]
    if said["sha256"] is None:
        if model.kind == "selection_arm":
            raise ArmError(
                "was trained on rows that came ready-made, whose prompt nobody knows: no set can be shown with it",
                where=str(model.processor.folder),
            )
        return None
    path = model.processor.folder / (said["file"] or "")
    found = [read_prompt(path)] if said["file"] and path.is_file() else []
    found += [prompt for prompt in prompts_in(dataset) if prompt.sha256 == said["sha256"]]
    if not found or found[0].sha256 != said["sha256"]:
        raise ArmError(f"lacks the prompt {said['sha256'][:12]} that it was trained with", where=str(path))
    if found[0].kind not in ("selection" if model.kind == "selection_arm" else "scalar", "trajectory"):
        raise ArmError(f"is a {found[0].kind} prompt, and the model is a {model.kind}", where=str(path))
    return None if found[0].kind == "trajectory" else found[0]


def _weights(folder: Path, contract: Mapping[str, Any]) -> str:
    """What tells two models apart: their weights and what they are used with."""
    files = [[path.name, file_sha256(path)] for path in sorted(folder.glob("*.safetensors"))]
    return sha256_hex(canonical_json([files, dict(contract)]))


def _refuse_nothing(items: Items, dataset: Path, split: str) -> None:
    if items.sets or items.pairs:
        return
    counted = {**items.left_out, **{f"pairs: {reason}": n for reason, n in items.pairs_left_out.items()}}
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(counted.items()))
    told = f"none of its sets in {split} can be asked: {reasons}" if reasons else f"holds no candidate sets in {split}"
    following = "--dataset, with tasks that the checkpoint was not trained on" if "task_in_train" in counted else None
    raise ArmError(told, where=str(dataset), next_command=following)
