"""What a process with torch finds out about choosing with real weights, small and drawn by chance."""

from __future__ import annotations

import gc
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from action_reward_models.inference import How, ScalarRewardModel, SelectionARM, open_model
from action_reward_models.inference.processor import Processor
from action_reward_models.inference.rendering import Renderer, Shown
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt_file
from action_reward_models.schemas import images
from action_reward_models.schemas.ids import file_sha256
from action_reward_models.tests.inference import asked, made

OWN = "{{task}} {{observation}} {{history}} {{points}}\n{{candidates}}\n{{answer}}"  # of somebody's first release
CANDIDATES = (*asked.CANDIDATES, "<think>it is red</think><action>click(3, 4)</action>")


def main(work: str, base: str) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    below, folders = Path(base), {}
    for kind, name in (("scalar", "scalar"), ("selection_arm", "selection")):
        folders[name] = Path(work) / name
        spoken = ("function", "pixel")
        made.make(folders[name], below, kind, prompt=asked.prompt(name).to_json(), spoken=spoken, std=0.15)
    scalar = ScalarRewardModel.open(str(folders["scalar"]), base=str(below))
    arm = SelectionARM.open(str(folders["selection"]), base=str(below))
    told = made.told(lambda: open_model(folders["selection"], base=below, prompt=asked.prompt(history_window=1)))
    silent = Path(work) / "silent"
    made.make(silent, below, "selection_arm", spoken=("function", "pixel"))
    contract = json.loads((silent / "manifest.json").read_bytes())["checkpoint"]
    made.settings(silent / "manifest.json", checkpoint={**contract, "prompt": dict.fromkeys(("id", "sha256", "file"))})
    own = Path(work) / "own.txt"
    own.write_text(OWN)
    supplied = load_prompt_file(own, file_sha256(own), PromptOptions())
    return {
        "scalar": _scored(scalar),
        "selection": _selected(arm, scalar),
        "kinds": [open_model(folder, base=str(below)).kind for folder in folders.values()],
        "other_prompt": told,
        "no_device": made.told(lambda: open_model(folders["scalar"], base=below, device="gpu")),
        "no_folder": made.told(lambda: open_model("owner/name")),
        "no_prompt": made.told(lambda: open_model(silent, base=below).choose(asked.state(), CANDIDATES)),
        "at_once": _at_once(arm),
        "texts": _of_texts(Path(work), below),
        "template": _failing(scalar).to_json(),
        "remembered": _remembered(scalar),
        "supplied": open_model(silent, base=below, prompt=supplied).choose(asked.state(), CANDIDATES).to_json(),
    }


def _requests(model: Any) -> list[Any]:
    """Three that differ in pictures, tasks and number of candidates, and one that is too long."""
    more: list[dict[str, Any]] = [
        {},
        {"screenshot": made.png("red"), "history": [{"action": "click(9, 9)"}]},
        {"screenshot": made.png("blue", 60), "task": "word " * 60},
        {"task": "word " * 1_500},
    ]
    return [
        model.read({"state": asked.state(**one), "candidates": list(CANDIDATES[: 5 - place])})
        for place, one in enumerate(more)
    ]


def _scored(model: ScalarRewardModel) -> dict[str, Any]:
    """Beside the choices, each conversation rendered and scored for itself, and whole."""
    requests = _requests(model)
    renderer = Renderer(model.prompt)
    plain = []
    for one in requests[:3]:
        shown = renderer.scalar(one.state, one.set_row)
        replies = renderer.replies(one.state, one.set_row)
        rows = [model.processor.scalar(shown.messages, one.images(shown.images), reply) for reply in replies]
        plain.append([model.score_encoded([row])[0] for row in rows])
    return {"choices": [one.to_json() for one in model.choose_many(requests)], "plain": plain}


def _of_texts(work: Path, base: Path) -> dict[str, Any]:
    """What templates show that know turns of one text, as those of Qwen3 and of older models."""
    told = {}
    silent = "{% if m.content is string %}{% set shown = m.content %}{% else %}{% set shown = '' %}{% endif %}"
    for name, shown in (("silent", silent + "{{ m.role + ':' + shown }}"), ("fails", "{{ m.role + ':' + m.content }}")):
        folder = work / f"{name}-template"
        folder.mkdir()
        Processor(base, made.LIMITS).save(folder)
        (folder / "chat_template.jinja").write_text(f"{{% for m in messages %}}{shown}|{{% endfor %}}")
        processor = Processor(folder, made.LIMITS)
        told[name] = processor.text([*made.conversation(0, "Go."), *made.reply("stop")], reply_follows=False)
    return told


def _at_once(arm: SelectionARM) -> int:
    """How many of three threads that want something written are in the model at a time."""
    row = arm.processor.selection(made.conversation(0), [])
    inside, most, generate = [0], [0], arm.model.generate

    def noted(**given: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        try:
            return generate(**given)
        finally:
            inside[0] -= 1

    arm.model.generate = noted
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: arm.write([row], max_new_tokens=1), range(3)))
    arm.model.generate = generate
    return most[0]


def _failing(model: ScalarRewardModel) -> Any:
    """A choice while the chat template, which is a program, fails in a way of its own."""
    tokenizer = model.processor.tokenizer
    kept = tokenizer.chat_template
    tokenizer.chat_template = "{{ messages[0] // 0 }}"
    try:
        return model.choose_many(_requests(model)[:1])[0]
    finally:
        tokenizer.chat_template = kept


def _remembered(model: ScalarRewardModel) -> int:
    """Of 20 pictures that were shown, how many something is still known of, beside the last ones in the model's form.
    A server goes on for months."""
    for width in range(20):
        model.processor.scalar(made.conversation(1), [made.png("red", 60 + width)], made.reply("stop"))
    return sum(type(one) is images._Known for one in gc.get_objects())


def _selected(arm: SelectionARM, scalar: ScalarRewardModel) -> dict[str, Any]:
    """Beside the choices, what the model writes after each prompt alone."""
    requests, how = _requests(arm), How(orders=3, max_new_tokens=16)
    renderer, shows = Renderer(arm.prompt), Shown.to(arm.contract)
    found = arm.choose_many(requests, how)
    alone = []
    for one, choice in zip(requests[:3], found, strict=False):
        assert choice.votes[0].order == tuple(shows.order(one.set_row))
        for vote in choice.votes:
            shown = renderer.selection(one.state, one.set_row, vote.order)
            row = arm.processor.selection(shown.messages, one.images(shown.images))
            alone.append(arm.write([row], max_new_tokens=16)[0].text)
    settled = arm.choose_many(requests, How(max_new_tokens=4, otherwise="scalar", scalar=scalar))
    return {
        "choices": [one.to_json() for one in found], "alone": alone, "settled": [one.to_json() for one in settled],
    }  # fmt: skip
