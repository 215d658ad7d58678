"""The split is a function of the seed and the task group: nothing that comes or goes moves another row."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.builders.spec import SplitSpec
from action_reward_models.builders.splits import split_of
from action_reward_models.registry import Registry
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.ids import task_group
from action_reward_models.schemas.store import TABLES

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"


class Project:
    """A copy of the example whose records a test may change."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
        self.folder = folder

    def records(self, name: str) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in (self.folder / "data" / name).read_bytes().splitlines()]

    def write(self, name: str, records: list[dict[str, Any]]) -> None:
        (self.folder / "data" / name).write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in records))

    def build(self) -> dict[str, Any]:
        built, _ = Registry.load(self.folder / "registry.yaml").build(force=True, workers=1)
        assert built is not None
        identity: dict[str, Any] = built.manifest["identity"]
        return identity

    def read(self, table: str) -> list[dict[str, Any]]:
        folder = self.folder / "build" / "action-reward-models-data" / "data" / table
        return [row for path in sorted(folder.glob("*.parquet")) for row in built_rows(path, TABLES[table])]

    def splits(self) -> dict[str, str]:
        return {row["state_id"]: row["split"] for row in self.read("states")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "registry")


def test_removing_and_adding_moves_nothing(project: Project) -> None:
    project.build()
    before = project.splits()
    assert Counter(before.values()) == {"train": 141, "validation": 12}
    episodes, labels = project.records("episodes.jsonl"), project.records("labels.jsonl")
    removed = (0, 17, 39)
    project.write("episodes.jsonl", [e for i, e in enumerate(episodes) if i not in removed])
    project.write("labels.jsonl", labels[40:])
    project.build()
    gone = {s for i in removed for s in before if s.startswith(f"{episodes[i]['episode_id']}__t")}
    assert len({state_id.partition("__t")[0] for state_id in gone}) == len(removed)
    assert project.splits() == {s: split for s, split in before.items() if s not in gone}
    new = {**episodes[3], "episode_id": "new", "metadata": {**episodes[3]["metadata"], "intent": "Something else."}}
    project.write("episodes.jsonl", [new, *episodes])
    project.write("labels.jsonl", labels[5:])
    project.build()
    assert {s: x for s, x in project.splits().items() if not s.startswith("new__t")} == before


def test_spellings_of_a_task_fall_in_one_group(project: Project) -> None:
    """Other case, NBSP, full-width letters, other punctuation: the same task, so the same split."""
    task = "Click on the link eu"
    spellings = [task, task.upper(), task.replace(" ", "\u00a0"), task.replace("link", "ｌｉｎｋ"), f"  {task}!  "]
    assert len({task_group(t, f"episode{i}") for i, t in enumerate(spellings)}) == 1
    assert task_group("Click on the link it", "e") != task_group(task, "e")
    episodes = project.records("episodes.jsonl")
    for number, spelling in enumerate(spellings):
        episodes[number]["metadata"]["intent"] = spelling
        episodes[number]["episode_id"] = f"spelled-{number}"
    project.write("episodes.jsonl", episodes)
    project.build()
    own = [row for row in project.read("states") if row["episode_id"].startswith("spelled-")]
    assert len({row["episode_id"] for row in own}) == len(spellings)
    assert len({row["task_group"] for row in own}) == 1
    assert len({row["split"] for row in own}) == 1


def test_validation_shares_nothing_with_train(project: Project) -> None:
    identity = project.build()
    states = project.read("states")
    for fact in ("task", "task_group", "episode_id"):
        sides = {split: {row[fact] for row in states if row["split"] == split} for split in ("train", "validation")}
        assert sides["train"]
        assert sides["validation"]
        assert not sides["train"] & sides["validation"]
    for table in ("selection_sft", "bt_pairs"):
        shown: dict[str, set[str]] = {"train": set(), "validation": set()}
        for row in project.read(table):
            shown[row["split"]].add(row["rendered_sha256"])
        assert shown["validation"]
        assert not shown["train"] & shown["validation"]
    assert identity["statistics"]["leakage"] == {"bt_pairs": 0, "selection_sft": 0}


def test_split_is_what_the_rule_says() -> None:
    """The published rule, computed again by hand, and its share over many groups."""
    import hashlib

    spec = SplitSpec(0.1, 42)
    groups = [task_group(f"task {i}", "e") for i in range(20_000)]
    for group in groups[:50]:
        number = int.from_bytes(hashlib.sha256(f"42\n{group}".encode()).digest()[:8], "big") / 2**64
        assert split_of(group, spec) == ("validation" if number < 0.1 else "train")
    share = sum(split_of(g, spec) == "validation" for g in groups) / len(groups)
    assert 0.09 < share < 0.11
    assert all(split_of(g, SplitSpec(0.0, 42)) == "train" for g in groups[:1000])
    small = {g for g in groups if split_of(g, SplitSpec(0.05, 42)) == "validation"}
    assert all(split_of(g, spec) == "validation" for g in small)  # a larger share only adds groups
