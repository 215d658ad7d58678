"""Checkpoints as a registry declares them: a recipe, and what it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..recipes.recipe import Recipe
from ..schemas.errors import ArmError, Issue
from ..schemas.yamlfile import YamlFile, read
from .sources.references import Kind, Reference, repo_problem, version_of


@dataclass(frozen=True)
class ModelSpec:
    """One checkpoint to train.

    dataset: a version, or a built folder. start: the base model, or the checkpoint that training goes on from; or a
    folder with a base model. Folders are for a recipe that no registry declares.
    """

    name: str
    namespace: str
    version: str
    recipe: Recipe = field(repr=False)
    dataset: Reference | Path
    start: Reference | Path
    license: str | None = None
    description: str = ""

    @property
    def references(self) -> tuple[Reference, ...]:
        """What arm.lock has to hold of it, unless the registry builds it itself."""
        return tuple(one for one in (self.dataset, self.start) if isinstance(one, Reference))


def read_recipe(
    name: str, namespace: str, version: str, path: Path, *, license: str | None = None, description: str = "",
    alone: bool = False,
) -> ModelSpec:  # fmt: skip
    """The checkpoint that the recipe ``path`` describes; folders only if it stands ``alone``.

    Raises ArmError with every problem (``file:line $.path``).
    """
    file = read(path, "recipe/1")
    reader = _Reader(file, namespace, alone)
    dataset, start = reader.dataset(), reader.start()
    if reader.issues:
        raise ArmError.of(str(path), reader.issues)
    assert dataset is not None
    assert start is not None
    return ModelSpec(name, namespace, version, Recipe.of(path, file.data), dataset, start, license, description)


@dataclass
class _Reader:
    """Turns what a recipe names into references; what is none becomes an issue at its line."""

    file: YamlFile
    namespace: str
    alone: bool
    issues: list[Issue] = field(default_factory=list)

    def dataset(self) -> Reference | Path | None:
        said = self.file.data["dataset"]
        return self._version("$.dataset", said, "dataset") if isinstance(said, str) else self._folder("$.dataset", said)

    def start(self) -> Reference | Path | None:
        data = self.file.data
        if "base" not in data:
            return self._version("$.init_from", data["init_from"], "model")
        base = data["base"]
        if "folder" in base:
            return self._folder("$.base", base)
        if problem := repo_problem(base["model"]):
            self._issue("$.base.model", problem)
            return None
        return Reference("model", base["model"], base["revision"])

    def _version(self, where: str, text: str, kind: Kind) -> Reference | None:
        try:
            return version_of(text, kind, "" if self.alone else self.namespace)
        except ValueError as error:
            self._issue(where, str(error))
            return None

    def _folder(self, where: str, said: Mapping[str, Any]) -> Path | None:
        folder = self.file.path.parent / str(said["folder"])
        if not self.alone:
            self._issue(f"{where}.folder", "is a folder, which is for trying out: what a registry publishes rests on "
                        "what others can have, too; name a repository, or take the recipe out of models")  # fmt: skip
        elif not folder.is_dir():
            self._issue(f"{where}.folder", f"names no folder: {folder}")
        else:
            return folder
        return None

    def _issue(self, where: str, message: str) -> None:
        self.issues.append(Issue(str(self.file.path), self.file.line(where), where, message))
