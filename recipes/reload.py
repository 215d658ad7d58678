"""A checkpoint loaded in a process that never trained: does it give rows the scores that it gave them in training?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import scoring
from .rows import Rows, encode

_MODULE = "action_reward_models.recipes.reload"


def compare(
    folder: Path, rows: Path, *, base: Path, checkpoint: Mapping[str, Any], reference: Mapping[str, Any]
) -> dict[str, Any]:
    """The checkpoint in ``folder``, which has no manifest yet, against the scores in ``reference``.

    Returns `reload` of `model_manifest/1`. Raises ArmError when a score differs by more than the tolerance.
    """
    asked = {"folder": str(folder), "rows": str(rows), "base": str(base), "checkpoint": checkpoint,
             "units": reference["units"]}  # fmt: skip
    found = scoring.elsewhere(_MODULE, asked, str(folder))
    apart = scoring.apart(found, reference["values"], checkpoint["dtype"], str(folder))
    return {"conversations": len(found), "max_difference": apart}


def main() -> None:
    scoring.tell(_scores)


def _scores(asked: Mapping[str, Any]) -> list[float]:
    checkpoint, rows = asked["checkpoint"], Rows(Path(asked["rows"]))
    model = scoring.opened(Path(asked["folder"]), Path(asked["base"]), checkpoint)
    found = [encoded for unit in asked["units"] for encoded in encode(model.processor, rows[unit], checkpoint["kind"])]
    return scoring.answers(model, found)


if __name__ == "__main__":
    main()
