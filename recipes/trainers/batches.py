"""Rows to the arrays of a batch, when the trainer asks for them: its dataset holds only their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset

from ...inference.processor import Processor
from ..rows import Rows, encode

IGNORED = -100  # label of a token that is not learned


def numbers(rows: Rows) -> Dataset:
    """The dataset of a trainer: {"unit": i} of each unit of learning."""
    return Dataset.from_dict({"unit": list(range(len(rows)))})


@dataclass(frozen=True)
class Replies:
    """Batches of a selection ARM: ``labels`` (B, longest) are the reply and its end, all else is ignored."""

    rows: Rows
    processor: Processor

    def __call__(self, units: Sequence[Mapping[str, int]]) -> dict[str, torch.Tensor]:
        found = [encode(self.processor, self.rows[unit["unit"]], "selection_arm")[0] for unit in units]
        batch = self.processor.batch(found)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        for label, row in zip(labels, found, strict=True):
            label[: row.prompt] = IGNORED
        return {**batch, "labels": labels}


@dataclass(frozen=True)
class Scored:
    """Batches of a scalar model. With the losses of pairs all chosen ones, then all rejected ones; with listwise one
    list after the other, whose lengths ``sizes`` says. ``targets`` (B,): margins or scores."""

    rows: Rows
    processor: Processor
    loss: str

    def __call__(self, units: Sequence[Mapping[str, int]]) -> dict[str, Any]:
        rows = [self.rows[unit["unit"]] for unit in units]
        found = [encode(self.processor, row, "scalar") for row in rows]
        if self.loss in ("bt", "soft_bt"):
            flat = [one[0] for one in found] + [one[1] for one in found]
        else:
            flat = [encoded for one in found for encoded in one]
        batch: dict[str, Any] = self.processor.batch(flat)
        if self.loss == "listwise":
            batch["sizes"] = torch.tensor([len(one) for one in found])
        if self.loss in ("soft_bt", "pointwise"):
            batch["targets"] = torch.tensor([row.target for row in rows], dtype=torch.float32)
        return batch
