"""A checkpoint loaded in a process that never trained: does it give the same scores?

``python -m action_reward_models.recipes.reload`` reads what to compare as JSON from standard input and writes the
scores to standard output.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ..schemas.errors import ArmError
from .rows import Rows, encode

# Largest absolute difference of a score, or of the log-likelihood of a reply, by the type of the base model's weights.
TOLERANCE: Mapping[str, float] = {"float32": 1e-5, "bfloat16": 2e-2}
_MODULE = "action_reward_models.recipes.reload"
_LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")


def compare(
    folder: Path, rows: Path, *, base: Path, checkpoint: Mapping[str, Any], reference: Mapping[str, Any]
) -> dict[str, Any]:
    """The checkpoint in ``folder``, which has no manifest yet, against the scores in ``reference``.

    Returns `reload` of `model_manifest/1`. Raises ArmError when a score differs by more than the tolerance.
    """
    asked = {"folder": str(folder), "rows": str(rows), "base": str(base), "checkpoint": checkpoint,
             "units": reference["units"]}  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if key not in _LAUNCHER}
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", _MODULE], input=orjson.dumps(asked), env=environment, capture_output=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip()[-2000:]
        raise ArmError(f"the checkpoint cannot be loaded again: {told}", where=str(folder))
    found = orjson.loads(done.stdout.splitlines()[-1])
    apart = [
        math.nan if one is None or other is None else abs(one - other)
        for one, other in zip(found, reference["values"], strict=True)
    ]
    allowed = TOLERANCE[checkpoint["dtype"]]
    if not all(one < allowed for one in apart):  # one that is no number is below nothing
        raise ArmError(
            f"the checkpoint loaded again gives other scores: they differ by up to {max(apart):.3g}, and {allowed:g} "
            "is allowed", where=str(folder),
        )  # fmt: skip
    return {"conversations": len(found), "max_difference": max(apart)}


def main() -> None:
    asked: dict[str, Any] = orjson.loads(sys.stdin.buffer.read())
    checkpoint = asked["checkpoint"]
    rows = Rows(Path(asked["rows"]))
    model = opened(Path(asked["folder"]), Path(asked["base"]), checkpoint)
    found = [encoded for unit in asked["units"] for encoded in encode(model.processor, rows[unit], checkpoint["kind"])]
    given = model.score_encoded(found) if checkpoint["kind"] == "scalar" else model.log_likelihood(found)
    sys.stdout.buffer.write(orjson.dumps(given) + b"\n")


def opened(folder: Path, base: Path, checkpoint: Mapping[str, Any]) -> Any:
    """The checkpoint as whoever uses it opens it."""
    from ..inference.scalar import ScalarRewardModel
    from ..inference.selection import SelectionARM

    kind = ScalarRewardModel if checkpoint["kind"] == "scalar" else SelectionARM
    return kind.open(folder, base=base, contract=checkpoint)


if __name__ == "__main__":
    main()
