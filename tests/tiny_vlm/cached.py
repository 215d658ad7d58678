"""Where a tiny model lies: made once for all tests, workers and runs, in a process that may import torch."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from action_reward_models.tests.builders import tiny_processor
from action_reward_models.tests.tiny_vlm import examples, model

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "tiny_vlm"  # ignored by git
_CODE = (examples, model, tiny_processor)


def environment() -> dict[str, str]:
    """Of a process that runs a model: one thread, for more of them wait for each other, and no network."""
    quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
    quiet |= {"PYTHONWARNINGS": "error"}  # as pytest has it in its own
    return {**os.environ, **quiet, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


def made(size: model.Size | None = None, *, steps: int = 60, seed: int = 0) -> Path:
    """Return the folder of the model that `model.build` makes of these; some ten seconds when it is not there yet."""
    wanted = {"size": asdict(size or model.Size()), "steps": steps, "seed": seed}
    folder = CACHE / _digest(wanted)[:16]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            making = folder.with_suffix(".making")
            shutil.rmtree(making, ignore_errors=True)
            command = [
                sys.executable,
                "-m",
                "action_reward_models.tests.tiny_vlm.cached",
                str(making),
                json.dumps(wanted),
            ]
            done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
            making.rename(folder)
    return folder


def _digest(wanted: object) -> str:
    versions = [metadata.version(name) for name in ("torch", "transformers", "tokenizers", "pillow")]
    digest = hashlib.sha256(json.dumps([wanted, versions]).encode())
    paths = [*(Path(str(module.__file__)) for module in _CODE), examples.TEMPLATE]
    for path in (*paths, *sorted(examples.DATA.glob("*.jsonl"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    model.build(Path(sys.argv[1]), model.Size(**given["size"]), steps=given["steps"], seed=given["seed"])
