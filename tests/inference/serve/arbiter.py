"""A process that makes a checkpoint and serves it: the first line it writes says where, and what the model picks when
it is asked right there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from action_reward_models.inference import ScalarRewardModel, SelectionARM
from action_reward_models.inference.choosing import How
from action_reward_models.inference.serve import run
from action_reward_models.inference.serve.app import Service
from action_reward_models.inference.serve.engine import Engine
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.tests.inference.made import make

PROMPTS = {"scalar": "scalar/1", "selection_arm": "selection/1"}


def main(folder: str, base: str, kind: str, question: str) -> None:
    """question: JSON of a `pick_request/1`. Ends with SIGTERM."""
    import torch

    torch.set_num_threads(1)
    prompt = load_prompt(PROMPTS[kind], PromptOptions()).to_json()
    make(Path(folder), Path(base), kind, prompt=prompt, spoken=("function", "pixel"))
    opened: Any = ScalarRewardModel if kind == "scalar" else SelectionARM
    model = opened.open(Path(folder), base=Path(base))
    how = How(max_new_tokens=8)
    choice = model.choose_many([model.read(json.loads(question))], how)[0]
    bound = run.bind("127.0.0.1", 0)
    told = {"url": f"http://127.0.0.1:{bound.getsockname()[1]}/v1", "choice": choice.to_json()}
    run.serve(Service(Engine(model, how), kind, 1, token="a-key"), bound, lambda: print(json.dumps(told), flush=True))
