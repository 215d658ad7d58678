"""A registry with two datasets and a checkpoint, small enough to be changed, built and planned in a second."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action_reward_models.hub_sync.hub import Hub
from action_reward_models.registry import Registry
from action_reward_models.registry.plan import Options, Plan, Step

from ..hub_sync.conftest import write_pages
from . import checkpoints

PAGES = 10
REGISTRY = """\
registry: 1
namespace: {namespace}
datasets:
  - name: base
    version: "1.0.0"
    license: mit
    description: Pages.
    sources:
      - {{kind: episodes, format: openai_messages, path: episodes.jsonl, dialect: function, space: pixel}}
      - {{kind: candidate_sets, format: first_release, path: sets.jsonl, dialect: function, space: pixel}}
      - {{kind: teacher_labels, format: first_release, path: labels.jsonl, teacher: toy}}
    split: {{validation: 0.3, seed: 1}}
    shards: 2
    tables:
      states: {{}}
      candidate_sets: {{}}
      teacher_labels: {{}}
      selection_sft: {{prompt: selection/1, options: {{history_window: 8}}}}
      bt_pairs: {{prompt: scalar/1, max_pairs_per_set: 2, rules: {{coordinate_only: keep}}}}
    gates: {{leakage: warn}}
  - name: derived
    version: "1.0.0"
    license: mit
    sources:
      - {{kind: states, format: table, dataset: base@1.0.0, dialect: function, space: pixel}}
      - {{kind: candidate_sets, format: table, dataset: base@1.0.0, dialect: function, space: pixel}}
      - {{kind: teacher_labels, format: table, dataset: base@1.0.0}}
    split: {{validation: 0.3, seed: 1}}
    tables:
      states: {{}}
      bt_pairs: {{prompt: scalar/1}}
models:
  - {{name: arm, version: "1.0.0", recipe: arm.yaml, license: mit, description: Picks.}}
"""


@dataclass(frozen=True)
class World:
    """The folder of the registry, and the Hub that it publishes to."""

    folder: Path
    hub: Hub
    namespace: str

    @classmethod
    def make(cls, folder: Path, hub: Hub, namespace: str) -> World:
        """Write everything, create the base model, lock, build, train, and publish all."""
        world = cls(folder, hub, namespace)
        folder.mkdir(parents=True)
        world.records()
        (folder / "registry.yaml").write_text(REGISTRY.format(namespace=namespace))
        recipe = checkpoints.RECIPE.format(dataset="base@1.0.0", base=f"{namespace}/tiny", revision="v1")
        (folder / "arm.yaml").write_text(recipe)
        checkpoints.publish_base(hub, f"{namespace}/tiny")
        registry = world.registry()
        registry.lock()
        registry.apply(world.plan())
        registry.model("arm").build()
        registry.apply(world.plan("arm"))
        return world

    def copy(self, folder: Path) -> World:
        shutil.copytree(self.folder, folder)
        return World(folder, self.hub, self.namespace)

    def registry(self) -> Registry:
        return Registry.load(self.folder, hub=self.hub, make=checkpoints.make, compare=checkpoints.compare)

    def plan(self, *names: str, **options: Any) -> Plan:
        """The plan for ``names``; without any, for all datasets."""
        registry = self.registry()
        names = names or tuple(spec.name for spec in registry.datasets)
        return registry.plan(names=names, options=Options(**options), workers=1)

    def step(self, name: str = "base", **options: Any) -> Step:
        """The step of one dataset."""
        (step,) = self.plan(name, **options).steps
        return step

    def edit(self, *changes: tuple[str, str], file: str = "registry.yaml", count: int = 1) -> None:
        """Replace texts in a file; each must stand there."""
        path = self.folder / file
        text = path.read_text("utf-8")
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, count)
        path.write_text(text, "utf-8")

    def version(self, version: str, name: str = "base") -> None:
        self.edit((f'- name: {name}\n    version: "1.0.0"', f'- name: {name}\n    version: "{version}"'))

    def move(self, version: str) -> None:
        """Another version of base, and what rests on it rests on that."""
        self.version(version)
        self.edit(("base@1.0.0", f"base@{version}"), count=3)
        self.edit(("base@1.0.0", f"base@{version}"), file="arm.yaml")

    def lines(self, file: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
        """Change the records of a file."""
        path = self.folder / file
        records = [json.loads(line) for line in path.read_text().splitlines()]
        change(records)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    def flip(self, page: int = 0) -> None:
        """Let the teacher pick the other candidate of a page."""

        def other(labels: list[dict[str, Any]]) -> None:
            labels[page]["selection"] = 1 - labels[page]["selection"]

        self.lines("labels.jsonl", other)

    def records(self, first: int = 0, pages: int = PAGES, suffix: str = "") -> None:
        """Write three files about ``pages`` pages."""
        write_pages(self.folder, {page: page % 2 for page in range(first, first + pages)}, suffix=suffix)
