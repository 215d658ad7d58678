"""The model of a checkpoint, whichever kind it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..prompts.render import Prompt
from . import contract as contracts

if TYPE_CHECKING:
    from .scalar import ScalarRewardModel
    from .selection import SelectionARM


def open_model(
    where: Path | str, *, revision: str | None = None, base: Path | str | None = None, device: str | None = None,
    prompt: Prompt | None = None,
) -> ScalarRewardModel | SelectionARM:  # fmt: skip
    """The checkpoint in the folder ``where``, or with ``revision`` in that repository.

    base: folder of its base model; without one it is fetched, if it is needed. prompt: for a checkpoint that brings
    none. Raises ArmError for anything that is not what it was trained with.
    """
    if revision is None:
        folder = Path(where)
    else:
        from .fetch import checkpoint

        folder = checkpoint(str(where), revision)
    made = class_of(contracts.read(folder, weights=False)).open(folder, base=base, device=device)
    return made if prompt is None else made.asked_with(prompt)


def class_of(contract: contracts.Contract) -> type[ScalarRewardModel] | type[SelectionARM]:
    """What a checkpoint with this contract is."""
    from .scalar import ScalarRewardModel
    from .selection import SelectionARM

    return ScalarRewardModel if contract["kind"] == "scalar" else SelectionARM
