"""Loads checkpoints of action reward models and runs them on states and candidates.

    from action_reward_models.inference import ScalarRewardModel, SelectionARM

    arm = SelectionARM.from_pretrained("owner/selection-arm", revision="v1.0.0")
    choice = arm.choose({"task": "Buy milk", "screenshot": png}, ["click(3, 4)", "click(90, 8)", "stop()"])
    choice.selected_index                         # 0-based; choice.status and choice.chosen_by say how it came about

    served = SelectionARM.at(URL, model="arm", checkpoint="owner/selection-arm", revision="v1.0.0")   # of a server
    scalar = ScalarRewardModel.from_pretrained("owner/scalar", revision="v1.0.0")   # choose(...).scores, too

A model that picks none never stands for the first candidate: `choose` raises NoChoiceError, unless ``how`` says what
is to be done (`How`). What a state and candidates are is said by `request`. They are shown in the words, the order and
the sizes that the checkpoint was trained with: its contract (`contract`); what is not its own is refused. Needs the
extra ``inference``, and a model behind a server the extra ``generate``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .choice import Choice, NoChoiceError
    from .choosing import How
    from .opening import open_model
    from .scalar import ScalarRewardModel
    from .selection import SelectionARM

__all__ = ["Choice", "How", "NoChoiceError", "ScalarRewardModel", "SelectionARM", "open_model"]

_WHERE = {
    "Choice": "choice", "NoChoiceError": "choice", "How": "choosing", "ScalarRewardModel": "scalar",
    "SelectionARM": "selection", "open_model": "opening",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """What the names stand for, when they are first asked for: whoever reads a recipe needs none of them."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_WHERE[name]}", __name__), name)
