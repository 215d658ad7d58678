"""Does a checkpoint that was moved give the scores that it gave before? A few conversations of our own, in one process.

They hold no row of any dataset, so that they can be asked of any checkpoint by anybody. ``python -m
action_reward_models.recipes.probe`` reads what to load as JSON from standard input.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ..schemas.errors import ArmError
from .merge import answers, conversations
from .reload import TOLERANCE

_MODULE = "action_reward_models.recipes.probe"


def compare(folders: Sequence[Path], *, base: Path | None, checkpoint: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Load the checkpoint in each of ``folders`` in a process of its own, and compare what they score.

    base: folder of the base model; None lets the checkpoint fetch it, if it needs one. checkpoint: of the manifest.
    Returns {"conversations", "max_difference"}: 0.0 of one folder alone, which has nothing to differ from. Raises
    ArmError when one cannot be loaded, when a score is no number, and when they differ by more than `TOLERANCE`.
    """
    asked = {"folders": [str(folder) for folder in folders], "base": base and str(base), "checkpoint": checkpoint}
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", _MODULE], input=orjson.dumps(asked), capture_output=True, check=False,
        env={**os.environ, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        raise ArmError(f"cannot be loaded: {said[-1].strip() if said else 'no message'}", where=where)
    found: list[list[float]] = orjson.loads(lines[-1])
    if not all(value is not None and math.isfinite(value) for values in found for value in values):
        raise ArmError("gives scores that are no numbers", where=where)
    apart = max(abs(one - other) for values in found for one, other in zip(found[0], values, strict=True))
    if not apart <= (allowed := TOLERANCE[checkpoint["dtype"]]):
        raise ArmError(f"gives other scores: they differ by up to {apart:.3g}, and {allowed:g} is allowed", where=where)
    return {"conversations": len(found[0]), "max_difference": apart}


def scores(folder: Path, base: Path | None, checkpoint: Mapping[str, Any]) -> list[float]:
    """What the checkpoint gives for each conversation: scores, or log-likelihoods of replies."""
    from ..inference.scalar import ScalarRewardModel
    from ..inference.selection import SelectionARM

    kind: Any = ScalarRewardModel if checkpoint["kind"] == "scalar" else SelectionARM
    model = kind.open(folder, base=base, contract=checkpoint)
    return answers(model, conversations(model.processor, checkpoint["kind"]))


def main() -> None:
    asked: dict[str, Any] = orjson.loads(sys.stdin.buffer.read())
    base = Path(asked["base"]) if asked["base"] else None
    try:
        found = [scores(Path(folder), base, asked["checkpoint"]) for folder in asked["folders"]]
    except ArmError as error:
        sys.exit(str(error).splitlines()[0])
    sys.stdout.buffer.write(orjson.dumps(found) + b"\n")


if __name__ == "__main__":
    main()
