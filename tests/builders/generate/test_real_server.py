"""The same checks against a server that somebody runs: vLLM, SGLang, `transformers serve`, or what speaks like them.

    ARM_TEST_SERVER_URL=http://127.0.0.1:8000/v1 python -m pytest tests/builders/generate/test_real_server.py

ARM_TEST_SERVER_MODEL names the model, where the server has several or tells of none. ARM_TEST_SERVER_TEXT=1 leaves the
screenshots out, for a model that takes none. ARM_TEST_SERVER_PLAIN=1 is for a server that knows neither top_k nor min_p
nor response_format.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from action_reward_models.schemas.built import BuiltTables, Row
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests import processes

URL = os.environ.get("ARM_TEST_SERVER_URL", "")
EXAMPLES = Path(__file__).parents[3] / "examples"
EPISODES = 4
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not URL, reason="ARM_TEST_SERVER_URL names no server to ask"),
]


def told(name: str) -> bool:
    return os.environ.get(f"ARM_TEST_SERVER_{name}", "0") == "1"


def model() -> str:
    if named := os.environ.get("ARM_TEST_SERVER_MODEL"):
        return named
    with urlopen(f"{URL}/models") as response:
        (one,) = json.loads(response.read())["data"]
        return str(one["id"])


def without_screenshots(line: str) -> str:
    """An episode whose observations are its texts alone."""
    episode = json.loads(line)
    for message in episode["messages"]:
        if isinstance(message["content"], list):
            message["content"] = "".join(block.get("text", "") for block in message["content"])
    return json.dumps(episode)


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """The example with a few episodes, asked of this server."""
    data = tmp_path / "miniwob" / "data"
    data.mkdir(parents=True)
    lines = (EXAMPLES / "miniwob" / "data" / "episodes.jsonl").read_text("utf-8").splitlines()[:EPISODES]
    shown = map(without_screenshots, lines) if told("TEXT") else lines
    (data / "episodes.jsonl").write_text("".join(f"{line}\n" for line in shown), "utf-8")
    declared = yaml.safe_load((EXAMPLES / "sampled" / "registry.yaml").read_text("utf-8"))
    _, sampled, labelled = declared["datasets"][0]["sources"]
    sampled["sample"]["model"] = labelled["label"]["model"] = model()
    sampled["sample"]["max_tokens"] = labelled["label"]["max_tokens"] = 256
    if told("TEXT"):
        labelled["label"]["options"]["observation"] = "text"
    if told("PLAIN"):
        sampled["sample"] |= {"top_k": None, "min_p": None}
        del labelled["label"]["response_format"]
    folder = tmp_path / "sampled"
    folder.mkdir()
    (folder / "registry.yaml").write_text(yaml.safe_dump(declared), "utf-8")
    return folder


@pytest.fixture
def arm(registry: Path) -> Callable[..., str]:
    def run(*words: str) -> str:
        servers = {f"ARM_ENDPOINT_{name}": URL for name in ("ACTOR", "TEACHER")}
        done = processes.arm(words, cwd=registry, env={**os.environ, **servers, "COLUMNS": "160"})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def table(registry: Path, name: str) -> list[Row]:
    (built,) = (path.parent for path in registry.glob("build/*/manifest.json"))
    return list(BuiltTables(built, manifest_of(built)["identity"]).rows(name))


def test_it_samples_and_labels(registry: Path, arm: Callable[..., str]) -> None:
    print(arm("sample", "--yes"))
    sets = rows(registry / "generated" / "candidates.jsonl")
    assert len(sets) >= EPISODES
    assert not [row["failures"] for row in sets if row["failures"]]
    print(
        "served", {(row["served_model"], row["sampling"]["engine"], row["sampling"]["engine_version"]) for row in sets}
    )
    candidates = [candidate for row in sets for candidate in row["candidates"]]
    print("reasons", {candidate["finish_reason"] for candidate in candidates}, "first", candidates[0])
    assert all(candidate["tokens"] > 0 and candidate["finish_reason"] in ("stop", "length") for candidate in candidates)
    assert all(len({candidate["response"] for candidate in row["candidates"]}) > 1 for row in sets)
    print(arm("label", "run", "--yes"))
    arm("build")
    statuses = [label["status"] for label in table(registry, "teacher_labels")]
    print("statuses", {status: statuses.count(status) for status in statuses})
    assert statuses
    assert told("PLAIN") or set(statuses) == {"ok"}


def test_a_seed_gives_the_text_again(registry: Path, arm: Callable[..., str]) -> None:
    """One request at a time: what is computed in one batch with others may differ in its last bits."""
    texts = []
    for _ in range(2):
        arm("sample", "--yes", "--in-flight", "1")
        made = rows(registry / "generated" / "candidates.jsonl")
        texts.append({(row["set_id"], one["index"]): one["response"] for row in made for one in row["candidates"]})
        shutil.rmtree(registry / "generated")
    assert texts[0] == texts[1]
