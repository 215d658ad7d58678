"""What differs between two versions of a dataset: rows by id, label flips, split moves, prompts, sources, the card."""

from __future__ import annotations

from .compare import compare
from .model import Diff
from .side import Side

__all__ = ["Diff", "Side", "compare"]
