"""A checkpoint that writes 32 tokens about every question, as one that reasons does: for a process with torch."""

from __future__ import annotations

from pathlib import Path

from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.tests.inference import made

NEW_TOKENS = 32


def main(folder: str, base: str) -> None:
    prompt = load_prompt("selection/1", PromptOptions()).to_json()
    short = {**prompt["template"], "system": "Pick the best candidate."}
    # Weights drawn by chance rarely end a reply.
    made.make(
        Path(folder), Path(base), "selection_arm", prompt={**prompt, "template": short}, spoken=("function", "pixel"),
        std=0.2,
    )  # fmt: skip
