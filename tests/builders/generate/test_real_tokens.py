"""The example of examples/sampled from end to end with a real model: states to candidates to labels to a published set.

Tokens, texts and choices are those of a model of a million parameters that looks at the screenshots. The default tier
takes a few episodes, the slow one all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from action_reward_models.builders.processor import Processor
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.schemas.built import BuiltTables, Row
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests import processes
from action_reward_models.tests.tiny_vlm.serving import TinyServer

EXAMPLES = Path(__file__).parents[3] / "examples"
NAME = "action-reward-models-sampled"
ACTION = re.compile(r"<think>[^<]*</think>\n<action>\w+\(.*\)</action>")
LOAD = """
import hashlib, json, sys
from datasets import Image, load_dataset

repo, out = sys.argv[1:]
counts = {}
for config in ("states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs"):
    counts[config] = sum(split.num_rows for split in load_dataset(repo, config).values())
digests = []
for split in load_dataset(repo, "states").values():
    for row in split.cast_column("screenshot", Image(decode=False)):
        digests.append([row["state_id"], hashlib.sha256(row["screenshot"]["bytes"]).hexdigest()])
json.dump({"counts": counts, "digests": digests}, open(out, "w"))
"""


@dataclass
class Example:
    """A copy of the example with its first ``episodes``, and the model that its two servers are."""

    folder: Path
    server: TinyServer
    episodes: int

    def __post_init__(self) -> None:
        self.registry.mkdir(parents=True)
        shutil.copy(EXAMPLES / "sampled" / "registry.yaml", self.registry)
        data = self.folder / "miniwob" / "data"
        data.mkdir(parents=True)
        lines = (EXAMPLES / "miniwob" / "data" / "episodes.jsonl").read_bytes().splitlines(keepends=True)
        (data / "episodes.jsonl").write_bytes(b"".join(lines[: self.episodes]))

    @property
    def registry(self) -> Path:
        return self.folder / "sampled"

    @property
    def built(self) -> Path:
        return self.registry / "build" / NAME

    def arm(self, *words: str, **more: str) -> str:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "ARM_", "OPENAI_"))}
        servers = {f"ARM_ENDPOINT_{name}": self.server.url for name in ("ACTOR", "TEACHER")}
        done = processes.arm(words, cwd=self.registry, env={**kept, **servers, "COLUMNS": "160", **more})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def table(self, name: str) -> list[Row]:
        return list(BuiltTables(self.built, manifest_of(self.built)["identity"]).rows(name))

    @cached_property
    def tokenizer(self) -> Any:
        return tokenizers.Tokenizer.from_file(str(self.server.folder / "tokenizer.json"))


def sampled(example: Example) -> None:
    """Sample, label, build: what the dataset says is what the model did."""
    before = len(example.server.received())
    example.arm("sample", "--yes")
    asked = example.server.received()[before:]
    example.arm("label", "run", "--yes")
    questions = example.server.received()[before + len(asked) :]
    example.arm("build")
    states = {row["state_id"]: row for row in example.table("states")}
    sets = example.table("candidate_sets")

    # Every candidate is a reply that the model gave about this very picture, with as many tokens as it made.
    assert len(asked) == 5 * len(states)
    given = Counter(
        (tuple(request["pictures"]), example.tokenizer.decode(ids), len(ids))
        for request in asked
        for ids in request["replies"]
    )
    kept = Counter(
        ((states[row["state_id"]]["screenshot_sha256"],), candidate["response"], candidate["tokens"])
        for row in sets
        for candidate in row["candidates"]
    )
    assert kept == given
    # The prompt is the actor's own, and no text in it opens a turn.
    cut = Processor(example.server.folder)
    opening = cut.tokenizer.ids("<|im_start|>")[0]
    for request in asked + questions:
        assert Counter(request["prompt_ids"])[opening] == request["messages"] + 1
        assert Counter(request["prompt_ids"])[cut.tokenizer.ids("<|image_pad|>")[0]] == cut.picture_tokens(320, 420)
    # What it writes is read as actions.
    candidates = {(row["set_id"], one["index"]): one for row in sets for one in row["candidates"]}
    parsed = {key for key, one in candidates.items() if one["parse_error"] is None}
    assert sum(bool(ACTION.fullmatch(one["response"])) for one in candidates.values()) > 0.8 * len(candidates)
    assert len(parsed) > 0.5 * len(candidates)
    # The teacher named one of those that it saw, and each pick that is an action became a row.
    labels = example.table("teacher_labels")
    assert {label["status"] for label in labels} == {"ok"}
    assert len(questions) == len(labels) > 0.8 * len(sets)
    picks = [label["label_id"] for label in labels if (label["set_id"], label["selected_index"]) in parsed]
    assert sorted(row["label_id"] for row in example.table("selection_sft")) == sorted(picks)
    assert len(picks) > 0.5 * len(labels)
    assert example.table("bt_pairs")


@pytest.fixture(scope="module")
def server() -> Iterator[TinyServer]:
    with TinyServer() as running:
        yield running


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    running = serve.start(tmp_path / "hub", 0)
    yield {"HF_ENDPOINT": running["url"], "HF_TOKEN": (tmp_path / "hub" / "token").read_text("utf-8").strip()}
    assert serve.stop(tmp_path / "hub")


def test_a_few_episodes(tmp_path: Path, server: TinyServer, hub: dict[str, str]) -> None:
    example = Example(tmp_path / "examples", server, 4)
    sampled(example)
    # Seeds give the same texts again, to somebody who has nothing but the registry.
    made = example.registry / "generated"
    first = (made / "candidates.jsonl").read_bytes()
    shutil.rmtree(made)
    example.arm("sample", "--yes")
    assert (made / "candidates.jsonl").read_bytes() == first
    # Published and loaded by stock datasets, pictures are those of the recording, byte for byte.
    environment = {**hub, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    example.arm("push", str(example.built), "--repo", f"lab/{NAME}", "--yes", **environment)
    out = tmp_path / "loaded.json"
    loaded = processes.python(LOAD, f"lab/{NAME}", str(out), cwd=tmp_path, env={**os.environ, **environment})
    assert loaded.returncode == 0, loaded.stderr
    found = json.loads(out.read_text())
    assert found["counts"] == {name: len(example.table(name)) for name in found["counts"]}
    assert sorted(map(tuple, found["digests"])) == sorted(
        (row["state_id"], row["screenshot_sha256"]) for row in example.table("states")
    )


@pytest.mark.slow
def test_the_whole_example(tmp_path: Path, server: TinyServer) -> None:
    sampled(Example(tmp_path / "examples", server, 40))
