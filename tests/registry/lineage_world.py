"""Raw files, three datasets on one another, and two checkpoints, on a hub of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.registry import Registry
from action_reward_models.tests.hub_sync.conftest import Publisher, Running, start
from action_reward_models.tests.hub_sync.steps import write
from action_reward_models.tests.registry import checkpoints

REGISTRY = """\
registry: 1
namespace: lab
datasets:
  - name: alpha
    version: "1.0.0"
    license: cc-by-4.0
    sources:
      - {kind: episodes, format: openai_messages, repo: lab/raw, revision: main, file: runs/*.jsonl, dialect: function,
         space: pixel, license: cc0-1.0}
      - {kind: candidate_sets, format: first_release, repo: lab/raw, revision: main, file: sets.jsonl,
         dialect: function, space: pixel}
      - {kind: teacher_labels, format: first_release, path: labels.jsonl, teacher: toy}
    split: {validation: 0.0, seed: 1}
    tables: {states: {}, candidate_sets: {}, teacher_labels: {}}
  - name: beta
    version: "1.0.0"
    license: mit
    sources:
      - {kind: states, format: table, dataset: alpha@1.0.0, dialect: function, space: pixel}
      - {kind: candidate_sets, format: table, dataset: alpha@1.0.0, dialect: function, space: pixel}
      - {kind: teacher_labels, format: table, dataset: alpha@1.0.0}
    split: {validation: 0.0, seed: 1}
    tables: {states: {}, candidate_sets: {}, teacher_labels: {}}
  - name: gamma
    version: "2.0.0"
    license: mit
    sources:
      - {kind: states, format: table, dataset: beta@1.0.0, dialect: function, space: pixel}
      - {kind: candidate_sets, format: table, dataset: alpha@1.0.0, dialect: function, space: pixel}
      - {kind: teacher_labels, format: table, dataset: beta@1.0.0}
    split: {validation: 0.0, seed: 1}
    tables: {selection_sft: {prompt: selection/1, images: embed}}
models:
  - {name: judge, version: "1.0.0", recipe: judge.yaml, license: mit}
  - {name: judge-more, version: "1.0.0", recipe: more.yaml, license: mit}
"""


@dataclass(frozen=True)
class World:
    """alpha and beta are published, and judge; gamma and judge-more are only built."""

    folder: Path
    hub: Hub
    running: Running
    raw: str  # commit of the raw files
    commits: dict[str, str]

    def built(self, name: str) -> Path:
        return self.folder / "build" / name

    def identity(self, name: str) -> str:
        return str(orjson.loads((self.built(name) / "manifest.json").read_bytes())["identity_sha256"])


def further(recipe: str, start: str) -> str:
    """The recipe that trains ``start`` further."""
    lines = [line for line in recipe.splitlines() if not line.startswith(("base:", "lora:"))]
    return "\n".join([*lines, f"init_from: {start}", ""])


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    running = start(tmp_path_factory.mktemp("hub"))
    hub, folder = running.client(), tmp_path_factory.mktemp("world")
    raw = Publisher(tmp_path_factory.mktemp("raw"))
    raw.build()
    hub.api.create_repo("lab/raw", repo_type="dataset")
    episodes, sets = ((raw.folder / f"{name}.jsonl").read_bytes() for name in ("episodes", "sets"))
    commits = {"raw": write(hub, "lab/raw", runs__a_dot_jsonl=episodes, sets_dot_jsonl=sets)}
    shutil.copy(raw.folder / "labels.jsonl", folder)
    commits["tiny"] = checkpoints.publish_base(hub, "lab/tiny")[-1]
    recipe = checkpoints.RECIPE.format(dataset="beta@1.0.0", base="lab/tiny", revision="main")
    (folder / "judge.yaml").write_text(recipe)
    (folder / "more.yaml").write_text(further(recipe, "judge@1.0.0"))
    written, _, models = REGISTRY.partition("models:\n")
    (folder / "registry.yaml").write_text(f"{written}models:\n{models.splitlines(keepends=True)[0]}")
    registry = Registry.load(folder, hub=hub, make=checkpoints.make, compare=checkpoints.compare)
    registry.lock()
    commits |= {
        p.repo.partition("/")[2]: p.commit for p in registry.apply(registry.plan(names=["alpha", "beta"], workers=1))
    }
    registry.build("gamma", workers=1)
    registry.model("judge").build()
    commits["judge"] = registry.apply(registry.plan(names=["judge"]))[0].commit
    (folder / "registry.yaml").write_text(REGISTRY)
    registry = Registry.load(folder, hub=hub, make=checkpoints.make, compare=checkpoints.compare)
    registry.lock()
    registry.model("judge-more").build()
    write(hub, "lab/raw", later_dot_txt=b"main moves on")
    yield World(folder, hub, running, commits["raw"], commits)
    serve.stop(running.folder)
