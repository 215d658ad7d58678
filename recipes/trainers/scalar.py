"""TRL's RewardTrainer for conversations with pictures, and for other losses than Bradley-Terry."""

from __future__ import annotations

from typing import Any

import torch
from trl import RewardTrainer

from ..recipe import Recipe
from . import losses
from .quiet import Quiet


class ScalarTrainer(Quiet, RewardTrainer):
    """TRL's trainer takes texts alone. Here the dataset holds numbers of rows, which the collator makes arrays of."""

    def __init__(self, recipe: Recipe, **given: Any) -> None:
        self.recipe = recipe
        super().__init__(**given)

    def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
        return dataset

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["unit"]

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if self.recipe.loss == "bt":
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        sizes, targets = inputs.pop("sizes", None), inputs.pop("targets", None)
        outputs = model(**inputs, use_cache=False)
        scores = outputs.logits.squeeze(-1)
        if self.recipe.loss == "soft_bt":
            chosen, rejected = torch.chunk(scores, 2)
            loss = losses.soft_bradley_terry(chosen, rejected, targets, self.recipe.k)
            if (coefficient := self.args.center_rewards_coefficient) is not None:
                loss = loss + coefficient * torch.mean((chosen + rejected) ** 2)
            right = chosen > rejected
        elif self.recipe.loss == "listwise":
            loss = losses.listwise(scores, sizes.tolist())
            right = torch.stack([part.argmax() == 0 for part in torch.split(scores, sizes.tolist())])
        else:
            loss = losses.pointwise(scores, targets, self.recipe.huber_delta)
            right = (torch.sigmoid(scores) - targets).abs() <= self.recipe.huber_delta
        self._note(inputs, scores.detach(), right)
        return (loss, outputs) if return_outputs else loss

    def _note(self, inputs: dict[str, Any], scores: torch.Tensor, right: torch.Tensor) -> None:
        """The figures of a log entry, under the names that TRL gives them."""
        mode = "train" if self.model.training else "eval"
        gather = self.accelerator.gather_for_metrics
        if mode == "train":
            self._total_train_tokens += int(gather(inputs["attention_mask"].sum()).sum().item())
        self._metrics[mode]["num_tokens"] = [self._total_train_tokens]
        spread = gather(torch.stack([scores.min(), scores.mean(), scores.max()])[None])
        self._metrics[mode]["min_reward"].append(spread[:, 0].min().item())
        self._metrics[mode]["mean_reward"].append(spread[:, 1].mean().item())
        self._metrics[mode]["max_reward"].append(spread[:, 2].max().item())
        self._metrics[mode]["accuracy"].append(gather(right.float().mean()).mean().item())
