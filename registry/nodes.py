"""Checkpoints in the graph: whether one is what its recipe asks for, and how it is made."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hub_sync.pull import pull
from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256
from . import graph
from .models import ModelSpec, Training, identity, read_model_manifest, write_model_manifest
from .staleness import differences

if TYPE_CHECKING:
    from .declaration import Registry


@dataclass(frozen=True)
class ModelNode:
    """One checkpoint of a registry. A dataset is asked the same of `Registry`: its reasons, and to be built."""

    registry: Registry
    spec: ModelSpec

    @property
    def folder(self) -> Path:
        return self.registry.folder(self.spec)

    def reasons(self) -> list[str]:
        """Why it must be trained (again); empty when it is up to date.

        Raises ArmError for a reference that arm.lock does not hold, and for a dataset that is not built as declared.
        """
        wanted = self._identity()
        manifest = read_model_manifest(self.folder)
        if manifest is None:
            return ["there is no checkpoint yet"]
        found = list(differences(manifest["identity"], wanted))
        for path, file in manifest["environment"]["files"].items():
            if not (self.folder / path).is_file() or file_sha256(self.folder / path) != file["sha256"]:
                found.append(f"{path} is missing or changed")
        return found

    def build(self) -> Path:
        """Train it and return the built directory, whose manifest is written last. A failure leaves the last one.

        Raises ArmError when there is no trainer for this kind of recipe, and for what `reasons` raises.
        """
        made = self._identity()
        kind = self.spec.recipe["kind"]
        trainer = self.registry.trainers.get(kind)
        if trainer is None:
            raise ArmError(
                f"{self.spec.name} is a {kind}, and nothing here trains that kind", where=str(self.registry.path),
                next_command="Registry.load(path, trainers={kind: function}) names a function that does",
            )  # fmt: skip
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{self.spec.name}-", dir=self.folder.parent) as name:
            work = Path(name)
            dataset = self._dataset(work)
            (work / "made").mkdir()
            start = made["base"] or made["init_from"]
            trainer(Training(self.spec, dataset, start["commit"], work / "made"))
            write_model_manifest(work / "made", made)
            if self.folder.exists():
                self.folder.rename(work / "old")
            (work / "made").rename(self.folder)
            shutil.rmtree(work / "old", ignore_errors=True)
        return self.folder

    def _identity(self) -> dict[str, Any]:
        commit = self.registry.read_lock().of(self.spec.start, self.registry.path).commit
        return identity(self.spec, graph.dataset_of(self.registry, self.spec.dataset), commit)

    def _dataset(self, work: Path) -> Path:
        """The built directory of the dataset: the registry's own, or the published one at its locked commit."""
        if mine := graph.own(self.registry, self.spec.dataset):
            return self.registry.folder(mine)
        locked = self.registry.read_lock().of(self.spec.dataset, self.registry.path)
        pull(self.registry.hub, self.spec.dataset.repo, locked.commit, work / "dataset")
        return work / "dataset"
