"""A checkpoint that is trained further keeps what it is used with: kind, prompt, template and pictures."""

from __future__ import annotations

from pathlib import Path

from ...inference.processor import Processor
from ...schemas.errors import ArmError
from ..manifest import manifest_of
from ..recipe import Recipe
from .findings import Findings

# Part of the contract -> where the recipe says it. What else differs is of the base.
_SAID = {
    "min_pixels": "$.limits.min_pixels",
    "max_pixels": "$.limits.max_pixels",
    "template_options": "$.template_options",
}


def check(recipe: Recipe, start: Path, processor: Processor | None, found: Findings) -> None:
    """Hold the recipe, its rows and the base's processor, as far as they are known, against ``start``'s manifest."""
    try:
        said = manifest_of(start)["checkpoint"]
    except ArmError as error:
        found.refuse("$.init_from", f"is no checkpoint: {error.message}")
        return
    if said["kind"] != recipe.kind:
        found.refuse("$.init_from", f"is a {said['kind']}, and the recipe is a {recipe.kind}")
    if said["layout"] != "adapter":
        found.refuse("$.init_from", f"is {said['layout']}: only an adapter is trained further")
    if found.prompt and found.prompt != said["prompt"]["sha256"]:
        theirs = str(said["prompt"]["sha256"])[:12]
        found.refuse(
            "$.dataset", f"its rows have the prompt {found.prompt[:12]}, and init_from was trained with {theirs}"
        )
    for key, value in (processor.contract() if processor is not None else {}).items():
        if key != "max_tokens" and value != said["processor"][key]:
            found.refuse(
                _SAID.get(key, "$.init_from"), f"{key} is {value!r} here, and init_from was trained with "
                f"{said['processor'][key]!r}: what is trained further keeps its own",
            )  # fmt: skip
