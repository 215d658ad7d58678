"""The split: a function of the seed and the task group, and of nothing else."""

from __future__ import annotations

import hashlib

from .spec import SplitSpec


def split_of(task_group: str, spec: SplitSpec) -> str:
    """``train`` or ``validation``.

    The group's hash with the seed, read as a number in [0, 1), is compared with the validation share: rows that come,
    go, move or are built elsewhere cannot move any other row.
    """
    digest = hashlib.sha256(f"{spec.seed}\n{task_group}".encode()).digest()
    return "validation" if int.from_bytes(digest[:8], "big") < spec.validation * 2**64 else "train"
