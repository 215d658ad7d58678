"""Does a checkpoint that was moved give the scores that it gave before? A few conversations of our own, in one process.

The conversations are made here and belong to nobody: they hold no row of any dataset, so that they can be asked of any
checkpoint. ``python -m action_reward_models.recipes.probe`` reads what to load as JSON from standard input.
"""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ..schemas.errors import ArmError

# Largest absolute difference of a score, or of the log-likelihood of a reply, by the type of the base model's weights.
TOLERANCE: Mapping[str, float] = {"float32": 1e-5, "bfloat16": 2e-2}
_MODULE = "action_reward_models.recipes.probe"
_REPLIES = (
    "click(12, 30)", 'type(4, 9, "blue")', "scroll(0, 200)", "I am done: the answer is 42.",
)  # fmt: skip
_SIDE = 64  # pixels


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
    if not all(math.isfinite(value or math.nan) for values in found for value in values):
        raise ArmError("gives scores that are no numbers", where=where)
    apart = max(abs(one - other) for values in found for one, other in zip(found[0], values, strict=True))
    if not apart <= (allowed := TOLERANCE[checkpoint["dtype"]]):
        raise ArmError(f"gives other scores: they differ by up to {apart:.3g}, and {allowed:g} is allowed", where=where)
    return {"conversations": len(found[0]), "max_difference": apart}


def scores(folder: Path, base: Path | None, checkpoint: Mapping[str, Any]) -> list[float]:
    """What the checkpoint gives for each conversation: scores, or log-likelihoods of replies."""
    from ..inference.scalar import ScalarRewardModel
    from ..inference.selection import SelectionARM

    if checkpoint["kind"] == "scalar":
        model = ScalarRewardModel.open(folder, base=base, contract=checkpoint)
        sees, make = model.processor.pictures is not None, model.processor.scalar
        rows = [make(*_prompt(sees, n), [{"role": "assistant", "content": reply}]) for n, reply in enumerate(_REPLIES)]
        return [float(score) for score in model.score_encoded(rows)]
    arm = SelectionARM.open(folder, base=base, contract=checkpoint)
    sees = arm.processor.pictures is not None
    replies = [f'{{"selection": {number}}}' for number in range(1, len(_REPLIES) + 1)]
    rows = [arm.processor.selection(*_prompt(sees, n), reply) for n, reply in enumerate(replies)]
    return [float(value) for value in arm.log_likelihood(rows)]


def _prompt(sees: bool, number: int) -> tuple[list[dict[str, Any]], list[bytes]]:
    """(Messages, pictures); every second conversation shows a picture, if the model ``sees`` any."""
    shown = sees and number % 2 == 0
    text = {"type": "text", "text": f"Which action leads to page {number}?"}
    content = [{"type": "image"}, text] if shown else [text]
    return [{"role": "user", "content": content}], [_picture(number)] if shown else []


def _picture(number: int) -> bytes:
    from PIL import Image

    pixels = bytes((x * 4 + y * (number + 1)) % 256 for y in range(_SIDE) for x in range(_SIDE))
    out = io.BytesIO()
    Image.frombytes("L", (_SIDE, _SIDE), pixels).convert("RGB").save(out, "PNG")
    return out.getvalue()


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
