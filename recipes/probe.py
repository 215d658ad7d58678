"""Does a checkpoint that was moved give the scores that it gave before? A few conversations of our own, in one process.

They hold no row of any dataset, so that they can be asked of any checkpoint by anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import scoring
from .merge import conversations

_MODULE = "action_reward_models.recipes.probe"


def compare(folders: Sequence[Path], *, base: Path | None, checkpoint: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Load the checkpoint in each of ``folders`` in a process of its own, and compare what they score.

    base: folder of the base model; None lets the checkpoint fetch it, if it needs one. checkpoint: of the manifest.
    Returns {"conversations", "max_difference"}: 0.0 of one folder alone, which has nothing to differ from. Raises
    ArmError when one cannot be loaded, when a score is no number, and when they differ by more than the tolerance.
    """
    asked = {"folders": [str(folder) for folder in folders], "base": base and str(base), "checkpoint": checkpoint}
    first, *others = found = scoring.elsewhere(_MODULE, asked, where)
    apart = max(scoring.apart(first, values, checkpoint["dtype"], where) for values in (others or found))
    return {"conversations": len(first), "max_difference": apart}


def main() -> None:
    scoring.tell(_scores)


def _scores(asked: Mapping[str, Any]) -> list[list[float]]:
    base, checkpoint = Path(asked["base"]) if asked["base"] else None, asked["checkpoint"]
    models = (scoring.opened(Path(folder), base, checkpoint) for folder in asked["folders"])
    return [scoring.answers(model, conversations(model.processor, checkpoint["kind"])) for model in models]


if __name__ == "__main__":
    main()
