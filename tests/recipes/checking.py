"""Checks recipes in one process with torch: ``checking.py``, which reads cases as JSON and prints what each came to.

A case is {recipe, dataset, base, start, target, sample}: paths, or null for what is not at hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from action_reward_models.recipes.checks import SAMPLE, Given, check
from action_reward_models.schemas.errors import ArmError


def checked(case: dict[str, Any]) -> dict[str, Any]:
    paths: dict[str, Any] = {key: Path(case[key]) for key in ("dataset", "base", "start", "target") if case.get(key)}
    given = Given(**paths)
    try:
        found = check(Path(case["recipe"]), given, sample=case.get("sample") or SAMPLE)
    except ArmError as error:
        return {"issues": [issue.to_json() for issue in error.issues], "skipped": [], "counts": {}}
    issues = [issue.to_json() for issue in found.issues]
    return {"issues": issues, "skipped": [one.to_json() for one in found.skipped], "counts": found.counts}


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    print(json.dumps([checked(case) for case in json.load(sys.stdin)]))
