"""Loads checkpoints of action reward models and runs them on states and candidates.

    from action_reward_models.inference import ScalarRewardModel, SelectionARM

    scalar = ScalarRewardModel.from_pretrained("owner/scalar", revision="v1.0.0")
    scores = scalar.score(prompt, [screenshot], replies)  # one number for each reply, the higher the better

    arm = SelectionARM.from_pretrained("owner/selection-arm", revision="v1.0.0")
    reply = arm.ask(prompt, [screenshot], n=5)    # reply.selected is 1-based; reply.status says if it is there

``prompt`` and each of ``replies`` are messages as `rendering` makes them of a state and its candidates, in the words
that the checkpoint was trained with; ``screenshot`` is the bytes of a picture. What a checkpoint is used with is its
contract (`contract`), and what is not its own is refused. Needs the extra ``inference``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .scalar import ScalarRewardModel
    from .selection import SelectionARM

__all__ = ["ScalarRewardModel", "SelectionARM"]


def __getattr__(name: str) -> Any:
    """What the two names stand for, when it is first asked for: whoever reads a recipe needs neither."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import scalar, selection

    return scalar.ScalarRewardModel if name == "ScalarRewardModel" else selection.SelectionARM
