"""The model of a checkpoint, from files that hold numbers only: safetensors and JSON. Nothing in a folder is run.

A checkpoint is in one of three layouts:

=========  ========================================================================================================
adapter    ``adapter_model.safetensors`` and ``adapter_config.json`` (LoRA of peft) beside the base model that they
           belong to; of a scalar model also the head, twice: in the adapter, where peft and transformers find it
           (``modules_to_save``), and in ``value_head.safetensors``, where others look for it. The two are the same.
merged     The whole model: ``config.json`` and ``*.safetensors``.
value_head Of a scalar model: ``value_head.safetensors`` alone, on top of the base model as it is.
=========  ========================================================================================================

Others load a published scalar adapter in one of these ways, and get the same scores; ``BASE`` and ``COMMIT`` stand in
its manifest, at ``checkpoint.base``. In the second way ``revision`` is that of the base model: with the adapter's own
tag alone, transformers looks for that tag at the base. ``num_labels=1`` is needed, for the base says nothing of a head.

    base = AutoModelForSequenceClassification.from_pretrained(BASE, revision=COMMIT, num_labels=1)
    PeftModel.from_pretrained(base, "owner/name", revision="v1.0.0")

    AutoModelForSequenceClassification.from_pretrained(
        "owner/name", revision=COMMIT, adapter_kwargs={"revision": "v1.0.0"}, num_labels=1
    )

    AutoModelForSequenceClassification.from_pretrained("a folder that arm merge wrote")

They score several conversations at once only where the base's config.json names a ``pad_token_id``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from ..schemas.errors import ArmError, UsageError
from . import qwen3_vl
from .adapter import WEIGHTS, load_adapter
from .contract import Kind
from .head import FILE as HEAD
from .head import fitting, refuse_other, weight_of

if TYPE_CHECKING:
    import torch

Layout = Literal["adapter", "merged", "value_head"]
DTypeName = Literal["float32", "bfloat16"]
SCORE = "score.weight"  # of every ...ForSequenceClassification of transformers; (1, hidden)


def load_model(
    folder: Path, *, kind: Kind, layout: Layout, base: Path | None, dtype: DTypeName, device: str | None = None
) -> Any:
    """The model of the checkpoint in ``folder``, in evaluation mode, on ``device``: a GPU if there is one.

    base: folder of the base model; of the layouts that need one. dtype: of the weights of the base model. LoRA weights
    and the head of a scalar model are float32, and so are scores: those in bfloat16 have 8 bits, and candidates would
    tie.

    Raises ArmError for weights that are missing, of another shape or not finite, for heads that differ, and for files
    that are no safetensors; UsageError for a device that is not there.
    """
    there = _usable(device)
    below = folder if layout == "merged" else base
    if below is None:
        raise ArmError("the base model is needed, too: this checkpoint is not merged", where=str(folder))
    model = load_base(below, kind=kind, dtype=dtype, with_head=layout == "merged")
    if layout == "adapter":
        model = load_adapter(model, folder, kind=kind)
    if kind == "scalar":
        _set_head(model, _head(folder, layout, model.config.get_text_config().hidden_size))
    return model.to(there).eval()


def load_base(folder: Path, *, kind: Kind, dtype: DTypeName, with_head: bool = False) -> Any:
    """The model in ``folder`` with the head that ``kind`` needs: a score for each conversation, or the next token.

    with_head: whether the score's weights come from the folder. Else they are drawn, and the caller fills them in.
    Raises ArmError when the folder lacks any other weight.
    """
    import torch
    import transformers

    if not any(folder.glob("*.safetensors")):
        raise ArmError("holds no weights in safetensors; other forms can run code and are not read", where=str(folder))
    refuse_code(folder)
    words: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **words)
        with quiet():
            model, told = auto_class(config, kind).from_pretrained(
                folder,
                config=config,
                dtype=getattr(torch, dtype),
                use_safetensors=True,
                output_loading_info=True,
                **words,
            )
    except (ValueError, OSError, RuntimeError, KeyError) as error:
        raise ArmError(f"cannot be loaded: {error}", where=str(folder)) from error
    drawn = {SCORE} if kind == "scalar" and not with_head else set()
    if missing := sorted(set(told["missing_keys"]) - drawn):
        raise ArmError(f"lacks weights of {type(model).__name__}: {_some(missing)}", where=str(folder))
    if told["mismatched_keys"]:
        raise ArmError(
            f"holds weights of another shape: {_some(sorted(map(str, told['mismatched_keys'])))}", where=str(folder)
        )
    return model


def auto_class(config: Any, kind: Kind) -> Any:
    """The Auto class of transformers that makes a ``kind`` of a base model; ``config`` then asks for one score."""
    import transformers

    if kind == "scalar":
        config.num_labels = 1
        qwen3_vl.register(config)
        return transformers.AutoModelForSequenceClassification
    if type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM


def _head(folder: Path, layout: Layout, width: int) -> torch.Tensor:
    """The head of a checkpoint, (1, width), as its file has it."""
    if layout != "merged":
        if layout == "adapter":
            refuse_other(folder / WEIGHTS, folder / HEAD, width)
        return weight_of(folder / HEAD, width)
    from safetensors import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(str(path), framework="pt") as file:
            if SCORE in file.keys():  # noqa: SIM118 - it is no mapping
                return fitting(file.get_tensor(SCORE), width, f"{path} {SCORE}")
    raise ArmError(f"lacks {SCORE}: scores would be drawn by chance", where=str(folder))


def _set_head(model: Any, weight: torch.Tensor) -> None:
    """Give ``model`` the head ``weight``, computed in float32 whatever the rest is: peft and transformers would round
    it to the type of the base model."""
    import torch

    score = below(model).score
    inner = score.modules_to_save["default"] if hasattr(score, "modules_to_save") else score
    inner.weight = torch.nn.Parameter(weight.to(inner.weight.device), requires_grad=False)
    inner.register_forward_pre_hook(lambda _, given: (given[0].float(),))


def refuse_code(folder: Path) -> None:
    """Raise ArmError for a model that transformers knows only with code from the folder, which is never run."""
    from transformers import CONFIG_MAPPING

    path = folder / "config.json"
    try:
        kind = orjson.loads(path.read_bytes()).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise ArmError("is no model: it holds no config.json that can be read", where=str(folder)) from error
    if kind not in CONFIG_MAPPING:
        raise ArmError(
            f"is {kind!r}, which transformers does not know; code that comes with a model is never run",
            where=f"{path} $.model_type", next_command="pip install -U transformers   # if a newer one knows it",
        )  # fmt: skip


def architecture(model: Any) -> str:
    """Name of the class of transformers that holds the whole model, below an adapter."""
    return type(below(model)).__name__


def below(model: Any) -> Any:
    """The model of transformers below an adapter, or ``model`` itself."""
    return model.get_base_model() if hasattr(model, "peft_config") else model


def _usable(device: str | None) -> str:
    """``device``; None: ``cuda`` when there is a GPU, else ``cpu``. Raises UsageError for one that this machine or this
    torch does not have."""
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # of torch without CUDA: an assertion
        told = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise UsageError(f"the device {device!r} cannot be used: {told}", next_command="--device cpu") from error
    return device


@contextmanager
def quiet() -> Iterator[None]:
    """Without what transformers says of weights that are missing or too many: it is checked here."""
    logger = logging.getLogger("transformers")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
