"""The model as its config describes it, without weights: what LoRA changes of it, and how many parameters."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ...inference.checkpoint import auto_class
from ...schemas.errors import ArmError
from ..arguments import VISUAL
from ..recipe import Recipe
from .findings import Findings, Given


def check(recipe: Recipe, given: Given, found: Findings) -> None:
    """Whether the base can be what the recipe's kind needs, whether LoRA finds its modules, and what vision says."""
    assert given.base is not None
    place = "$.base" if "base" in recipe.data else "$.init_from"
    try:
        model = _model(recipe, given.base)
    except ArmError as error:
        found.refuse(place, error.message)
        return
    counts = {"architecture": type(model).__name__, "parameters": model.num_parameters()}
    found.counts["model"] = counts
    if recipe.lora is None:  # that of the checkpoint which is trained further
        return
    linear = _linear(model)
    vision = [name for name in linear if VISUAL.search(name)]
    counts["vision_modules"] = len(vision)
    if recipe.vision == "trained" and not vision:
        found.refuse("$.vision", "is trained, and the base has no vision tower")
    targets = recipe.lora.get("target_modules")
    for number, name in enumerate(targets if isinstance(targets, list) else []):
        if not any(one == name or one.endswith(f".{name}") for one in linear):
            ends = ", ".join(sorted({one.rsplit(".", 1)[-1] for one in linear if one not in vision}))
            found.refuse(f"$.lora.target_modules[{number}]", f"{name!r} is no linear layer of the base; it has {ends}")
            return
    _count_lora(recipe, model, counts, found)


def _model(recipe: Recipe, base: Path) -> Any:
    """The model on the device "meta". Raises ArmError for a base that cannot be of the recipe's kind."""
    import torch
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(base, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ArmError(f"its config.json cannot be used: {_first_line(error)}") from error
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return auto_class(config, recipe.kind).from_config(config, trust_remote_code=False)
    except ValueError as error:
        if recipe.kind == "scalar":
            raise ArmError(
                f"there is no class for sequence classification with {config.model_type}, and a scalar model is one; "
                "Qwen3.5 and Qwen3-VL have one"
            ) from error
        raise ArmError(f"no model can be made of it: {_first_line(error)}") from error


def _linear(model: Any) -> list[str]:
    """Names of the layers that LoRA can change with all-linear: not the output layer, and not the head."""
    import torch

    heads = ("lm_head", "score")
    return [
        name for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name.rsplit(".", 1)[-1] not in heads
    ]  # fmt: skip


def _count_lora(recipe: Recipe, model: Any, counts: dict[str, Any], found: Findings) -> None:
    import torch
    from peft import get_peft_model

    from ..trainers.models import lora_config

    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = get_peft_model(model, lora_config(recipe))
    except Exception as error:  # a library raises what it likes for a bad value; its words are the finding
        if not any(issue.path.startswith("$.lora") for issue in found.issues):
            found.refuse("$.lora", f"cannot be put into the base: {_first_line(error)}")
        return
    changed = {name.partition(".lora_A")[0] for name, _ in made.named_parameters() if ".lora_A" in name}
    counts["lora_modules"] = len(changed)
    counts["lora_vision_modules"] = sum(1 for name in changed if VISUAL.search(name))
    if recipe.vision == "trained" and not counts["lora_vision_modules"]:
        found.refuse("$.vision", "is trained, and target_modules names nothing of the vision tower")
    counts["trained_parameters"] = made.get_nb_trainable_parameters()[0]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
