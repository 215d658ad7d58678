"""What a recipe's references became: local folders, and what a manifest says of where they are from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .recipe import Recipe


@dataclass(frozen=True)
class Inputs:
    """Everything that training reads.

    identity: that of the manifest (`model_manifest/1`); its digest decides what training may be resumed into.
    dataset: a built directory. dataset_commit: None for a build that is not published.
    base: folder of the base model (config.json, weights, tokenizer). base_source: its repo, commit and sha256, as
    `model_manifest/1` has them at checkpoint.base.
    start: folder of the checkpoint that is trained further; None when training starts from the base.
    seen: task groups that ``start`` and those before it were trained on, which no evaluation may ask about.
    """

    recipe: Recipe
    identity: Mapping[str, Any]
    dataset: Path
    dataset_commit: str | None
    base: Path
    base_source: Mapping[str, Any]
    start: Path | None = None
    seen: frozenset[str] = frozenset()
