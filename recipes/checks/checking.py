"""The checks of a recipe, in order: what is written, its arguments, the model, the rows, the tokens."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ...schemas.errors import ArmError
from ...schemas.yamlfile import YamlFile
from ...schemas.yamlfile import read as read_yaml
from ..recipe import Recipe
from . import arguments, declared, further, rows, shape, tokens
from .findings import Checked, Findings, Given, Skipped

__all__ = ["Checked", "Given", "Skipped", "check", "refuse"]

SAMPLE = 200  # rows whose tokens are counted
INSTALL = "pip install 'action-reward-models[train]'"


def check(path: Path, given: Given | None = None, *, sample: int = SAMPLE) -> Checked:
    """Check the recipe in ``path`` as far as what is ``given`` allows; ``sample`` rows are counted with the processor.

    Raises ArmError for a recipe that is not of its form (``file:line $.path``): nothing more can be said of it then.
    """
    file = read_yaml(path, "recipe/1")
    recipe = Recipe.of(path, file.data)
    given = given or Given()
    found = Findings(file)
    declared.check(recipe, given, found)
    lacking = _lacking()
    if lacking:
        for name in ("arguments", "model", "tokens"):
            found.skip(name, *lacking)
    else:
        arguments.check(recipe, found)
    base_is_here = not lacking and _here("base", given, found, ("model", "tokens"))
    dataset_is_here = _here("dataset", given, found, ("rows", "groups", "tokens"))
    processor = None
    if base_is_here:
        assert given.base is not None
        shape.check(recipe, given, found)
        processor = tokens.processor_of(recipe, given.base, found)
    if dataset_is_here:
        assert given.dataset is not None
        try:
            usable = rows.check(recipe, given.dataset, found)
        except ArmError as error:
            found.refuse("$.dataset", f"{error.where}: {error.message}" if error.where else error.message)
            usable = False
        if usable and processor is not None:
            tokens.check(recipe, given.dataset, processor, sample, found)
    if given.start is not None:
        further.check(recipe, given.start, processor, found)
    return Checked(tuple(sorted(found.issues)), _once(found.skipped), found.counts)


def refuse(recipe: Recipe, *, with_arguments: bool) -> None:
    """What is written, and its arguments, once more before anything is made. Raises ArmError with every problem.

    with_arguments: not where several processes train together, whose ways to find each other a try would take.
    """
    on_disk = recipe.path.is_file()
    found = Findings(read_yaml(recipe.path, "recipe/1") if on_disk else YamlFile(recipe.path, dict(recipe.data), {}))
    declared.check(recipe, Given(), found)
    if with_arguments:
        arguments.check(recipe, found)
    if found.issues:
        raise ArmError.of(str(recipe.path), sorted(found.issues))


def _lacking() -> tuple[str, str] | None:
    """Why the libraries that train cannot be used, and what would help; None when they can."""
    missing = [name for name in ("torch", "transformers", "peft", "trl") if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed", INSTALL
    return None


def _here(name: str, given: Given, found: Findings, needed_by: tuple[str, ...]) -> bool:
    """Whether the folder ``name`` is given; if not, what needs it is listed as skipped."""
    if getattr(given, name) is not None:
        return True
    why, then = given.absent.get(name, (f"the {name} is not at hand", "give a folder of it"))
    for check_name in needed_by:
        found.skip(check_name, why, then)
    return False


def _once(skipped: list[Skipped]) -> tuple[Skipped, ...]:
    """One line for each check and reason, in the order of the checks."""
    order = ("references", "arguments", "model", "rows", "groups", "tokens")
    return tuple(sorted(dict.fromkeys(skipped), key=lambda one: order.index(one.check)))
