"""What training really does, found in one process that may import torch: JSON of facts, which test_trainers judges.

``python tiny_training.py DATASET FOLDER``: a build with scores, and a folder to work in.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import torch
import trl
from action_reward_models.inference.processor import Encoded, Limits, Processor
from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes import rows as prepared
from action_reward_models.recipes import work as works
from action_reward_models.recipes.inputs import Inputs
from action_reward_models.recipes.rows import Rows, encode, prepare
from action_reward_models.recipes.train import Stopped, train
from action_reward_models.recipes.trainers import batches, losses, models, settings
from action_reward_models.recipes.trainers.scalar import ScalarTrainer
from action_reward_models.recipes.trainers.team import team
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.recipes import tiny
from action_reward_models.tests.tiny_vlm import cached
from safetensors.torch import load_file
from transformers.models.qwen3_5 import modeling_qwen3_5

torch.set_num_threads(1)
gc.collect()
gc.freeze()  # the trainers collect often, and there is much
DATASET, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
FEW: dict[str, Any] = {"split": "validation"}  # its rows are soon prepared
LIMITS = {"max_tokens": 2048, "max_pixels": 6400}  # small pictures are fast
WIDE: dict[str, Any] = {**FEW, "limits": LIMITS, "head_std": 1.0}  # scores far enough apart for losses to differ
TEMPLATES = Path(trl.__file__).parent / "chat_templates"


def pick(built: Inputs, name: str) -> tuple[Rows, Processor]:
    """Prepared rows, and the processor that prepared them."""
    processor = Processor(built.base, built.recipe.limits, built.recipe.template_options)
    return prepare(built, processor, FOLDER / name), processor


def trained(name: str, given: Inputs, progress: Callable[[str, int, int], None] = lambda *_: None) -> Path:
    """The files that training in the work folder ``name`` leaves."""
    with works.opened(FOLDER / name, given, 1, restart=False) as work:
        made = train(given, work, team(), steps=None, progress=progress)
        assert made is not None
        training = {**made["training"], "reload": {"conversations": 0, "max_difference": 0.0}}
        described = manifests.describe(work.made, given.identity, checkpoint=made["checkpoint"], training=training)
        manifests.write(work.made, described)
        return work.made


def weights(made: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_file(made / "adapter_model.safetensors")
    return found


def apart(one: Path, other: Path) -> float:
    """Largest difference of the two adapters; infinite when they do not have the same parts."""
    left, right = weights(one), weights(other)
    if left.keys() != right.keys():
        return math.inf
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def trainer_of(given: Inputs, rows: Rows, processor: Processor, model: Any) -> ScalarTrainer:
    assert given.recipe.loss
    return ScalarTrainer(
        given.recipe, model=model, args=settings.settings(given.recipe, FOLDER / "unused"),
        train_dataset=batches.numbers(rows), processing_class=processor.tokenizer,
        data_collator=batches.Scored(rows, processor, given.recipe.loss),
    )  # fmt: skip


def contract(rows: Rows) -> dict[str, Any]:
    return {"head": {"scored_token_id": rows.facts.scored, "scored_token": "?"}}


def alone(model: Any, processor: Processor, rows: Rows, found: list[Encoded]) -> list[float]:
    """The score of each conversation in a batch of its own, which has no padding."""
    scoring = ScalarRewardModel(model, processor, contract(rows))
    return [scoring.score_encoded([one])[0] for one in found]


def bradley_terry() -> dict[str, Any]:
    """Five batches: the trainer's loss, and that of scores of the table's own rows, one by one."""
    given = tiny.inputs(DATASET, "scalar", objective={"loss": "bt"}, **WIDE)
    rows, processor = pick(given, "pairs")
    model = models.load(given, processor)
    trainer = trainer_of(given, rows, processor, model)
    model.eval()
    pictures: dict[str, bytes] = {}
    table = [
        row for row in BuiltTables.of(DATASET, lambda *_: None, "reading").rows("bt_pairs", pictures.__setitem__)
        if row["split"] == "validation"
    ]  # fmt: skip
    pairs = []
    for at in range(5):
        numbers = [at * 3, at * 3 + 1, at * 3 + 7]
        batch = batches.Scored(rows, processor, "bt")([{"unit": number} for number in numbers])
        with torch.no_grad():
            loss = float(trainer.compute_loss(model, batch))
        terms = []
        for row in (table[number] for number in numbers):
            images = [pictures[name] for name in row["images"]]
            both = [processor.scalar(row["prompt"], images, row[side]) for side in ("chosen", "rejected")]
            chosen, rejected = alone(model, processor, rows, both)
            terms.append(math.log1p(math.exp(rejected - chosen)))
        pairs.append([loss, sum(terms) / len(terms)])
    return {"pairs": pairs, "scored": scored_position(model, processor, rows), "columns": len(table) == len(rows)}


def scored_position(model: Any, processor: Processor, rows: Rows) -> float:
    """How far the scores of a padded batch are from the head at each row's last token, computed by hand."""
    found = [encode(processor, rows[0], "scalar")[0], encode(processor, rows[20], "scalar")[0]]
    assert len({len(one.input_ids) for one in found}) == 2, "one of them is padded"
    with torch.no_grad():
        scores = model(**processor.batch(found)).logits[:, 0]
        apart = []
        for one, score in zip(found, scores, strict=True):
            hidden = model.get_base_model().model(**processor.batch([one])).last_hidden_state
            weight = models.head_of(model)
            assert weight is not None
            apart.append(abs(float(hidden[0, len(one.input_ids) - 1] @ weight[0]) - float(score)))
    return max(apart)


def other_losses() -> dict[str, Any]:
    """Loss of one batch, and the same from scores of conversations alone by the formula in floats."""
    found: dict[str, Any] = {}
    for objective in (
        {"loss": "soft_bt", "k": 3.0}, {"loss": "listwise"}, {"loss": "pointwise", "huber_delta": 0.2}
    ):  # fmt: skip
        given = tiny.inputs(DATASET, "scalar", objective=objective, **WIDE)
        loss, name = given.recipe.loss or "", f"rows-{objective['loss']}"
        rows, processor = pick(given, name)
        model = models.load(given, processor).eval()
        trainer = trainer_of(given, rows, processor, model)
        numbers = [{"unit": 0}, {"unit": 7}]
        with torch.no_grad():
            mine = float(trainer.compute_loss(model, batches.Scored(rows, processor, loss)(numbers)))
        terms = []
        for row in (rows[0], rows[7]):
            scores = alone(model, processor, rows, encode(processor, row, "scalar"))
            terms.append(by_hand(objective, scores, row.target))
        found[loss] = {
            "pair": [mine, sum(terms) / 2], "units": len(rows), "used": rows.facts.used,
            "sizes": [len(rows[unit].replies) for unit in range(len(rows))], "targets": [rows[0].target],
        }  # fmt: skip
    return found


def by_hand(objective: dict[str, Any], scores: list[float], target: float | None) -> float:
    """The loss of one unit, from the words of `recipe/1`."""

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    if objective["loss"] == "listwise":
        return -math.log(math.exp(scores[0]) / sum(map(math.exp, scores)))
    assert target is not None
    if objective["loss"] == "soft_bt":
        wanted, likely = sigmoid(objective["k"] * target), sigmoid(scores[0] - scores[1])
        return -(wanted * math.log(likely) + (1 - wanted) * math.log(1 - likely))
    error, delta = abs(sigmoid(scores[0]) - target), objective["huber_delta"]
    return error**2 / 2 if error <= delta else delta * (error - delta / 2)


def templates() -> dict[str, Any]:
    """What is scored and what is learned under the templates of the real models."""
    found = {}
    base = FOLDER / "templated"
    for name, file, options in (
        ("think", "qwen3_5_think", {}), ("think_off", "qwen3_5_think", {"enable_thinking": False}),
        ("nothink", "qwen3_5_nothink", {}),
    ):  # fmt: skip
        shutil.rmtree(base, ignore_errors=True)
        shutil.copytree(cached.made(), base)
        shutil.copyfile(TEMPLATES / f"{file}.jinja", base / "chat_template.jinja")
        processor = Processor(base, Limits(4096), options)
        rows = Rows(FOLDER / "pairs")
        scored = encode(processor, rows[0], "scalar")[0]
        asked = Rows(FOLDER / "selections")
        batch = batches.Replies(asked, processor)([{"unit": 0}, {"unit": 1}])
        one = encode(processor, asked[0], "selection_arm")[0]
        decode = processor.tokenizer.decode
        found[name] = {
            "scored": decode(list(scored.input_ids[-2:])),
            "prompt": decode(list(one.input_ids[: one.prompt]))[-40:],
            "learned": [decode([int(t) for t in labels if t != batches.IGNORED]) for labels in batch["labels"]],
            "said": [prepared.said(asked[unit].replies[0]) for unit in (0, 1)],
        }
    return found


def ways() -> dict[str, Any]:
    """Ways to come to the same weights, and what lies in them."""

    def given(start: Path | None = None, **trainer: Any) -> Inputs:
        words = {**tiny.TRAINER, "max_steps": 2, "optim": "adamw_torch", "save_strategy": "no", **trainer}
        return tiny.inputs(DATASET, "scalar", start=start, trainer=words, **WIDE)

    plain = given(gradient_checkpointing=False)
    with counted() as kept_forwards:
        first = trained("plain", plain)
    with counted() as spared_forwards:
        spared = trained("spared", given(gradient_checkpointing=True))
    log = [tiny.entries(made) for made in (first, spared)]
    longer = given(max_steps=4, save_strategy="steps", save_steps=100)
    whole = trained("whole", longer)
    told, steps = stopped("halved", longer)

    def note(what: str, done: int, _: int) -> None:
        if what == "training":
            steps.append(done)

    differ = [apart(whole, trained("halved", longer, note)) for _ in range(2)]  # the second time nothing is left to do
    further = trained("further", given(first))
    return {
        "checkpointing": {
            "losses": [[entry["loss"] for entry in part if "loss" in entry] for part in log],
            "norms": [[entry["grad_norm"] for entry in part if "grad_norm" in entry] for part in log],
            "apart": apart(first, spared), "forwards": [len(kept_forwards), len(spared_forwards)],
        },
        "resumed": {"told": told, "steps": steps, "apart": differ},
        "further": {"apart": apart(further, continued(plain)), "moved": apart(further, first)},
        "files": sorted(path.relative_to(first).as_posix() for path in first.rglob("*") if path.is_file()),
        "adapter": orjson.loads((first / "adapter_config.json").read_bytes()),
        "parts": sorted(weights(first)),
    }  # fmt: skip


@contextmanager
def counted() -> Iterator[list[None]]:
    """Grows with each pass through a layer's feed-forward part while gradients are wanted."""
    plain, passes = modeling_qwen3_5.Qwen3_5MLP.forward, list[None]()

    def forward(self: Any, hidden: torch.Tensor) -> Any:
        if self.training and torch.is_grad_enabled():
            passes.append(None)
        return plain(self, hidden)

    with patch.object(modeling_qwen3_5.Qwen3_5MLP, "forward", forward):
        yield passes


def stopped(name: str, given: Inputs) -> tuple[str, list[int]]:
    """A training that is interrupted in its second step."""
    steps = []

    def interrupt(what: str, done: int, _: int) -> None:
        if what == "training":
            steps.append(done)
            if done == 1:
                os.kill(os.getpid(), signal.SIGINT)

    try:
        trained(name, given, interrupt)
    except Stopped as told:
        return str(told), steps
    return "it went on", steps


def continued(given: Inputs) -> Path:
    """Two steps, and two more of a new trainer on the very model in memory."""
    rows, processor = pick(given, "pairs-again")
    model = models.load(given, processor)
    for _ in range(2):
        trainer_of(given, rows, processor, model).train()
    folder = FOLDER / "continued"
    folder.mkdir()
    models.save(model, folder, base=given.base_source)
    return folder


def refused() -> dict[str, str]:
    """What training says no to, and how."""
    words = {**tiny.TRAINER, "save_strategy": "no"}
    other = FOLDER / "other-start"
    shutil.copytree(FOLDER / "plain" / "made", other)
    manifest = orjson.loads((other / "manifest.json").read_bytes())
    manifest["checkpoint"]["processor"]["template_options"] = {"enable_thinking": False}
    (other / "manifest.json").write_bytes(orjson.dumps(manifest))
    cases: dict[str, dict[str, Any]] = {
        "diverged": {"trainer": {**words, "learning_rate": 1e30}},
        "owned": {"trainer": {**words, "output_dir": "/elsewhere"}},
        "unknown": {"trainer": {**words, "learning_speed": 1}},
        "lora owned": {"lora": {"r": 4, "target_modules": "all-linear", "modules_to_save": ["lm_head"]}},
        "lora unknown": {"lora": {"rank": 4}},
        "other base": {"lora": {"r": 4, "target_modules": "all-linear", "init_lora_weights": "pissa"}},
        "no target": {"lora": {"target_modules": ["visual.blocks.0.attn.qkv"]}},
        "no vision": {"lora": {"target_modules": ["q_proj"]}, "vision": "trained"},
        "centred list": {"objective": {"loss": "listwise"}, "trainer": {**words, "center_rewards_coefficient": 0.1}},
        "own split": {"evaluation": {"split": FEW["split"]}},
        "other start": {"start": other},
    }
    found = {}
    for name, changes in cases.items():
        try:
            shutil.copytree(FOLDER / "pairs", FOLDER / "refused" / "rows", dirs_exist_ok=True)
            given = tiny.inputs(DATASET, "scalar", **{**WIDE, **changes})
            made = train(given, works.Work(FOLDER / "refused"), team(), steps=None, progress=lambda *_: None)
            found[name] = f"it trained: {made}"
        except ArmError as error:
            found[name] = "; ".join([error.message, *map(str, error.issues)])
    return found


def vision() -> dict[str, list[str]]:
    """Names of what is trained of the tower and the projector."""
    found = {}
    for choice in ("frozen", "trained"):
        given = tiny.inputs(DATASET, "selection_arm", vision=choice)
        processor = Processor(given.base, given.recipe.limits)
        model = models.load(given, processor)
        named = [name for name, weight in model.named_parameters() if weight.requires_grad]
        found[choice] = [name for name in named if "visual" in name]
        assert any("language_model" in name for name in named)
    return found


def precision() -> list[str]:
    """What is computed in, for each type of the base's weights, when a launcher asks for another."""
    with patch.dict(os.environ, {"ACCELERATE_MIXED_PRECISION": "fp16"}):
        given = [tiny.inputs(DATASET, "scalar", dtype=dtype) for dtype in ("float32", "bfloat16")]
        return [settings.settings(one.recipe, FOLDER / "unused").mixed_precision for one in given]


def main() -> None:
    facts: dict[str, Any] = {"bt": bradley_terry(), "losses": other_losses()}
    selection = tiny.inputs(DATASET, "selection_arm", **FEW)
    facts["selection"] = dataclasses.asdict(pick(selection, "selections")[0].facts)
    facts["templates"] = templates()
    facts["ways"] = ways()
    facts["vision"] = vision()
    facts["refused"] = refused()
    facts["precision"] = precision()
    scores = torch.tensor([1.0, -2.0, 0.5])
    facts["listwise"] = [float(losses.listwise(scores, [2, 1])), math.log1p(math.exp(-3.0)) / 2]
    (FOLDER / "facts.json").write_bytes(orjson.dumps(facts))


if __name__ == "__main__":
    main()
