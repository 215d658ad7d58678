"""Arguments of ``lora`` and ``trainer``, bound to the classes of the installed libraries."""

from __future__ import annotations

import dataclasses
import enum
import tempfile
import types
import typing
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ...schemas.errors import ArmError
from ...schemas.validate import nearest
from ..arguments import OWNED_ARGUMENTS
from ..recipe import Recipe
from .findings import Findings

# Names that older versions had, which guides still show: argument -> what is written now.
_MOVED = {
    "warmup_ratio": "warmup_steps, of which a number below 1 is a share of all steps",
    "group_by_length": "train_sampling_strategy: group_by_length",
    "max_seq_length": "limits.max_tokens of the recipe",
    "evaluation_strategy": "evaluation of the recipe",
}
_POSITIVE = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "learning_rate")
_OF_A_GPU = ("tf32",)  # refused where there is none, whatever they say
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    list: "a list",
}


def check(recipe: Recipe, found: Findings) -> None:
    """Unknown names with the nearest known one, values of another type, and what the classes themselves refuse."""
    from peft import LoraConfig
    from trl import RewardConfig, SFTConfig

    trainer = SFTConfig if recipe.kind == "selection_arm" else RewardConfig
    with tempfile.TemporaryDirectory() as folder:
        _bind("lora", LoraConfig, {}, recipe.lora or {}, found)
        fixed = {"use_cpu": True, "bf16": False, "report_to": "none", "output_dir": folder}
        _bind("trainer", trainer, fixed, recipe.trainer, found)
        if not any(issue.path.startswith("$.trainer") for issue in found.issues):
            _as_training_does(recipe, Path(folder), found)
    found.counts["arguments"] = {"lora": len(recipe.lora or {}), "trainer": len(recipe.trainer)}


def _as_training_does(recipe: Recipe, folder: Path, found: Findings) -> None:
    """The very settings of training, with what the recipe's other parts decide."""
    from ..trainers.settings import settings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings(recipe, folder)
    except ArmError as error:
        of_a_gpu = any(name in recipe.trainer for name in _OF_A_GPU)  # which was listed as skipped
        if not of_a_gpu:
            found.refuse("$.trainer", error.message)


def _bind(part: str, kind: Any, fixed: Mapping[str, Any], given: Mapping[str, Any], found: Findings) -> None:
    package = "peft" if part == "lora" else "trl"
    title = f"{package}.{kind.__name__} {metadata.version(package)}"
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    hints = typing.get_type_hints(kind)
    good = {}
    for name, value in given.items():
        if name in OWNED_ARGUMENTS[part]:  # refused already
            continue
        place = f"$.{part}.{name}"
        if name not in known:
            close = nearest(name, [one for one in known if one not in OWNED_ARGUMENTS[part]])
            hint = f"; write {_MOVED[name]}" if name in _MOVED else f"; did you mean {close!r}?" if close else ""
            found.refuse(place, f"is no argument of {title}{hint}")
        elif not _admits(hints[name], value):
            found.refuse(place, f"is {_shown(value)}, not {_wanted(hints[name])} ({title})")
        elif name in _POSITIVE and value is not None and value <= 0:
            found.refuse(place, f"is {value}, and must be above 0")
        elif name in _OF_A_GPU:
            found.skip("arguments", f"{name} can only be judged on the GPU that trains", "arm train --smoke 2 there")
        else:
            good[name] = value
    said = _refusal(kind, {**fixed, **good})
    if said is None:
        return
    alone = {name: words for name, value in good.items() if (words := _refusal(kind, {**fixed, name: value}))}
    for name, words in (alone or {"": said}).items():
        found.refuse(f"$.{part}.{name}".rstrip("."), f"is refused by {title}: {words}")


def _refusal(kind: Any, arguments: Mapping[str, Any]) -> str | None:
    """What the class says against the arguments; None when it takes them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind(**arguments)
    except Exception as error:  # a library raises what it likes for a bad value; its words are the finding
        return " ".join(str(error).split())[:400] or type(error).__name__
    return None


def _admits(hint: Any, value: Any) -> bool:
    """Whether a value out of YAML can be of the type ``hint``. Types that YAML cannot spell admit what they like."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_admits(one, value) for one in typing.get_args(hint))
    if origin is typing.Literal:
        # Literals of libraries also hold placeholders ("pissa_niter_[number of iters]"), so only the type is judged.
        return any(type(one) is type(value) for one in typing.get_args(hint))
    if origin in (list, tuple):
        wanted = typing.get_args(hint)
        return isinstance(value, list) and all(not wanted or _admits(wanted[0], one) for one in value)
    plain = origin or hint
    if plain is type(None):
        return value is None
    if plain is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if plain is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if plain in (str, bool, dict, list):
        return isinstance(value, plain)
    if isinstance(plain, type) and issubclass(plain, enum.Enum):
        return isinstance(value, str)
    return plain is Any or isinstance(value, dict)


def _wanted(hint: Any) -> str:
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    plain = [typing.get_origin(one) or one for one in members if one is not type(None)]
    return " or ".join(dict.fromkeys(_WORDS.get(one, getattr(one, "__name__", str(one))) for one in plain))


def _shown(value: Any) -> str:
    kinds = {
        bool: "a boolean",
        int: "a whole number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return f"{kinds.get(type(value), 'null')} ({str(value)[:60]})" if value is not None else "null"
