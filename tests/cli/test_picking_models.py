"""`arm select` and `arm score` with weights: the examples of their help, a killed run, and names on a hub."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.tests.hub_sync.conftest import start
from action_reward_models.tests.servers.stand_in import Script, StandIn
from action_reward_models.tests.tiny_vlm import cached

pytestmark = pytest.mark.slow  # some twenty seconds in one process
LINES = 9


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("picked")


@pytest.fixture(scope="module")
def told(work: Path) -> Any:
    hub = start(work / "hub")
    client = hub.client()
    env = {
        **cached.environment(), "HF_ENDPOINT": str(client.endpoint), "HF_TOKEN": str(client.token),
        "HF_HUB_OFFLINE": "0", "HF_HOME": str(work / "home"), "XDG_CONFIG_HOME": str(work / "config"),
        "TRANSFORMERS_VERBOSITY": "warning",
    }  # fmt: skip
    env.pop("USE_TORCH", None)
    with StandIn(Script(models=("my-arm",))) as server:
        command = [sys.executable, "-m", "action_reward_models.tests.cli.picked", str(cached.made()), server.url]
        done = subprocess.run(command, env=env, cwd=work, capture_output=True, text=True, check=False)
    assert serve.stop(hub.folder)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "falling back" not in done.stdout + done.stderr, "advice on kernels for GPUs"
    return json.loads(done.stdout.splitlines()[-1])


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_the_examples_of_the_help(told: Any, work: Path) -> None:
    done = dict(told["typed"])
    assert len(done) == 7
    for line, found in done.items():
        assert "Traceback" not in found["err"]
        # An ARM drawn by chance may say nothing that is a pick.
        assert found["status"] == 0 or (line.startswith("arm select build/my-arm") and found["status"] == 1), found
    assert done["arm score build/my-scalar request.json"]["out"].startswith("mine: ok")
    assert done["arm select build/my-arm request.json --server local --served my-arm"]["out"].startswith("mine: ok")
    picked = rows(work / "picks.parquet")
    assert len(picked) == len(rows(work / "scores.parquet")) == LINES
    assert all(row["selected_index"] is not None and len(row["votes"]) <= 3 for row in picked), "--otherwise first"
    assert {len(row["scores"]) for row in rows(work / "scores.parquet")} == {4}
    split = json.loads(done["arm score build/my-scalar build/action-reward-models-data --split train --json"]["out"])
    assert (split["rows"], split["statuses"]) == (4, {"ok": 4})


def test_a_killed_run_ends_in_the_same_bytes(told: Any) -> None:
    found = told["resumed"]
    assert found["pieces"] >= 1
    assert found["same"]
    assert found["left"] == ["parts.parquet"]
    whole, rest = (json.loads(found[name]["out"]) for name in ("whole", "rest"))
    assert (whole["asked"], rest["rows"]) == (LINES, LINES)
    assert rest["asked"] == LINES - 2 * found["pieces"]


def test_shared_scores_are_the_plain_ones(told: Any, work: Path) -> None:
    assert told["resumed"]["plain"]["status"] == 0
    for one, other in zip(rows(work / "whole.parquet"), rows(work / "plain.parquet"), strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)


def test_by_their_names_on_a_hub(told: Any, work: Path) -> None:
    found = told["published"]
    assert json.loads(found["one"]["out"]) == json.loads(told["one"]["out"])
    assert (found["split"]["status"], found["served"]["status"]) == (0, 0), (found["split"], found["served"])
    here = rows(work / "picks" / "my-scalar-action-reward-models-data-train.parquet")
    assert rows(work / "there.parquet") == here
    assert [row["status"] for row in rows(work / "served.parquet")] == ["ok"] * 4
    assert found["weights"] == [], "of an ARM behind a server nobody needs them"
