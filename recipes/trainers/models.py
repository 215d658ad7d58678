"""The model that is trained: base, LoRA and head; and what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import peft
import torch
import transformers
from torch import nn

from ...inference import head
from ...inference.adapter import WEIGHTS, read_config
from ...inference.checkpoint import load_base
from ...inference.processor import Processor
from ...schemas.errors import ArmError
from ..arguments import VISION, VISUAL, owned
from ..inputs import Inputs
from ..recipe import Recipe


class Float32Head(nn.Linear):
    """The head, in float32 whatever the model computes in: scores that differ by a thousandth stay apart."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            return super().forward(hidden.float())


def load(inputs: Inputs, processor: Processor) -> Any:
    """The base with LoRA and, of a scalar model, its head: new, or those of the checkpoint that is trained further.

    LoRA and head are float32, whatever the base is. Raises ArmError when what is to be trained is not there.
    """
    recipe = inputs.recipe
    transformers.set_seed(recipe.seed)
    base = load_base(inputs.base, kind=recipe.kind, dtype=recipe.dtype)
    if recipe.kind == "scalar":
        base.score = _new_head(base.config.get_text_config().hidden_size, recipe)
        base.config.get_text_config().pad_token_id = processor.pad_token_id
    if inputs.start is not None:
        model = _further(base, inputs.start, recipe)
    else:
        transformers.set_seed(recipe.seed)
        try:
            model = peft.get_peft_model(base, lora_config(recipe))
        except ValueError as error:  # such as target_modules that name nothing
            raise ArmError(f"lora: {error}", where=str(recipe.path)) from error
    # peft looks there whether the base was changed; a name would be looked for on the Hub.
    model.peft_config["default"].base_model_name_or_path = str(inputs.base)
    for name, parameter in model.named_parameters():
        if recipe.vision == "frozen" and VISUAL.search(name):
            parameter.requires_grad = False
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not any("lora_" in name for name in trained):
        raise ArmError("LoRA finds nothing to train: target_modules names none", where=str(recipe.path))
    if recipe.vision == "trained" and not any(VISUAL.search(name) for name in trained):
        raise ArmError("vision is to be trained, and LoRA reaches nothing of it", where=str(recipe.path))
    return model


def _further(base: Any, start: Path, recipe: Recipe) -> Any:
    """``base`` with the LoRA and head of the checkpoint in ``start``, which are trained."""
    read_config(start, kind=recipe.kind)
    if not (start / WEIGHTS).is_file():
        raise ArmError(f"holds no {WEIGHTS}", where=str(start))
    if recipe.kind == "scalar":
        head.refuse_other(start / WEIGHTS, start / head.FILE, base.config.get_text_config().hidden_size)
    return peft.PeftModel.from_pretrained(base, str(start), is_trainable=True)


def lora_config(recipe: Recipe) -> peft.LoraConfig:
    """The recipe's LoRA, with what else decides. Raises ArmError for arguments that peft refuses."""
    assert recipe.lora is not None
    if refused := owned("lora", recipe.lora):
        raise ArmError("; ".join(f"lora.{name} {why}" for name, why in refused), where=str(recipe.path))
    given: dict[str, Any] = {**recipe.lora, "task_type": "CAUSAL_LM"}
    if recipe.kind == "scalar":
        given |= {"task_type": "SEQ_CLS", "modules_to_save": ["score"]}
    if recipe.vision == "frozen":
        given["exclude_modules"] = rf"(.*\.)?{VISION}\..*"
    try:
        return peft.LoraConfig(**given)
    except (TypeError, ValueError) as error:
        raise ArmError(f"lora: {error}", where=str(recipe.path)) from error


def _new_head(width: int, recipe: Recipe) -> Float32Head:
    made = Float32Head(width, 1, bias=False)
    nn.init.normal_(made.weight, 0, recipe.head_std, generator=torch.Generator().manual_seed(recipe.seed))
    return made


def save(model: Any, folder: Path, *, base: Mapping[str, Any]) -> None:
    """Write adapter and, of a scalar model, head. ``base``: repo and commit; nothing names a place of this machine."""
    model.save_pretrained(folder, safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)  # of another tool
    path = folder / "adapter_config.json"
    config = orjson.loads(path.read_bytes())
    config |= {"base_model_name_or_path": base["repo"], "revision": base["commit"]}
    for key in ("target_modules", "modules_to_save"):  # sets, in an order of chance
        if isinstance(config[key], list):
            config[key] = sorted(set(config[key]))
    path.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    if (weight := head_of(model)) is not None:
        head.write(folder / head.FILE, weight)


def head_of(model: Any) -> torch.Tensor | None:
    """The weights (1, hidden) that are trained as the head; None of a selection ARM."""
    found = [weight for name, weight in model.named_parameters() if ".score.modules_to_save." in name]
    return found[0] if found else None
