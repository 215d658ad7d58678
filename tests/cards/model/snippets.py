"""The code of a card, run as a reader runs it, in a process that knows torch and a hub."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def main(step: str, *given: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    return {"make": make, "run": run}[step](*given)


def make(folder: str, base: str, kind: str, repo: str, commit: str) -> dict[str, Any]:
    """An adapter of the tiny base model, without its manifest; returns its contract."""
    from action_reward_models.tests.inference import made

    return made.make(Path(folder), Path(base), kind, repo=repo, commit=commit)


def run(row: str, ours: str, peft: str, transformers: str, stock: str) -> dict[str, list[str]]:
    """What each way prints: ours, PEFT, transformers; and what ours writes in as many tokens as the others."""
    found: dict[str, list[str]] = {}
    ways = {"ours": [row, ours], "peft": [row, peft, stock], "transformers": [row, transformers, stock]}
    for name, code in ways.items():
        space: dict[str, Any] = {}
        with redirect_stdout(io.StringIO()) as out:
            for part in code:
                exec(compile(part, f"<card: {name}>", "exec"), space)
        found[name] = out.getvalue().splitlines()
        if name == "ours" and hasattr(space["model"], "write"):
            asked = space["model"].processor.selection(space["row"]["prompt"], space["images"])
            found["written"] = [one.text for one in space["model"].write([asked], max_new_tokens=64)]
    return found
