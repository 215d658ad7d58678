"""What a recipe says that can be judged without anything else."""

from __future__ import annotations

from ..arguments import owned
from ..recipe import Recipe
from .findings import Findings, Given

_TRYING = "a published checkpoint rests on what others can get, too"


def check(recipe: Recipe, given: Given, found: Findings) -> None:
    """Splits that overlap, arguments that something else decides, folders in what a registry publishes."""
    if recipe.evaluation is not None and recipe.evaluation.split == recipe.split:
        found.refuse(
            "$.evaluation.split", f"is {recipe.split}, which is trained on; evaluate another split, or say "
            "evaluation: none",
        )  # fmt: skip
    for part, arguments in (("lora", recipe.lora or {}), ("trainer", recipe.trainer)):
        for name, why in owned(part, arguments):
            found.refuse(f"$.{part}.{name}", why)
    if recipe.loss not in (None, "soft_bt") and "k" in recipe.data.get("objective", {}):
        found.refuse("$.objective.k", f"is of soft_bt, and the loss is {recipe.loss}")
    if recipe.loss not in (None, "pointwise") and "huber_delta" in recipe.data.get("objective", {}):
        found.refuse("$.objective.huber_delta", f"is of pointwise, and the loss is {recipe.loss}")
    if recipe.kind == "scalar" and recipe.evaluation is not None and recipe.evaluation.orders > 1:
        found.refuse("$.evaluation.orders", "a scalar model sees one candidate at a time: it has no order")
    low, high = recipe.limits.min_pixels, recipe.limits.max_pixels
    if low and high and low > high:
        found.refuse("$.limits.min_pixels", f"is {low:,}, above max_pixels {high:,}")
    if given.target is not None:
        for part in ("dataset", "base"):
            place = recipe.data.get(part)
            if isinstance(place, dict) and "folder" in place:
                found.refuse(f"$.{part}.folder", f"is a folder, and {given.target} publishes this recipe: {_TRYING}")
