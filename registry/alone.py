"""A recipe file as a registry: the one that declares it, or, without one, itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.errors import ArmError, UsageError
from ..schemas.yamlfile import read
from .models import read_recipe

if TYPE_CHECKING:
    from .declaration import Registry

FILE = "registry.yaml"
NAMESPACE, VERSION = "nobody", "0.0.0"  # of what is declared nowhere and so never published
_RECIPE = re.compile(r"^recipe\s*:", re.MULTILINE)
_REGISTRY = re.compile(r"^registry\s*:", re.MULTILINE)


def is_recipe(path: Path) -> bool:
    """Whether ``path`` is a recipe and no registry, as far as a glance tells."""
    try:
        text = path.read_text("utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return False
    return bool(_RECIPE.search(text)) and not _REGISTRY.search(text)


def declaring(recipe: Path) -> tuple[Path, tuple[str, ...]] | None:
    """(registry.yaml in the folder of ``recipe`` or above it whose models name it, their names), if there is one.

    A registry.yaml that cannot be read is an error only when it speaks of the recipe. Raises ArmError then.
    """
    wanted = recipe.resolve()
    for folder in wanted.parents:
        path = folder / FILE
        if not path.is_file():
            continue
        try:
            models = read(path, "registry/1").data.get("models", [])
        except ArmError:
            if wanted.name in path.read_text("utf-8", errors="replace"):
                raise
            continue
        names = tuple(model["name"] for model in models if (folder / model["recipe"]).resolve() == wanted)
        if names:
            return _shown(path), names
    return None


def of_recipe(path: Path, **options: Any) -> tuple[Registry, tuple[str, ...]]:
    """(The registry, the names in it of the checkpoints that ``path`` describes). ``options``: of `Registry.load`.

    A recipe that no registry declares stands alone: its registry holds one checkpoint, called like the file, and no
    dataset, and its arm.lock lies beside it. Raises ArmError with every problem.
    """
    from .declaration import Registry

    if not path.is_file():
        raise UsageError("there is no such recipe", where=str(path), next_command="arm train RECIPE")
    if found := declaring(path):
        return Registry.load(found[0], **options), found[1]
    return lone(path, **options), (name_of(path),)


def lone(path: Path, **options: Any) -> Registry:
    """The registry that ``path`` is by itself. Raises ArmError with every problem."""
    from .declaration import Registry

    spec = read_recipe(name_of(path), NAMESPACE, VERSION, path, alone=True)
    return Registry(
        path, NAMESPACE, (), (spec,), make=options.get("make"), compare=options.get("compare"),
        given_hub=options.get("hub"), alone=True,
    )  # fmt: skip


def name_of(path: Path) -> str:
    """The name of a checkpoint whose recipe stands alone: that of the file, of the letters that names may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._") or "checkpoint"


def _shown(path: Path) -> Path:
    """``path`` as a person would write it here."""
    here = Path.cwd().resolve()
    return path.relative_to(here) if here in path.parents else path
