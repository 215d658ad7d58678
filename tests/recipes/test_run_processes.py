"""Two processes that train together learn what one alone does, and one of them writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from action_reward_models.tests.recipes import tiny
from action_reward_models.tests.tiny_vlm import cached

pytestmark = pytest.mark.slow
STEPS = 16

# Each process trains, with so many rows at a time; what is left of it is compared.
CODE = """
import dataclasses, sys
from pathlib import Path
import orjson
from action_reward_models.recipes import run
from action_reward_models.recipes.train import Stopped
from action_reward_models.tests.recipes import tiny

built, folder, kind, rows, steps = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
trainer = {**tiny.TRAINER, "per_device_train_batch_size": rows, "max_steps": steps}
inputs = tiny.inputs(built, kind, trainer=trainer, split="validation", limits={"max_tokens": 2048, "max_pixels": 6400})
told = folder / "steps.txt"

def progress(what, done, total):
    if what == "training":
        told.write_text(f"{done}")

try:
    made = run.make(inputs, folder / ".tiny-training", folder / "tiny", progress=progress)
except Stopped as stopped:
    sys.exit(f"Stopped: {stopped}")
print("writes" if made else "writes nothing", flush=True)
"""


def command(processes: int, *words: object) -> list[str]:
    alone = [sys.executable] if processes == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(processes), "--master_port", "0",
        "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0",
    ]  # fmt: skip
    return [*alone, *map(str, words)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cached.made()
    return tiny.dataset(tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "train.py"
    path.write_text(CODE, "utf-8")
    return path


@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_two_processes_learn_what_one_does(built: Path, script: Path, tmp_path: Path, kind: str) -> None:
    logs = []
    for processes, rows in ((1, 2), (2, 1)):
        folder = tmp_path / str(processes)
        folder.mkdir()
        done = subprocess.run(
            command(processes, script, built, folder, kind, rows, 3), env=cached.environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert sorted(done.stdout.split("\n"))[-processes:] == ["writes", "writes nothing"][:processes]
        manifest = orjson.loads((folder / "tiny" / "manifest.json").read_bytes())
        assert (manifest["training"]["processes"], manifest["training"]["batch"]) == (processes, 2)
        assert manifest["training"]["reload"]["max_difference"] < 1e-5
        assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
        logs.append([entry["loss"] for entry in tiny.entries(folder / "tiny") if "loss" in entry])
    assert len(logs[0]) == 3
    assert logs[0] == pytest.approx(logs[1], abs=1e-5)


def test_a_stop_reaches_all_processes(built: Path, script: Path, tmp_path: Path) -> None:
    """As a terminal does it: the launcher and all processes get SIGINT, and then the launcher sends SIGTERM."""
    words = command(2, script, built, tmp_path, "scalar", 1, STEPS)
    process = subprocess.Popen(
        words, env=cached.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    told = tmp_path / "steps.txt"
    deadline = time.monotonic() + 120
    while not (told.exists() and told.read_text() >= "2") and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    work = tmp_path / ".tiny-training"
    (checkpoint,) = (work / "trainer").glob("checkpoint-*")
    steps = int(checkpoint.name.rpartition("-")[2])
    assert 2 <= steps < STEPS
    told.unlink()
    done = subprocess.run(words, env=cached.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert orjson.loads((tmp_path / "tiny" / "manifest.json").read_bytes())["training"]["steps"] == STEPS
    steps_logged = [entry["step"] for entry in tiny.entries(tmp_path / "tiny") if "loss" in entry]
    assert steps_logged == list(range(1, STEPS + 1))
