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
from action_reward_models.registry.models import Training
from action_reward_models.registry.nodes import ModelNode
from action_reward_models.tests.hub_sync.conftest import Publisher, Running, start
from action_reward_models.tests.hub_sync.steps import write

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
  - {name: judge, version: "1.0.0", recipe: judge.yaml}
  - {name: judge-more, version: "1.0.0", recipe: more.yaml}
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


def train(training: Training) -> None:
    (training.folder / "weights.bin").write_bytes(training.start_commit.encode())


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
    api = hub.api
    api.create_repo("lab/tiny", repo_type="model")
    commits["tiny"] = api.upload_file(path_or_fileobj=b"{}", path_in_repo="config.json", repo_id="lab/tiny").oid
    text = "recipe: 1\nkind: selection_arm\ndataset: beta@1.0.0\n"
    (folder / "judge.yaml").write_text(f"{text}base: {{model: lab/tiny, revision: main}}\n")
    (folder / "more.yaml").write_text(f"{text}init_from: judge@1.0.0\n")
    written, _, models = REGISTRY.partition("models:\n")
    (folder / "registry.yaml").write_text(f"{written}models:\n{models.splitlines(keepends=True)[0]}")
    registry = Registry.load(folder, hub=hub, trainers={"selection_arm": train})
    registry.lock()
    commits |= {
        p.repo.partition("/")[2]: p.commit for p in registry.apply(registry.plan(names=["alpha", "beta"], workers=1))
    }
    registry.build("gamma", workers=1)
    judge = ModelNode(registry, registry.models[0]).build()
    api.create_repo("lab/judge", repo_type="model")
    commits["judge"] = api.upload_folder(folder_path=judge, repo_id="lab/judge", repo_type="model").oid
    api.create_tag("lab/judge", tag="v1.0.0", repo_type="model")
    (folder / "registry.yaml").write_text(REGISTRY)
    registry = Registry.load(folder, hub=hub, trainers={"selection_arm": train})
    registry.lock()
    ModelNode(registry, registry.models[1]).build()
    write(hub, "lab/raw", later_dot_txt=b"main moves on")
    yield World(folder, hub, running, commits["raw"], commits)
    serve.stop(running.folder)
