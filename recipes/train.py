"""From rows to weights: what a trainer does with a recipe, and what is kept of it."""

from __future__ import annotations

import gc
import math
import shutil
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ..inference import contract as contracts
from ..inference.opening import class_of
from ..inference.processor import Processor
from ..schemas import manifest as built
from ..schemas.errors import ArmError
from .inputs import Inputs
from .manifest import manifest_of
from .rows import Rows, encode, prepare
from .scoring import answers
from .work import Work

if TYPE_CHECKING:
    from .trainers.team import Team

Progress = Callable[[str, int, int], None]
COMPARED = 8  # conversations, at most, that are scored before and after the checkpoint is loaded again
_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")


class Stopped(KeyboardInterrupt):
    """Training was asked to stop and did, after a step, with a checkpoint to go on from. ``str`` of it says how."""


def train(inputs: Inputs, work: Work, team: Team, *, steps: int | None, progress: Progress) -> dict[str, Any] | None:
    """Train and write adapter, head, processor, prompt and log to ``work.made``. ``steps``: instead of the recipe's.

    Returns {"checkpoint", "training", "reference"}: the first two as `model_manifest/1` has them, but for `reload`, and
    the scores of some rows, by which a loaded checkpoint is compared. None in every process but the first.

    Raises ArmError for rows that cannot be used and for arguments that cannot be, and Stopped.
    """
    from transformers.utils import logging

    from .checks import refuse
    from .trainers import models, settings, watch

    refuse(inputs.recipe, with_arguments=team.count == 1)
    logging.disable_progress_bar()  # of loading: progress is told by one function
    recipe = inputs.recipe
    arguments = settings.settings(recipe, work.trainer, name=inputs.identity["name"], steps=steps)
    processor = Processor(inputs.base, recipe.limits, recipe.template_options)
    contracts.refuse_padding(processor)
    if team.first:
        prepare(inputs, processor, work.rows, progress)
    team.wait()
    rows = Rows(work.rows)
    if inputs.start is not None:
        _refuse_other_start(inputs.start, processor, rows)
    model = models.load(inputs, processor)
    start = watch.last(work.trainer)
    watching = watch.Watch(team, progress, watch.seconds(start))
    trainer = _trainer(inputs, arguments, model, rows, processor, watching)
    with watching:
        if not watch.ended(trainer, start):
            trainer.train(resume_from_checkpoint=str(start) if start else None)
    if watching.stopping and trainer.state.global_step < trainer.state.max_steps:
        team.wait()
        done = f"{trainer.state.global_step} of {trainer.state.max_steps} steps"
        raise Stopped(f"training stopped after {done}; the same command goes on from there")
    _refuse_diverged(trainer, recipe.path)
    if not team.first:
        return None
    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False).eval()
    checkpoint = _checkpoint(inputs, rows, processor, model)
    _write(inputs, work.made, model, processor, rows, trainer.state.log_history)
    made = {
        "checkpoint": checkpoint,
        "training": _training(inputs, rows, trainer, watching.seconds, team.count),
        "reference": _reference(inputs, rows, processor, model, checkpoint),
    }
    del trainer, model
    gc.collect()
    _free()
    return made


def _trainer(inputs: Inputs, arguments: Any, model: Any, rows: Rows, processor: Processor, watching: Any) -> Any:
    from transformers import PrinterCallback

    from .trainers import batches

    given: dict[str, Any] = {
        "model": model, "args": arguments, "train_dataset": batches.numbers(rows),
        "processing_class": processor.tokenizer, "callbacks": [watching],
    }  # fmt: skip
    try:
        if inputs.recipe.kind == "selection_arm":
            from .trainers.selection import SelectionTrainer

            trainer: Any = SelectionTrainer(data_collator=batches.Replies(rows, processor), **given)
        else:
            from .trainers.scalar import ScalarTrainer

            scored = batches.Scored(rows, processor, inputs.recipe.loss or "")
            trainer = ScalarTrainer(inputs.recipe, data_collator=scored, **given)
    except ValueError as error:
        raise ArmError(f"the trainer refuses: {error}", where=str(inputs.recipe.path)) from error
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        raise ArmError("each process trains the whole model here: FSDP and DeepSpeed split it",
                       next_command="accelerate launch --multi_gpu ...")  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


def _refuse_diverged(trainer: Any, recipe: Path) -> None:
    """Weights that are no numbers would be found out much later."""
    import torch

    with torch.no_grad():
        trained = [weight for weight in trainer.model.parameters() if weight.requires_grad]
        fine = all(bool(torch.isfinite(weight).all()) for weight in trained)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if not fine or not all(math.isfinite(loss) for loss in losses):
        told = f"training diverged: after {trainer.state.global_step} steps weights or losses are no numbers"
        raise ArmError(told, where=str(recipe), next_command="a lower trainer.learning_rate; then arm train --restart")


def _refuse_other_start(start: Path, processor: Processor, rows: Rows) -> None:
    """What a checkpoint is used with stays when it is trained further: its prompt, template and pictures."""
    said = manifest_of(start)["checkpoint"]
    found = {"prompt": dict(rows.facts.prompt), "processor": processor.contract()}
    for part, keys in (("prompt", ("sha256",)), ("processor", [*found["processor"]])):
        for key in keys:
            if key != "max_tokens" and said[part][key] != found[part][key]:
                raise ArmError(
                    f"was trained with {part}.{key} {said[part][key]!r}, and this recipe has {found[part][key]!r}; "
                    "a checkpoint that is trained further keeps its own", where=str(start),
                )  # fmt: skip


def _checkpoint(inputs: Inputs, rows: Rows, processor: Processor, model: Any) -> dict[str, Any]:
    from ..inference import head
    from ..inference.rendering import shown_in

    recipe, scored = inputs.recipe, rows.facts.scored
    ready_made = rows.facts.prompt["id"] is None
    source = inputs.base_source
    return {
        "kind": recipe.kind,
        "layout": "adapter",
        "architecture": type(model.get_base_model()).__name__,
        "dtype": recipe.dtype,
        "base": {key: source[key] for key in ("repo", "commit", "sha256")},
        "prompt": dict(rows.facts.prompt),
        "candidates": None if ready_made else shown_in(built.manifest_of(inputs.dataset)["identity"]),
        "processor": processor.contract(),
        "head": scored and {
            "file": head.FILE,
            "scored_token_id": scored,
            "scored_token": processor.tokenizer.decode([scored]),
        },
    }  # fmt: skip


def _write(
    inputs: Inputs, folder: Path, model: Any, processor: Processor, rows: Rows, log: list[Mapping[str, Any]]
) -> None:
    """The files of a checkpoint, into an empty ``folder``."""
    from .trainers import models

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    models.save(model, folder, base=inputs.base_source)
    processor.save(folder)
    if file := rows.facts.prompt["file"]:
        (folder / file).parent.mkdir()
        shutil.copyfile(inputs.dataset / file, folder / file)
    (folder / "training").mkdir()
    (folder / "training" / "log.jsonl").write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in log))


def _training(inputs: Inputs, rows: Rows, trainer: Any, seconds: float, processes: int) -> dict[str, Any]:
    import torch

    facts, arguments, state = rows.facts, trainer.args, trainer.state
    curve = [{"step": entry["step"], "loss": entry["loss"]} for entry in state.log_history if "loss" in entry]
    trained, parameters = trainer.model.get_nb_trainable_parameters()
    gpu = torch.cuda.is_available() and not arguments.use_cpu
    return {
        "table": inputs.recipe.table, "split": inputs.recipe.split,
        "rows": facts.rows, "used": facts.used, "unusable": dict(facts.unusable),
        "steps": state.global_step, "epochs": float(state.epoch),
        "batch": arguments.train_batch_size * arguments.gradient_accumulation_steps * processes,
        "seconds": round(seconds, 3),
        "device": torch.cuda.get_device_name() if gpu else arguments.device.type,
        "processes": processes, "parameters": parameters, "trained_parameters": trained,
        "loss_first": curve[0]["loss"] if curve else None, "loss_last": curve[-1]["loss"] if curve else None,
        "curve": curve,
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }  # fmt: skip


def _reference(
    inputs: Inputs, rows: Rows, processor: Processor, model: Any, checkpoint: Mapping[str, Any]
) -> dict[str, Any]:
    """Numbers of some units, spread over all, and the scores (or log-likelihoods) of their replies."""
    count = min(len(rows), COMPARED)
    units = [at * len(rows) // count for at in range(count)]
    found = [encoded for unit in units for encoded in encode(processor, rows[unit], inputs.recipe.kind)]
    using = class_of(checkpoint)(model, processor, checkpoint)  # what uses a checkpoint later
    return {"units": units, "values": answers(using, found)}


def _free() -> None:
    """Give back the memory of a GPU, which another process needs now."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
