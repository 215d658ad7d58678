"""Measures checkpoints on candidate sets with a reference, beside baselines on the same sets."""

from __future__ import annotations

from .metrics import recompute
from .run import evaluate

__all__ = ["evaluate", "recompute"]
