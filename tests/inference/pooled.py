"""Scalar models that vLLM can serve, and its scores beside ours. For a process with torch.

python -m action_reward_models.tests.inference.pooled FOLDER FAMILY

writes FOLDER/merged, which `arm serve FOLDER/merged --print-vllm` says how to serve. FAMILY: text (Qwen3), qwen3_vl, or
qwen3_5, which vLLM runs on a CPU in bfloat16 only.
"""

from __future__ import annotations

import json
import shutil
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.request import Request as Call
from urllib.request import urlopen

from action_reward_models.inference.rendering import Renderer
from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.inference.serve import vllm
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.recipes import merge as merging
from action_reward_models.recipes import scoring
from action_reward_models.tests.inference import families, made
from action_reward_models.tests.recipes.merging import checkpoint

TASKS = ("Click the red button.", "Open the second result. " * 9, 'Type {"a": 1}\n1. one\n2. two <|box|> & press enter')
ACTIONS = ("click(1, 1)", "stop", 'type(3, 4, "a long word and more of it")', "scroll(0, 10)")
COLOURS = ("red", "blue", "white")


def make(folder: Path, family: str, seen: Path, blind: Path) -> Path:
    """An adapter and what `arm merge` makes of it, with a real prompt; returns the folder of the whole model.

    seen, blind: trained tiny bases."""
    folder.mkdir(parents=True)
    base = _hybrid(folder / "base", seen) if family == "qwen3_5" else families.base(folder, family, seen, blind)
    options = PromptOptions(observation="text") if family == "text" else PromptOptions()
    prompt = load_prompt("scalar/1", options).to_json()
    std = 0.2 if family == "qwen3_5" else 0.05  # scores that differ by far more than what bfloat16 changes
    checkpoint(folder / "adapter", base, "scalar", prompt=prompt, spoken=("function", "pixel"), std=std)
    return merging.merge(folder / "adapter", folder / "merged", base=base).folder


def main(root: str, url: str, model: str) -> dict[str, Any]:
    """Scores and token ids of ``model`` at ``url``, and of the folder ``root`` that it serves, for every candidate."""
    import torch

    torch.set_num_threads(1)
    ours = ScalarRewardModel.open(Path(root))
    rough = deepcopy(ours.model.model).to(torch.bfloat16)
    found: dict[str, list[Any]] = {"ours": [], "theirs": [], "rough": [], "plain": [], "open": [], "ids": []}
    for request in _requests(ours):
        bodies = vllm.asked(request, ours.prompt, ours.contract, model)
        rows = [ours.processor.scalar(*_parts(ours, request), reply) for reply in _replies(ours, request)]
        found["ours"] += scoring.answers(ours, rows)
        found["rough"] += [_rough(ours, rough, row) for row in rows]
        for body, row in zip(bodies, rows, strict=True):
            answer = _post(url, vllm.CLASSIFY, body)
            found["theirs"].append(vllm.score_of(answer))
            default = {key: value for key, value in body.items() if key != "use_activation"}
            found["plain"].append(vllm.score_of(_post(url, vllm.CLASSIFY, default)))
            found["open"].append(vllm.score_of(_post(url, vllm.CLASSIFY, {**body, "add_generation_prompt": True})))
            same = _post(url, "/tokenize", body)["tokens"] == list(row.input_ids)
            found["ids"].append(same and answer["usage"]["prompt_tokens"] == len(row.input_ids))
    return found


def _rough(ours: ScalarRewardModel, body: Any, row: Any) -> float:
    """The score of one conversation by a body in bfloat16 below the head as it is: vLLM keeps that in float32, too."""
    import torch

    given = ours.processor.batch([row])
    given = {key: value.bfloat16() if value.is_floating_point() else value for key, value in given.items()}
    with torch.inference_mode():
        last = body(**given, use_cache=False).last_hidden_state[0, -1].float()
        return float(last @ ours.model.score.weight[0].float())


def _requests(ours: ScalarRewardModel) -> list[Any]:
    sees = ours.processor.pictures is not None
    return [
        ours.read({
            "state": {"task": task, **({"screenshot": made.png(colour, width)} if sees else {"observation_text": "A"})},
            "candidates": list(ACTIONS),
        })
        for task, colour, width in zip(TASKS, COLOURS, (160, 60, 97), strict=True)
    ]  # fmt: skip


def _parts(ours: ScalarRewardModel, request: Any) -> tuple[list[Any], list[bytes]]:
    rendered = Renderer(ours.prompt).scalar(request.state, request.set_row)
    return rendered.messages, request.images(rendered.images)


def _replies(ours: ScalarRewardModel, request: Any) -> list[list[Any]]:
    return Renderer(ours.prompt).replies(request.state, request.set_row)


def _post(url: str, route: str, body: Any) -> Any:
    call = Call(f"{url}{route}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(call, timeout=300) as response:
        return json.loads(response.read())


def _hybrid(folder: Path, seen: Path) -> Path:
    """A Qwen3.5 with the widths of heads that vLLM has a kernel for on a CPU; weights drawn by chance."""
    import torch
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    shutil.copytree(seen, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    torch.manual_seed(3)
    config = Qwen3_5Config.from_pretrained(seen)
    config.text_config.linear_key_head_dim = config.text_config.linear_value_head_dim = 128
    Qwen3_5ForConditionalGeneration(config).eval().save_pretrained(folder)
    return folder


if __name__ == "__main__":
    from action_reward_models.tests.inference import process

    print(make(Path(sys.argv[1]), sys.argv[2], process.base(), process.base(sees=False)))
