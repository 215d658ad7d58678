"""What a process with torch finds out about checkpoints: what opens, what it scores and says, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from action_reward_models.inference import adapter, adopt, head
from action_reward_models.inference.processor import Limits, Processor
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.inference import made
from action_reward_models.tests.tiny_vlm import examples

REPLIES = ("click(1, 1)", "stop", "type('a long word and more of it') " * 8)
Found = dict[str, Any]


def main(work: str, base: str, blind: str) -> Found:
    import torch

    torch.set_num_threads(1)
    folder, bases = Path(work), {True: Path(base), False: Path(blind)}
    found: Found = {}
    for can_see, below in bases.items():
        name = "sees" if can_see else "blind"
        made.make(folder / name / "scalar", below, "scalar")
        made.make(folder / name / "selection", below, "selection_arm", std=0.2)  # it writes something else each time
        found[name] = _values(folder / name, below, can_see)
    sees = folder / "sees"
    found |= {"layouts": layouts(sees, bases[True]), "halves": _halves(folder / "halves", bases[True])}
    found["templates"] = _templates(folder / "templates", bases[True])
    found["knows"] = _knows(folder / "knows", bases[True])
    found["refused"] = _refusals(folder, bases)
    found["adopted"] = _adopted(folder / "adopted", sees / "scalar", bases[True])
    return found


def _values(folder: Path, base: Path, sees: bool) -> Found:
    from action_reward_models.inference.scalar import ScalarRewardModel
    from action_reward_models.inference.selection import SelectionARM

    shown = [[made.png("red")] * sees for _ in range(3)] + [[], [made.png("blue", 60), made.png("red")]] * sees
    cases = [
        (made.conversation(len(images), "Click the red button. " * times), images)
        for images, times in zip(shown, (1, 20, 6, 3, 2)[: len(shown)], strict=True)
    ]
    scalar = ScalarRewardModel.open(folder / "scalar", base=base)
    replies = [made.reply(text) for text in REPLIES]
    rows = [scalar.processor.scalar(*case, reply) for case in cases for reply in replies]
    narrow = ScalarRewardModel(scalar.model, scalar.processor, scalar.contract, tokens=500)
    arm = SelectionARM.open(folder / "selection", base=base)
    asked = [arm.processor.selection(*case) for case in cases]
    said = [arm.processor.selection(*case, text) for case, text in zip(cases, REPLIES * 2, strict=False)]
    return {
        "together": scalar.score_encoded(rows),
        "alone": [scalar.score_encoded([row])[0] for row in rows],
        "few": narrow.score_encoded(rows),
        "by_hand": [_last_state(scalar, row) for row in rows],
        "asked": scalar.score(*cases[1], replies),
        "written_together": [one.text for one in arm.write(asked, max_new_tokens=16)],
        "written_alone": [arm.write([row], max_new_tokens=16)[0].text for row in asked],
        "written_by_hand": [_greedy(arm, row, 16) for row in asked],
        "likely_together": arm.log_likelihood(said),
        "likely_alone": [arm.log_likelihood([row])[0] for row in said],
        "likely_by_hand": [_chain(arm, row) for row in said],
    }


def _last_state(scalar: Any, row: Any) -> float:
    """The head on the last hidden state of one conversation, without padding."""
    import torch

    with torch.inference_mode():
        whole = scalar.model.get_base_model()
        state = whole.model(**scalar.processor.batch([row])).last_hidden_state[0, -1].double()
    weight = head.tensors(scalar.processor.folder / head.FILE)[head.WEIGHT][0].double()
    return float(state @ weight)


def _greedy(arm: Any, row: Any, count: int) -> str:
    """The likeliest token, one after another, each time over the whole conversation."""
    import torch

    ids = list(row.input_ids)
    for _ in range(count):
        grown = type(row)(tuple(ids), len(ids), row.pictures)
        with torch.inference_mode():
            token = int(arm.model(**arm.processor.batch([grown])).logits[0, -1].argmax())
        if token == arm.processor.tokenizer.eos_token_id:
            break
        ids.append(token)
    return str(arm.processor.tokenizer.decode(ids[len(row.input_ids) :], skip_special_tokens=True))


def _chain(arm: Any, row: Any) -> float:
    """The product of what each token of the reply is worth after those before it."""
    import torch

    with torch.inference_mode():
        logits = arm.model(**arm.processor.batch([row])).logits[0].double()
    chances = torch.softmax(logits, -1)
    return sum(math.log(float(chances[at - 1, row.input_ids[at]])) for at in range(row.prompt, len(row.input_ids)))


def layouts(folder: Path, base: Path) -> Found:
    """One head and one LoRA in every layout; a merged model beside the adapter, and a head beside the base alone."""
    from action_reward_models.inference.checkpoint import load_model
    from action_reward_models.inference.scalar import ScalarRewardModel

    model = ScalarRewardModel.open(folder / "scalar", base=base)
    images, replies = [made.png("red")], [made.reply(text) for text in REPLIES]
    scored = model.score(made.conversation(1), images, replies)
    merged, alone = folder / "merged", folder / "alone"
    load_model(
        folder / "scalar", kind="scalar", layout="adapter", base=base, dtype="float32"
    ).merge_and_unload().save_pretrained(merged)
    model.processor.save(merged)
    plain = {"prompt": {"id": None, "sha256": None, "file": None}}
    whole = {**model.contract, **plain, "layout": "merged", "head": {**model.contract["head"], "file": None}}
    shutil.copytree(folder / "scalar", alone, ignore=shutil.ignore_patterns("adapter*"))
    only = {**model.contract, "layout": "value_head"}
    unpadded = folder / "unpadded"
    shutil.copytree(base, unpadded)
    config = json.loads((unpadded / "config.json").read_bytes())
    made.settings(unpadded / "config.json", text_config={**config["text_config"], "pad_token_id": None})
    known = {**model.contract["base"], "sha256": None}  # as of one from the Hub
    silent = ScalarRewardModel.open(folder / "scalar", base=unpadded, contract={**model.contract, "base": known})
    with model.model.disable_adapter(), _own_head(model.model):
        without = model.score(made.conversation(1), images, replies)
    return {
        "adapter": scored,
        "merged": ScalarRewardModel.open(merged, contract=whole).score(made.conversation(1), images, replies),
        "unpadded": silent.score(made.conversation(1), images, replies),
        "without_lora": without,
        "value_head": ScalarRewardModel.open(alone, base=base, contract=only).score(
            made.conversation(1), images, replies
        ),
    }


@contextmanager
def _own_head(model: Any) -> Iterator[None]:
    """Without its adapter the model has the head that was drawn; give it the trained one."""
    score = model.get_base_model().score
    score.original_module.weight.data = score.modules_to_save["default"].weight.data
    yield


def _halves(folder: Path, base: Path) -> Found:
    """In bfloat16: the head stays what its file says, and scores are no multiples of what bfloat16 can tell apart."""
    import torch
    from action_reward_models.inference.scalar import ScalarRewardModel

    made.make(folder, base, "scalar", dtype="bfloat16")
    model = ScalarRewardModel.open(folder, base=base)
    kept = model.model.get_base_model().score.modules_to_save["default"].weight
    scores = model.score(made.conversation(1), [made.png("red")], [made.reply(text) for text in REPLIES])
    return {
        "head_kept": torch.equal(kept, head.tensors(folder / head.FILE)[head.WEIGHT]),
        "dtype": str(next(model.model.get_base_model().model.parameters()).dtype),
        "scores": scores,
        "rounded": torch.tensor(scores).bfloat16().tolist(),
    }


def _templates(folder: Path, base: Path) -> list[Found]:
    """How conversations and prompts end under the two templates of Qwen3.5, which TRL brings."""
    found = []
    for name in ("think", "nothink"):
        shutil.copytree(base, folder / name)
        text = resources.files("trl").joinpath(f"chat_templates/qwen3_5_{name}.jinja").read_text("utf-8")
        (folder / name / "chat_template.jinja").write_text(text, "utf-8")
        for options in ({}, {"enable_thinking": False}, {"enable_thinking": True}):
            processor = Processor(folder / name, made.LIMITS, options)
            prompt, image = made.conversation(1), [made.png("red")]
            whole = processor.scalar(prompt, image, made.reply("stop")).input_ids
            asked = processor.selection(prompt, image, "stop")
            found.append(
                {
                    "template": name,
                    "options": options,
                    "ends": processor.tokenizer.decode(whole[-12:]),
                    "last": [processor.tokenizer.decode(token) for token in whole[-2:]],
                    "prompt": processor.tokenizer.decode(asked.input_ids[: asked.prompt]).split("<|im_end|>\n")[-1],
                    "reply": processor.tokenizer.decode(asked.input_ids[asked.prompt :]),
                }
            )
    return found


def _knows(folder: Path, base: Path) -> Found:
    """A LoRA of zeros on a base that learnt to reply with a selection."""
    from action_reward_models.inference.selection import Question, SelectionARM

    made.make(folder, base, "selection_arm", std=0.0)
    model, turn = SelectionARM.open(folder, base=base), examples.turns()[0]
    prompt = [*turn.messages, {"role": "user", "content": [{"type": "text", "text": examples.asked()}]}]
    first = model.ask(prompt, [turn.png], 5)
    many = model.ask_many([Question(prompt, [turn.png], n) for n in (5, 1, 5)])
    cut = model.ask(prompt, [turn.png], 5, max_new_tokens=3)
    return {"first": [first.status, first.selected], "many": [one.status for one in many], "cut": cut.status}


# -- what is refused --------------------------------------------------------------------------------------------------


def _refusals(work: Path, bases: dict[bool, Path]) -> dict[str, str]:
    """Each change that makes a checkpoint another one, and what is said of it."""
    import torch
    from action_reward_models.inference.scalar import ScalarRewardModel
    from action_reward_models.inference.selection import SelectionARM

    base, source = bases[True], work / "sees" / "scalar"
    found = {}

    def opened(name: str, change: Callable[[Path], object], below: Path = base, kind: Any = ScalarRewardModel) -> None:
        folder = work / "changed" / name
        shutil.copytree(source, folder)
        change(folder)
        found[name] = made.told(lambda: kind.open(folder, base=below))

    def other_base(name: str, change: Callable[[Path], object]) -> None:
        folder = work / "bases" / name
        shutil.copytree(base, folder)
        change(folder)
        opened(name, on_hub, folder)

    def weights(change: Callable[[dict[str, Any]], object], file: str = adapter.WEIGHTS) -> Callable[[Path], object]:
        return lambda folder: made.rewrite(folder / file, change)

    def settings(file: str, **more: Any) -> Callable[[Path], object]:
        return lambda folder: made.settings(folder / file, **more)

    def manifest(**more: Any) -> Callable[[Path], object]:
        def change(folder: Path) -> None:
            said = json.loads((folder / "manifest.json").read_bytes())
            said["checkpoint"] |= more
            (folder / "manifest.json").write_text(json.dumps(said))

        return change

    on_hub = manifest(base={"repo": "owner/base", "commit": "1" * 40, "sha256": None})
    lora = "base_model.model.model.language_model.layers.0.mlp.gate_proj.lora_A.weight"
    opened("template", lambda folder: (folder / "chat_template.jinja").write_text("{{ messages }}"))
    opened("tokenizer", lambda folder: made.settings(folder / "tokenizer.json", truncation=None))
    opened("pixels", settings("preprocessor_config.json", size={"shortest_edge": 1024, "longest_edge": 4096}))
    opened("padding", settings("tokenizer_config.json", pad_token="<|im_end|>"))
    opened("prompt", settings("prompts/own.json", renderer=2))
    opened("prompt_gone", lambda folder: (folder / "prompts" / "own.json").unlink())
    opened("prompt_elsewhere", manifest(prompt={"id": None, "sha256": "0" * 64, "file": "../own.json"}))
    opened("manifest", manifest(dtype="int4"))
    opened("unfinished", lambda folder: (folder / "manifest.json").unlink())
    opened("kind", lambda _: None, kind=SelectionARM)
    opened("architecture", manifest(architecture="LlamaForSequenceClassification"))
    opened("head_file_gone", lambda folder: (folder / head.FILE).unlink())
    opened("head_not_in_adapter", weights(lambda held: held.pop(head.IN_ADAPTER)))
    opened("head_width", weights(lambda held: held.update({head.WEIGHT: torch.ones(1, 64)}), head.FILE))
    opened("head_nan", weights(lambda held: held[head.WEIGHT].fill_(math.nan), head.FILE))
    opened("head_name", weights(lambda held: held.update(weight=held.pop(head.WEIGHT)), head.FILE))
    opened("heads_differ", weights(lambda held: held[head.WEIGHT][0, 0].add_(0.25), head.FILE))
    opened("head_bias", weights(lambda held: held[head.BIAS].fill_(0.5), head.FILE))
    opened("lora_nan", weights(lambda held: held[lora].fill_(math.inf)))
    opened("lora_lacks", weights(lambda held: held.pop(lora)))
    opened("lora_over", weights(lambda held: held.update(other=torch.ones(1))))
    opened("lora_shape", weights(lambda held: held.update({lora: torch.ones(4, 64)})))
    opened("no_safetensors", lambda folder: (folder / adapter.WEIGHTS).write_bytes(b"\x80\x02."))
    opened("only_pickle", lambda folder: (folder / adapter.WEIGHTS).rename(folder / "adapter_model.bin"))
    opened("settings", settings(adapter.CONFIG, arrow_config={"x": 1}))
    opened("module", settings(adapter.CONFIG, megatron_config={"x": 1}, megatron_core="antigravity"))
    opened("no_lora", settings(adapter.CONFIG, peft_type="PROMPT_TUNING"))
    opened("task", settings(adapter.CONFIG, task_type="CAUSAL_LM"))
    opened("blind_base", on_hub, bases[False])
    opened("other_base", lambda _: None, bases[False])
    other_base("base_tokenizer", lambda folder: made.settings(folder / "tokenizer.json", truncation=None))
    other_base("base_pickle", lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"))
    norm = "model.language_model.norm.weight"
    other_base("base_lacks", lambda folder: made.rewrite(folder / "model.safetensors", lambda held: held.pop(norm)))
    other_base("code", lambda folder: made.with_code(folder, work / "ran", tokenizer=False))
    opened("code_tokenizer", lambda folder: made.with_code(folder, work / "ran", tokenizer=True))
    found["ran"] = str((work / "ran").exists())

    model, prompt, image = ScalarRewardModel.open(source, base=base), made.conversation(1), made.png("red")
    said = [made.reply("stop")]
    found["no_picture"] = made.told(lambda: model.score(prompt, [], said))
    found["two_pictures"] = made.told(lambda: model.score(prompt, [image, image], said))
    found["bomb"] = made.told(lambda: model.score(prompt, [made.png_header(60_000, 60_000)], said))
    found["long"] = made.told(lambda: model.score(made.conversation(1, "button " * 3000), [image], said))
    whole_row = model.processor.scalar(prompt, [image], said[0])
    other = replace(whole_row, input_ids=whole_row.input_ids[:-1])
    found["other_end"] = made.told(lambda: model.score_encoded([whole_row, other]))
    damaged = model.model.get_base_model().model.language_model.norm.weight
    damaged.data.fill_(math.nan)
    found["score_nan"] = made.told(lambda: model.score(prompt, [image], said))
    arm = SelectionARM.open(work / "blind" / "selection", base=bases[False])
    found["sees_nothing"] = made.told(lambda: arm.ask(prompt, [image], 5))
    merged = work / "changed" / "merged"
    shutil.copytree(work / "sees" / "merged", merged)
    made.rewrite(merged / "model.safetensors", lambda held: held.pop("score.weight"))
    whole = {**model.contract, "layout": "merged", "prompt": {"id": None, "sha256": None, "file": None}}
    found["merged_without_head"] = made.told(lambda: ScalarRewardModel.open(merged, contract=whole))
    return found


# -- what others left -------------------------------------------------------------------------------------------------


def _adopted(work: Path, source: Path, base: Path) -> Found:
    """The checkpoint in ``source`` as other tools would have written it, adopted and scored."""
    import torch
    from action_reward_models.inference.scalar import ScalarRewardModel
    from safetensors.torch import save_file

    held = head.tensors(source / adapter.WEIGHTS)
    weight = held.pop(head.IN_ADAPTER)
    replies = [made.reply(text) for text in REPLIES]
    origin = adopt.Origin(base, "owner/base", "1" * 40)

    def taken(name: str, lora: bool, write: Callable[[Path], object], **more: Any) -> Any:
        folder = work / name
        folder.mkdir(parents=True)
        if lora:
            settings = json.loads((source / adapter.CONFIG).read_bytes())
            settings |= {"task_type": "CAUSAL_LM", "modules_to_save": None, "base_model_name_or_path": "/home/me/base"}
            (folder / adapter.CONFIG).write_text(json.dumps(settings))
            save_file(held, folder / adapter.WEIGHTS)
        write(folder)
        out = work / f"{name}-out"
        try:
            told = adopt.adopt(folder, out, kind="scalar", base=origin, limits=made.LIMITS, **more).told
        except ArmError as error:
            return {"refused": str(error), "left": out.exists()}
        model = ScalarRewardModel.open(out, base=base)
        scores = model.score(made.conversation(1), [made.png("red")], replies)
        text = "".join(path.read_text("utf-8", "replace") for path in out.rglob("*") if path.is_file())
        return {"scores": scores, "told": told, "paths": "/home" in text, "kept": sorted(p.name for p in out.iterdir())}

    trl = {head.WEIGHT: weight, head.BIAS: torch.zeros(1)}
    biased = {"weight": weight[0], "bias": torch.tensor([0.5])}
    safe: dict[str, Callable[[Path], object]] = {
        "trl": lambda folder: save_file(trl, folder / "value_head.safetensors"),
        "trl_torch": lambda folder: torch.save(trl, folder / "value_head.bin"),
        "biased": lambda folder: torch.save(biased, folder / "v_head.pt"),
        "halved": lambda folder: torch.save({"weight": weight / 2}, folder / "v_head.pt"),
        "wide": lambda folder: torch.save({"weight": torch.ones(1, 64)}, folder / "v_head.pt"),
        "other": lambda folder: torch.save({**biased, "scale": torch.ones(1)}, folder / "v_head.pt"),
        "list": lambda folder: torch.save([weight], folder / "v_head.pt"),
        "none": lambda folder: None,
        "pickle": lambda folder: made.hostile(folder / "v_head.pt", work / "ran"),
        "old_pickle": lambda folder: made.hostile(folder / "v_head.pt", work / "ran", zipped=False),
    }
    found = {name: taken(name, True, write) for name, write in safe.items()}
    found["two"] = taken("two", True, lambda folder: [safe[name](folder) for name in ("trl", "halved")])
    found["dropped"] = taken("dropped", True, safe["biased"], bias="drop")
    found["alone"] = taken("alone", False, safe["trl"])
    found["other_prompt"] = taken(
        "other_prompt", False, safe["trl"], prompt=load_prompt("selection/1", PromptOptions())
    )
    found["again"] = made.told(lambda: adopt.adopt(source, work, kind="scalar", base=origin, limits=Limits(9)))
    found["whole"] = taken("whole", False, lambda folder: shutil.copytree(source, folder, dirs_exist_ok=True))
    found["selects"] = _adopted_selector(work / "selects", source.parent / "selection", origin)
    found["ran"] = (work / "ran").exists()
    return found


def _adopted_selector(out: Path, source: Path, origin: adopt.Origin) -> Found:
    """A selection ARM from a folder that holds its adapter only, with the prompt that it is said to be trained with."""
    from action_reward_models.inference.selection import SelectionARM

    bare = out.parent / "bare"
    bare.mkdir()
    for name in (adapter.CONFIG, adapter.WEIGHTS):
        shutil.copy(source / name, bare)
    prompt = load_prompt("selection/1", PromptOptions())
    adopt.adopt(bare, out, kind="selection_arm", base=origin, limits=made.LIMITS, prompt=prompt)
    known, taken = (SelectionARM.open(folder, base=origin.folder) for folder in (source, out))
    row = known.processor.selection(made.conversation(1), [made.png("red")], "stop")
    return {"prompt": taken.contract["prompt"], "likely": [model.log_likelihood([row])[0] for model in (known, taken)]}
