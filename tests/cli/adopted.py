"""What another tool leaves, adopted as it is typed: ``adopted.py quick|evaluated|published ...``, a process with torch.

The reward model here is made as TRL and LLaMA-Factory make one: a language model with LoRA, a linear layer with a bias
on its last hidden state, trained together; the adapter is saved by peft, the head under ``v_head.summary.*``.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
from action_reward_models.cli import _run
from action_reward_models.inference.processor import Limits, Processor
from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.tests.inference import made

LIMITS = Limits(8192, None, 262144)
REPLIES = ("click(1, 1)", "stop", "type('a long word and more of it')")
EXAMPLES = [
    line.strip()
    for line in str(import_module("action_reward_models.cli.adopt").command.epilog).splitlines()
    if line.strip().startswith("arm ")
]
BARE = "--kind scalar --base base-model --max-tokens 8192 --max-pixels 262144"


class Foreign:
    """A reward model of another tool on ``base``, trained for a few steps."""

    def __init__(self, base: Path, bias: float) -> None:
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForImageTextToText

        torch.manual_seed(3)
        whole = AutoModelForImageTextToText.from_pretrained(base)
        config = LoraConfig(r=4, target_modules="all-linear", exclude_modules=".*visual.*", task_type="CAUSAL_LM")
        self.model: Any = get_peft_model(whole, config)
        self.summary = torch.nn.Linear(whole.config.text_config.hidden_size, 1)
        self.processor = Processor(base, LIMITS)
        torch.nn.init.zeros_(self.summary.bias)
        self._train()
        self.summary.bias.data.fill_(bias)
        self.model.eval()

    def value(self, row: Any) -> Any:
        """As AutoModelForCausalLMWithValueHead computes it: the head on the last hidden state of the last token."""
        out = self.model(**self.processor.batch([row]), output_hidden_states=True)
        return self.summary(out.hidden_states[-1][:, -1])[0, 0]

    def scores(self, rows: list[Any]) -> list[float]:
        import torch

        with torch.inference_mode():
            return [float(self.value(row)) for row in rows]

    def asked(self) -> list[Any]:
        prompt, picture = made.conversation(1), [made.png("red")]
        return [self.processor.scalar(prompt, picture, made.reply(text)) for text in REPLIES]

    def _train(self) -> None:
        import torch

        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.Adam([*weights, *self.summary.parameters()], lr=1e-2)
        better, worse, _ = self.asked()
        for _ in range(3):
            loss = -torch.nn.functional.logsigmoid(self.value(better) - self.value(worse))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def head(self) -> dict[str, Any]:
        held = self.summary.state_dict()
        return {f"v_head.summary.{name}": held[name].clone() for name in ("weight", "bias")}

    def save(self, folder: Path) -> Path:
        """The adapter, as peft writes it."""
        self.model.save_pretrained(str(folder), save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)
        return folder


def said(line: str) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = _run(shlex.split(line)[1:])
    return {"status": status, "out": out.getvalue(), "err": err.getvalue()}


def in_torch(folder: Path) -> None:
    """The adapter in ``folder`` as older tools keep it."""
    import torch
    from safetensors.torch import load_file

    path = folder / "adapter_model.safetensors"
    torch.save(load_file(path), folder / "adapter_model.bin")
    path.unlink()


def quick(base: Path) -> dict[str, Any]:
    import torch
    from safetensors.torch import save_file

    shutil.copytree(base, "base-model")
    foreign = Foreign(Path("base-model"), 0.0)
    save_file(foreign.head(), foreign.save(Path("theirs")) / "value_head.safetensors")
    by_hand = foreign.scores(foreign.asked())
    foreign.summary.bias.data.fill_(0.5)
    torch.save(foreign.head(), "value_head.bin")
    with foreign.model.disable_adapter():
        alone = foreign.scores(foreign.asked())
    old, hostile = Path("old"), Path("hostile")
    for folder in (old, hostile):
        shutil.copytree("theirs", folder)
        in_torch(folder)
        (folder / "value_head.safetensors").unlink()
        torch.save(foreign.head(), folder / "pytorch_model.bin")  # where TRL has the head beside an adapter
    made.hostile(hostile / "adapter_model.bin", Path("ran"))
    typed = {line: said(line) for line in EXAMPLES[:2]}
    others = {
        "biased": f"arm adopt value_head.bin {BARE} --out biased --json",
        "old": f"arm adopt old {BARE} --out from-old --drop-bias --json",
        "hostile": f"arm adopt hostile {BARE} --out never --drop-bias",
    }
    typed |= {name: said(line) for name, line in others.items()}
    scores = {}
    for name in ("adopted", "head", "from-old"):
        model = ScalarRewardModel.open(Path(name), base=Path("base-model"))
        scores[name] = model.score(made.conversation(1), [made.png("red")], [made.reply(text) for text in REPLIES])
    return {
        "typed": list(typed.items()), "scores": scores, "by_hand": by_hand, "alone_with_bias": alone,
        "left": sorted(path.name for path in Path().iterdir()),
        "kept": {name: sorted(path.name for path in Path(name).iterdir()) for name in scores},
    }  # fmt: skip


def evaluated(base: Path, dataset: Path) -> dict[str, Any]:
    """With the prompt of the build: what `arm evaluate` writes of each pair, and what the other tool would say."""
    from action_reward_models.schemas.built import BuiltTables
    from safetensors.torch import save_file

    shutil.copytree(base, "base-model")
    foreign = Foreign(Path("base-model"), 0.0)
    save_file(foreign.head(), foreign.save(Path("theirs")) / "value_head.safetensors")
    prompt = dataset / "prompts" / "scalar-1.json"
    wanted = orjson.loads(prompt.read_bytes())["sha256"]
    lines = [
        f"arm adopt theirs {BARE} --out adopted --prompt {prompt} --prompt-sha256 {wanted} --json",
        f"arm evaluate adopted --dataset {dataset} --base base-model --json",
        "arm evaluate adopted --base base-model",
        f"arm adopt theirs {BARE} --out bare",
        f"arm evaluate bare --dataset {dataset} --base base-model --out unknown",
    ]
    typed = [said(line) for line in lines]
    pictures: dict[str, bytes] = {}
    tables = BuiltTables.of(dataset, lambda *_: None, "reading")
    by_hand = {}
    for row in [row for row in tables.rows("bt_pairs", pictures.__setitem__) if row["split"] == "validation"]:
        shown = [pictures[image] for image in row["images"]]
        pair = [foreign.processor.scalar(row["prompt"], shown, row[side]) for side in ("chosen", "rejected")]
        by_hand[row["pair_id"]] = foreign.scores(pair)
    found = Path("evaluation/adopted-validation/predictions.jsonl").read_text().splitlines()
    return {"typed": typed, "by_hand": by_hand, "predictions": [json.loads(line) for line in found]}


def published(base: Path) -> dict[str, Any]:
    """From a hub, which HF_ENDPOINT names: an adapter beside a pickle of the same, which nobody fetches."""
    from action_reward_models.hub_sync.hub import Hub
    from action_reward_models.inference.selection import SelectionARM

    foreign = Foreign(base, 0.0)
    folder = foreign.save(Path("theirs"))
    made.hostile(folder / "adapter_model.bin", Path("ran"))
    old = foreign.save(Path("old"))
    in_torch(old)
    api = Hub().api
    for repo, path in (("their-name/base", base), ("their-name/adapter", folder), ("their-name/old", old)):
        api.create_repo(repo)
        api.upload_folder(repo_id=repo, folder_path=path)
        api.create_tag(repo, tag="v1.0")
    third = EXAMPLES[2]
    lines = [
        f"{third} --json",
        third.replace("adapter@v1.0", "old@v1.0").replace("--out arm", "--out from-old"),
        third.replace("v1.0", "v9").replace("--out arm", "--out never"),
    ]
    typed = [said(line) for line in lines]
    row = foreign.processor.selection(made.conversation(1), [made.png("red")], "stop")
    likely = [SelectionARM.open(Path(name)).log_likelihood([row])[0] for name in ("arm", "from-old")]
    commits = {name: api.repo_info(f"their-name/{name}").sha for name in ("base", "adapter", "old")}
    manifest = json.loads(Path("arm/manifest.json").read_bytes())
    cached = {
        name: sorted(path.name for path in Path("home").glob(f"**/models--their-name--{name}/snapshots/*/*"))
        for name in ("adapter", "old")
    }
    return {"typed": typed, "likely": likely, "commits": commits, "manifest": manifest, "cached": cached,
            "ran": Path("ran").exists()}  # fmt: skip


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    ways: dict[str, Any] = {"quick": quick, "evaluated": evaluated, "published": published}
    told = ways[sys.argv[1]](*map(Path, sys.argv[2:]))
    sys.stdout.write("\n" + json.dumps(told) + "\n")
