"""The code of a card, run as a reader runs it, in a process that knows torch and a hub."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def main(step: str, *given: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    steps: dict[str, Callable[..., Any]] = {"make": make, "run": run}
    return steps[step](*given)


def make(folder: str, base: str, kind: str, repo: str, commit: str) -> dict[str, Any]:
    """An adapter of the tiny base model, without its manifest; returns its contract."""
    from action_reward_models.prompts.options import PromptOptions
    from action_reward_models.prompts.render import load_prompt
    from action_reward_models.tests.inference import made

    prompt = load_prompt("scalar/1" if kind == "scalar" else "selection/1", PromptOptions()).to_json()
    spoken = ("function", "pixel")
    return made.make(Path(folder), Path(base), kind, repo=repo, commit=commit, prompt=prompt, spoken=spoken)


def run(row: str, chosen: str, ours: str, peft: str, transformers: str, stock: str) -> dict[str, list[str]]:
    """What each way prints: ours on a state and on a row, PEFT, transformers; and ours in as many tokens."""
    from action_reward_models.inference.choice import NoChoiceError

    found: dict[str, list[str]] = {}
    ways = {
        "chosen": [row, chosen],
        "ours": [row, ours],
        "peft": [row, peft, stock],
        "transformers": [row, transformers, stock],
    }
    for name, code in ways.items():
        space: dict[str, Any] = {}
        with redirect_stdout(io.StringIO()) as out:
            for part in code:
                try:
                    exec(compile(part, f"<card: {name}>", "exec"), space)
                except NoChoiceError as error:  # weights by chance may pick nothing
                    print(error.choice.status)
        found[name] = out.getvalue().splitlines()
        if name == "ours" and hasattr(space["model"], "write"):
            asked = space["model"].processor.selection(space["row"]["prompt"], space["images"])
            found["written"] = [one.text for one in space["model"].write([asked], max_new_tokens=64)]
    return found
