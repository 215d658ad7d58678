"""Scores of checkpoints, such as another process gives: does a checkpoint that was moved say what it said before?"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ..inference.opening import class_of
from ..schemas.errors import ArmError

if TYPE_CHECKING:
    from ..inference.processor import Encoded

# Largest absolute difference of a score, or of the log-likelihood of a reply, by the type of the base model's weights.
TOLERANCE: Mapping[str, float] = {"float32": 1e-5, "bfloat16": 2e-2}
# What a launcher of several processes sets: the one that is asked is none of them.
_LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")
_QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def opened(folder: Path, base: Path | None, checkpoint: Mapping[str, Any], device: str | None = None) -> Any:
    """The checkpoint in ``folder`` as whoever uses it opens it. base: folder of its base model, if that is at hand.
    ``checkpoint``: of its manifest."""
    return class_of(checkpoint).open(folder, base=base, contract=checkpoint, device=device)


def answers(model: Any, rows: Sequence[Encoded]) -> list[float]:
    """Scores of conversations, or log-likelihoods of their replies, one for each of ``rows``."""
    found: list[float] = model.score_encoded(rows) if model.kind == "scalar" else model.log_likelihood(rows)
    return found


def apart(found: Sequence[float | None], others: Sequence[float | None], dtype: str, where: str) -> float:
    """Largest difference of two lists of answers; an answer that is no number has become None as JSON.

    Raises ArmError for such answers, and for a difference of more than `TOLERANCE`.
    """
    if not all(value is not None and math.isfinite(value) for value in (*found, *others)):
        raise ArmError("gives scores that are no numbers", where=where)
    most = max(abs((one or 0.0) - (other or 0.0)) for one, other in zip(found, others, strict=True))
    if most > (allowed := TOLERANCE[dtype]):
        raise ArmError(f"gives other scores: they differ by up to {most:.3g}, and {allowed:g} is allowed", where=where)
    return most


def elsewhere(module: str, asked: Mapping[str, Any], where: str) -> Any:
    """What `tell` writes in a process of its own, which runs ``module``. Raises ArmError with its last words."""
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", module], input=orjson.dumps(asked), capture_output=True, check=False,
        env={**{key: value for key, value in os.environ.items() if key not in _LAUNCHER}, **_QUIET},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        ended = f"its process ended with {done.returncode}"  # negative: the number of a signal, such as 9 of no memory
        raise ArmError(f"cannot be loaded: {said[-1].strip() if said else ended}", where=where)
    return orjson.loads(lines[-1])


def tell(answer: Callable[[dict[str, Any]], Any]) -> None:
    """The other side of `elsewhere`: JSON from standard input to ``answer``, and what it returns to standard output."""
    try:
        found = answer(orjson.loads(sys.stdin.buffer.read()))
    except ArmError as error:
        sys.exit(str(error).splitlines()[0])
    sys.stdout.buffer.write(orjson.dumps(found) + b"\n")
