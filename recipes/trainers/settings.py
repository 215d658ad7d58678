"""Arguments of TRL's trainers: the recipe's, and those that something else decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from trl import RewardConfig, SFTConfig

from ...schemas.errors import ArmError
from ..arguments import owned
from ..recipe import Recipe

_PAIRS = ("bt", "soft_bt")  # losses for which TRL's center_rewards_coefficient means something


def settings(recipe: Recipe, folder: Path, *, name: str | None = None, steps: int | None = None) -> Any:
    """An SFTConfig or RewardConfig whose checkpoints go to ``folder``.

    name: of the run, where it is reported to. steps: so many, whatever the recipe says.

    Raises ArmError for arguments that a recipe cannot give, and for values that TRL refuses.
    """
    where = str(recipe.path)
    if refused := owned("trainer", recipe.trainer):
        raise ArmError("; ".join(f"trainer.{name} {why}" for name, why in refused), where=where)
    if recipe.trainer.get("center_rewards_coefficient") is not None and recipe.loss not in _PAIRS:
        raise ArmError(f"center_rewards_coefficient is for the losses {' and '.join(_PAIRS)}", where=where)
    given: dict[str, Any] = {
        "save_total_limit": 1,
        "report_to": "none",
        "ddp_find_unused_parameters": recipe.vision == "trained",  # a batch without pictures leaves out the tower
        **recipe.trainer,
    }
    given |= {
        "output_dir": str(folder),
        "run_name": name,
        "seed": recipe.seed,
        "max_length": None,
        "remove_unused_columns": False,
        "bf16": recipe.dtype == "bfloat16",
        "fp16": False,
        "use_cpu": not torch.accelerator.is_available(),
        "disable_tqdm": True,
        "eval_strategy": "no",
        "push_to_hub": False,
    }
    if given.get("gradient_checkpointing", True):
        given["gradient_checkpointing_kwargs"] = {
            "use_reentrant": False, **(given.get("gradient_checkpointing_kwargs") or {})
        }  # fmt: skip
    if recipe.kind == "selection_arm":
        given["dataset_kwargs"] = {"skip_prepare_dataset": True}
    if steps is not None:
        given |= {"max_steps": steps, "logging_steps": 1, "save_strategy": "no"}
    try:
        made = (SFTConfig if recipe.kind == "selection_arm" else RewardConfig)(**given)
    except (TypeError, ValueError) as error:
        raise ArmError(f"trainer: {error}", where=where) from error
    made.mixed_precision = "bf16" if made.bf16 else "no"  # whatever `accelerate launch` is told
    return made
