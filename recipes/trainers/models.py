"""The model that is trained: base, LoRA and head; and what is kept of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import peft
import torch
import transformers
from safetensors.torch import save_file

from ...inference.processor import Processor
from ...schemas.errors import ArmError
from ..inputs import Inputs
from ..recipe import Recipe

HEAD = "value_head.safetensors"
# The vision tower and what leads from it to the language model stand below this name in the Qwen families.
_VISION = "visual"
_VISUAL = re.compile(rf"(^|\.){_VISION}\.")


def load(inputs: Inputs, processor: Processor) -> Any:
    """The base with LoRA and, of a scalar model, its head: new ones, or those of the checkpoint that is trained further.

    LoRA and head are float32, whatever the base is. Raises ArmError when what is to be trained is not there.
    """
    recipe = inputs.recipe
    transformers.set_seed(recipe.seed)
    base = _base(inputs.base, recipe, processor)
    if inputs.start is not None:
        if not (inputs.start / "adapter_model.safetensors").is_file():
            raise ArmError("holds no adapter_model.safetensors", where=str(inputs.start))
        model = peft.PeftModel.from_pretrained(base, inputs.start, is_trainable=True)
    else:
        transformers.set_seed(recipe.seed)
        model = peft.get_peft_model(base, lora_config(recipe))
    for name, parameter in model.named_parameters():
        if recipe.vision == "frozen" and _VISUAL.search(name):
            parameter.requires_grad = False
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not any("lora_" in name for name in trained):
        raise ArmError("LoRA finds nothing to train: target_modules names none", where=str(recipe.path))
    if recipe.vision == "trained" and not any(_VISUAL.search(name) for name in trained):
        raise ArmError("vision is to be trained, and LoRA reaches nothing of it", where=str(recipe.path))
    return model


def lora_config(recipe: Recipe) -> peft.LoraConfig:
    """The recipe's LoRA, with what else decides."""
    assert recipe.lora is not None
    given: dict[str, Any] = {"task_type": "CAUSAL_LM", **recipe.lora}
    if recipe.kind == "scalar":
        given |= {"task_type": "SEQ_CLS", "modules_to_save": ["score"]}
    if recipe.vision == "frozen":
        given["exclude_modules"] = rf"(.*\.)?{_VISION}\..*"
    return peft.LoraConfig(**given)


def _base(folder: Path, recipe: Recipe, processor: Processor) -> Any:
    classes = transformers.AutoModelForSequenceClassification
    more: dict[str, Any] = {"num_labels": 1}
    if recipe.kind == "selection_arm":
        more = {}
        sees = processor.pictures is not None
        classes = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    model = classes.from_pretrained(
        folder, dtype=getattr(torch, recipe.dtype), trust_remote_code=False, use_safetensors=True,
        local_files_only=True, **more,
    )  # fmt: skip
    if recipe.kind == "scalar":
        weight = torch.zeros(model.score.weight.shape)
        weight.normal_(0, recipe.head_std, generator=torch.Generator().manual_seed(recipe.seed))
        model.score.weight.data = weight
        model.config.get_text_config().pad_token_id = processor.pad_token_id
    return model


def save(model: Any, folder: Path, *, base: Mapping[str, Any]) -> None:
    """Write adapter and, of a scalar model, head. ``base``: repo and commit; nothing names a place of this machine."""
    model.save_pretrained(folder, safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)  # of another tool
    path = folder / "adapter_config.json"
    config = orjson.loads(path.read_bytes())
    config |= {"base_model_name_or_path": base["repo"], "revision": base["commit"]}
    path.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    if (head := head_of(model)) is not None:
        weight = head.detach().cpu().float().contiguous()
        save_file({"v_head.summary.weight": weight, "v_head.summary.bias": torch.zeros(1)}, folder / HEAD)


def head_of(model: Any) -> torch.Tensor | None:
    """The weights (1, hidden) that are trained as the head; None of a selection ARM."""
    found = [weight for name, weight in model.named_parameters() if ".score.modules_to_save." in name]
    return found[0] if found else None
