"""TRL's SFTTrainer for a selection ARM."""

from __future__ import annotations

from trl import SFTTrainer

from .quiet import Quiet


class SelectionTrainer(Quiet, SFTTrainer):
    """The dataset holds numbers of rows, which the collator makes arrays of: TRL would take a processor class of
    transformers, and those of the Qwen families need torchvision."""
