"""A checkpoint is fetched, asked about the version it was trained on, and named by its commit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.tests.hub_sync.conftest import Running, start
from action_reward_models.tests.tiny_vlm import cached

pytestmark = pytest.mark.slow  # what it downloads is what the other tests have in folders


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = start(tmp_path / "hub")
    yield found
    assert serve.stop(found.folder)


def test_a_published_checkpoint(running: Running, dataset: Path, tmp_path: Path) -> None:
    client = running.client()
    env = {**cached.environment(), "HF_ENDPOINT": client.endpoint, "HF_TOKEN": str(client.token)}
    env |= {"HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home")}
    env.pop("USE_TORCH", None)
    (tmp_path / "work").mkdir()
    module = "action_reward_models.tests.recipes.evaluation.published"
    done = subprocess.run(
        [sys.executable, "-m", module, str(cached.made()), str(dataset)],
        env=env, cwd=tmp_path / "work", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    first, again, other = found["typed"]
    assert first["status"] == 0, first["err"]
    assert "8 sets of 8 states in validation" in first["out"]
    assert "warning" not in first["err"]
    (side,) = json.loads(again["out"])["evaluations"]
    entry = side["evaluation"]
    assert entry["dataset"]["repo"] == "lab/action-reward-models-data"
    assert entry["dataset"]["commit"] == entry["reports"][0]["dataset_commit"] is not None
    assert {report["model_commit"] for report in entry["reports"]} == {found["commit"]}
    report = json.loads((tmp_path / "work" / "evaluation" / "my-arm-validation" / "report.json").read_bytes())
    assert report["trained_on"][0]["unknown"] is None
    assert other["status"] == 1
    assert "v2.0.0" in other["err"]
