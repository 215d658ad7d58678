"""Which arguments of ``lora`` and ``trainer`` a recipe cannot give, because something else decides them.

Free of torch, so that checking and training share it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The vision tower and what leads from it to the language model stand below this name in the Qwen families.
VISION = "visual"
VISUAL = re.compile(rf"(^|\.){VISION}\.")

_PROCESSOR = "conversations become tokens in one way only: limits, template_options and the base model decide it"
_CUT = "nothing is cut: a row beyond limits.max_tokens is left out and counted"
_EVALUATION = "the recipe's own evaluation is what a checkpoint is judged by, after training"
_HUB = "training writes a folder; arm apply publishes it"
_PLACE = "the work folder of training decides it"
_TYPE = "dtype decides it"
_MACHINES = "how many machines train is said where training is launched (accelerate launch), not in the recipe"
_ONE_LOSS = "which tokens are learned is fixed: the reply, after the prompt"
_ADAPTER = "training writes it into the adapter"

# Part of a recipe -> argument -> why it cannot be given there.
OWNED_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "lora": {
        "task_type": "the kind of the recipe decides it",
        "peft_type": "it is LoRA",
        "auto_mapping": _ADAPTER,
        "peft_version": _ADAPTER,
        "base_model_name_or_path": "base decides it",
        "revision": "base decides it",
        "inference_mode": _ADAPTER,
        "runtime_config": _ADAPTER,
        "exclude_modules": "vision decides it: frozen leaves out the vision tower and the projector",
        "modules_to_save": "of a scalar model the head is saved, of a selection ARM nothing besides LoRA",
    },
    "trainer": {
        "output_dir": _PLACE,
        "run_name": "the name of the checkpoint is the run's",
        "seed": "seed of the recipe decides it",
        "data_seed": "seed of the recipe decides it",
        "max_length": _CUT,
        "truncation_mode": _CUT,
        "packing": _PROCESSOR,
        "packing_strategy": _PROCESSOR,
        "eval_packing": _PROCESSOR,
        "padding_free": _PROCESSOR,
        "pad_to_multiple_of": _PROCESSOR,
        "chat_template_path": _PROCESSOR,
        "eos_token": _PROCESSOR,
        "pad_token": _PROCESSOR,
        "dataset_text_field": _PROCESSOR,
        "dataset_kwargs": _PROCESSOR,
        "dataset_num_proc": _PROCESSOR,
        "length_column_name": _PROCESSOR,
        "remove_unused_columns": _PROCESSOR,
        "label_names": _PROCESSOR,
        "completion_only_loss": _ONE_LOSS,
        "assistant_only_loss": _ONE_LOSS,
        "model_init_kwargs": "base, dtype and vision decide how the model is loaded",
        "trust_remote_code": "no code of a repository is ever run",
        "use_cache": "training keeps no cache of keys and values",
        "bf16": _TYPE,
        "fp16": _TYPE,
        "bf16_full_eval": _TYPE,
        "fp16_full_eval": _TYPE,
        "do_train": _EVALUATION,
        "do_eval": _EVALUATION,
        "do_predict": _EVALUATION,
        "eval_strategy": _EVALUATION,
        "eval_steps": _EVALUATION,
        "eval_delay": _EVALUATION,
        "eval_on_start": _EVALUATION,
        "eval_accumulation_steps": _EVALUATION,
        "eval_do_concat_batches": _EVALUATION,
        "eval_use_gather_object": _EVALUATION,
        "batch_eval_metrics": _EVALUATION,
        "per_device_eval_batch_size": _EVALUATION,
        "prediction_loss_only": _EVALUATION,
        "include_for_metrics": _EVALUATION,
        "load_best_model_at_end": _EVALUATION,
        "metric_for_best_model": _EVALUATION,
        "greater_is_better": _EVALUATION,
        "push_to_hub": _HUB,
        "hub_model_id": _HUB,
        "hub_strategy": _HUB,
        "hub_token": _HUB,
        "hub_private_repo": _HUB,
        "hub_always_push": _HUB,
        "hub_revision": _HUB,
        "resume_from_checkpoint": "arm train goes on by itself where the same recipe was interrupted",
        "restore_callback_states_from_checkpoint": "arm train goes on by itself where the same recipe was interrupted",
        "ignore_data_skip": "training that goes on reads each row as often as training in one go",
        "save_only_model": "without the optimizer's state training could not go on",
        "auto_find_batch_size": "the batch is part of what a checkpoint is; write per_device_train_batch_size",
        "local_rank": _MACHINES,
        "deepspeed": _MACHINES,
        "fsdp": _MACHINES,
        "fsdp_config": _MACHINES,
        "parallelism_config": _MACHINES,
        "accelerator_config": _MACHINES,
    },
}

# The ways to start LoRA that leave the weights of the base as they are: after others the adapter would not fit it.
_KEEPS_BASE = (True, False, "gaussian", "orthogonal")


def owned(part: str, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(argument, why) for each of ``arguments`` that the recipe's ``part`` (lora, trainer) cannot give, in order."""
    reasons = OWNED_ARGUMENTS[part]
    found = [(name, f"cannot be given: {reasons[name]}") for name in arguments if name in reasons]
    if part == "lora" and (start := arguments.get("init_lora_weights", True)) not in _KEEPS_BASE:
        told = f"{start!r} changes the weights of the base, to which the adapter would no longer fit; gaussian, "
        found.append(("init_lora_weights", f"{told}orthogonal, true or false do not"))
    return found
