"""Checkpoints of the tiny model with the prompts of a build, not trained: what they answer is by chance, and the same
each time. For a process with torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from action_reward_models.inference.processor import Limits
from action_reward_models.tests.inference import made

FILES = {"selection_arm": "selection-1.json", "scalar": "scalar-1.json"}


def make(folder: Path, base: Path, kind: str, dataset: Path, limits: Limits = made.LIMITS) -> dict[str, Any]:
    """A checkpoint in ``folder`` that is used with the prompt of ``dataset``; returns its contract. A selection ARM is
    the base, which learnt to reply with a selection; a scalar model has weights drawn by chance."""
    contract = made.make(folder, base, kind, std=0.0 if kind == "selection_arm" else 0.1)
    (folder / "prompts" / "own.json").unlink()
    name = FILES[kind]
    data = (dataset / "prompts" / name).read_bytes()
    (folder / "prompts" / name).write_bytes(data)
    prompt = orjson.loads(data)
    contract["prompt"] = {"id": prompt["id"], "sha256": prompt["sha256"], "file": f"prompts/{name}"}
    contract["processor"]["max_tokens"] = limits.max_tokens
    return contract
