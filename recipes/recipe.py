"""A recipe as a checked declaration; what it refers to is resolved elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..inference.checkpoint import DTypeName
from ..inference.contract import Kind
from ..inference.processor import Limits
from ..schemas.yamlfile import read as read_yaml

Loss = Literal["bt", "soft_bt", "listwise", "pointwise"]
TABLES: Mapping[str, str] = {
    "selection_arm": "selection_sft", "bt": "bt_pairs", "soft_bt": "bt_pairs", "listwise": "bt_pairs",
    "pointwise": "pointwise_scores",
}  # fmt: skip


@dataclass(frozen=True)
class Evaluation:
    """split: of the recipe's dataset. orders: ways in which each set is shown. max_items: None for all."""

    split: str
    orders: int = 1
    max_items: int | None = None


@dataclass(frozen=True)
class Recipe:
    """``data`` is the recipe as it was read; the fields are that with its defaults. Refer to `recipe/1` for meanings.

    loss: None for a selection ARM. evaluation: None where the recipe says ``none``.
    lora: arguments of peft.LoraConfig; None with ``init_from``. trainer: arguments of trl.SFTConfig or RewardConfig.
    """

    path: Path
    data: Mapping[str, Any] = field(repr=False)
    kind: Kind
    loss: Loss | None
    k: float
    huber_delta: float
    split: str
    evaluation: Evaluation | None
    dtype: DTypeName
    vision: Literal["frozen", "trained"]
    template_options: Mapping[str, Any]
    limits: Limits
    max_unusable: float
    lora: Mapping[str, Any] | None
    head_std: float
    trainer: Mapping[str, Any]
    seed: int

    @classmethod
    def of(cls, path: Path, data: Mapping[str, Any]) -> Recipe:
        """The recipe of checked ``data``, such as a manifest's; ``path`` is where it was read."""
        objective = data.get("objective", {})
        held_out = data["evaluation"]
        loss = None if data["kind"] == "selection_arm" else objective.get("loss", "bt")
        return cls(
            path, data, data["kind"], loss, objective.get("k", 6.0), objective.get("huber_delta", 0.1),
            data.get("split", "train"), None if held_out == "none" else Evaluation(**held_out),
            data["dtype"], data["vision"], data.get("template_options", {}), Limits(**data["limits"]),
            data.get("max_unusable", 0.02), data.get("lora"), data.get("head_std", 0.001), data["trainer"],
            data["seed"],
        )  # fmt: skip

    @property
    def table(self) -> str:
        """The table that it learns from."""
        return TABLES[self.loss or self.kind]


def read(path: Path) -> Recipe:
    """The recipe in ``path``. Raises ArmError with every place that is not of the form (``file:line $.path``)."""
    return Recipe.of(path, read_yaml(path, "recipe/1").data)
