"""LoRA weights on top of a base model, as peft keeps them: every one of them has its place, and no other is there."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import orjson

from ..schemas.errors import ArmError
from .contract import Kind
from .head import IN_ADAPTER, fitting, tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TASKS = {"scalar": "SEQ_CLS", "selection_arm": "CAUSAL_LM"}


def load_adapter(model: Any, folder: Path, *, kind: Kind, trainable: bool = False) -> Any:
    """``model`` with the adapter in ``folder``, to be used, or trained further.

    Raises ArmError for an adapter that is no LoRA, that asks for anything to be imported, or whose weights are not
    exactly those that ``model`` has places for.
    """
    import torch
    from peft import PeftModel, get_peft_model_state_dict

    read_config(folder, kind=kind)
    found = tensors(folder / WEIGHTS)
    for name, tensor in found.items():
        if not torch.isfinite(tensor).all():
            raise ArmError("holds numbers that are not finite", where=f"{folder / WEIGHTS} {name}")
    if kind == "scalar":
        fitting(found.get(IN_ADAPTER), model.config.get_text_config().hidden_size, f"{folder / WEIGHTS} {IN_ADAPTER}")
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of weights that lack: checked below
            made = PeftModel.from_pretrained(model, str(folder), is_trainable=trainable)
    except Exception as error:  # whatever peft raises at settings that somebody else wrote
        raise ArmError(f"does not fit the base model: {error}", where=str(folder / WEIGHTS)) from error
    places = set(get_peft_model_state_dict(made, save_embedding_layers=False))
    if places != set(found):
        lacking, over = sorted(places - set(found)), sorted(set(found) - places)
        told = [f"lacks {lacking[0]} (of {len(lacking)})"] if lacking else []
        told += [f"holds {over[0]} (of {len(over)}), for which there is no place"] if over else []
        raise ArmError(f"does not fit the base model: it {' and '.join(told)}", where=str(folder / WEIGHTS))
    return made


def read_config(folder: Path, *, kind: Kind | None = None) -> dict[str, Any]:
    """``adapter_config.json``. Raises ArmError for none, for another method than LoRA, and for an adapter of another
    task than ``kind`` has."""
    path = folder / CONFIG
    try:
        config = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ArmError(f"holds no adapter: there is no {CONFIG}", where=str(folder)) from error
    except ValueError as error:
        raise ArmError(f"is not JSON: {error}", where=str(path)) from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kept = config.get("peft_type") if isinstance(config, dict) else None
        raise ArmError(f"describes {kept!r}, and only LORA is known here", where=f"{path} $.peft_type")
    if config.get("megatron_config") is not None:  # peft would import the module that megatron_core names
        raise ArmError("asks for a module to be imported", where=f"{path} $.megatron_config")
    if kind is not None and config.get("task_type") not in (TASKS[kind], None):
        raise ArmError(f"is for {config['task_type']}, and a {kind} is {TASKS[kind]}", where=f"{path} $.task_type")
    return config
