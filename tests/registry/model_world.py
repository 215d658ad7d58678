"""A registry with one dataset and one checkpoint on a hub, both published; nothing here needs torch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.publish import Published
from action_reward_models.recipes import manifest as manifests
from action_reward_models.registry import ModelNode, Registry
from action_reward_models.registry.plan import Options, Step

from ..hub_sync.conftest import Publisher
from . import checkpoints

MODELS = (
    'models:\n  - {name: judge, version: "1.0.0", recipe: recipes/judge.yaml, license: mit, description: Judges.}\n'
)


@dataclass(frozen=True)
class World:
    folder: Path
    hub: Hub

    @classmethod
    def make(cls, folder: Path, hub: Hub) -> World:
        """The dataset ``lab/pages`` and the checkpoint ``lab/judge``, published."""
        checkpoints.publish_base(hub, "lab/tiny-base")
        Publisher(folder, "pages").build()
        (folder / "recipes").mkdir()
        recipe = checkpoints.RECIPE.format(dataset="pages@1.0.0", base="lab/tiny-base", revision="v1")
        (folder / "recipes" / "judge.yaml").write_text(recipe)
        world = cls(folder, hub)
        with (folder / "registry.yaml").open("a") as file:
            file.write(MODELS)
        registry = world.registry()
        registry.lock()
        registry.apply(registry.plan(names=["pages"], workers=1))
        world.node.build()
        world.push()
        return world

    def copy(self, folder: Path) -> World:
        return World(Path(shutil.copytree(self.folder, folder)), self.hub)

    def registry(self, **more: Any) -> Registry:
        given: dict[str, Any] = {"make": checkpoints.make, "compare": checkpoints.compare, "hub": self.hub}
        return Registry.load(self.folder, **{**given, **more})

    @property
    def node(self) -> ModelNode:
        return self.registry().model("judge")

    @property
    def built(self) -> Path:
        return self.folder / "build" / "judge"

    def step(self, **options: Any) -> Step:
        (step,) = self.registry().plan(names=["judge"], options=Options(**options)).steps
        return step

    def push(self, **how: Any) -> Published:
        registry = self.registry(**how)
        (done,) = registry.apply(registry.plan(names=["judge"]))
        return done

    def edit(self, old: str, new: str, file: str = "registry.yaml") -> None:
        text = (self.folder / file).read_text("utf-8")
        assert old in text, old
        (self.folder / file).write_text(text.replace(old, new), "utf-8")

    def version(self, version: str) -> None:
        self.edit('name: judge, version: "1.0.0"', f'name: judge, version: "{version}"')

    def rewrite(self, **sections: Any) -> None:
        """Let the manifest say other things, as if training had; the card and the files' digests follow."""
        from action_reward_models.cards import model as cards

        said = {**manifests.manifest_of(self.built), **sections}
        parts = {key: said[key] for key in ("checkpoint", "training", "evaluations")}
        made = manifests.describe(self.built, said["identity"], **parts)
        (self.built / "README.md").write_text(cards.render(made), "utf-8")
        manifests.write(self.built, made)
