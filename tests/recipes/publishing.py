"""The tiny twins from a dataset on a Hub to checkpoints there and back, told as JSON: ``publishing.py FOLDER BASE``.

``HF_ENDPOINT`` and ``HF_TOKEN`` name the Hub. Each step is a process of its own, forked from this one, which has
imported what takes long and has computed nothing; so are those that the steps start themselves.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson

ROOT = Path(__file__).parents[2]
TWINS = {"scalar": "tiny-scalar", "selection_arm": "tiny-arm"}
NAMESPACE = "your-name"  # that of the example and of the shipped recipes
_MODELS = """models:
  - {name: tiny-scalar, version: "1.0.0", recipe: scalar_bt_lora.yaml, license: mit, description: A toy.}
  - {name: tiny-arm, version: "1.0.0", recipe: selection_arm_lora.yaml, license: mit, description: A toy.}
"""
_FURTHER = (
    '  - {name: tiny-further, version: "1.0.0", recipe: scalar_bt_further.yaml, license: mit, description: A toy.}\n'
)
# Of the shipped recipes: what takes their time and shows nothing more here.
_LESS = (
    (r"max_steps: \d", "max_steps: 2"), ("gradient_accumulation_steps: 2", "gradient_accumulation_steps: 1"),
    (r"save_steps: \d", "save_steps: 2"), (r"split: validation(, orders: 2)?}", r"split: validation\1, max_items: 3}"),
)  # fmt: skip
ROWS = 3  # pairs that are scored after download


def main(folder: Path, base: Path) -> None:
    import torch

    torch.set_num_threads(1)
    for name in ("peft", "transformers", "trl", "trl.trainer.reward_trainer", "trl.trainer.sft_trainer"):
        importlib.import_module(name)
    for name in ("recipes.run", "recipes.probe", "recipes.evaluation", "registry", "registry.plan", "registry.apply"):
        importlib.import_module(f"action_reward_models.{name}")
    told: dict[str, Any] = {"prepared": child(prepare, folder, base)}
    for kind, name in TWINS.items():
        told[f"trained {kind}"] = child(train, folder, name)
    told["published"] = child(publish, folder, list(TWINS.values()))
    told["again"] = child(publish, folder, list(TWINS.values()))
    told |= {kind: child(loaded, folder, kind, name) for kind, name in TWINS.items()}
    told |= {f"served {kind}": child(served, folder, kind, name) for kind, name in TWINS.items()}
    told["readme"] = child(readme)
    told["tampered"] = child(tampered, folder)
    told["trained further"] = child(go_on, folder)
    told["further"] = child(publish, folder, ["tiny-further"])
    told["resumed"] = child(resumed, folder)
    print(json.dumps(told))


# -- the steps --------------------------------------------------------------------------------------------------------


def prepare(folder: Path, base: Path) -> Any:
    """The example's registry with both twins, its dataset and the tiny base published."""
    from action_reward_models.registry import Registry

    shutil.copytree(ROOT / "examples" / "miniwob", folder, ignore=shutil.ignore_patterns("build"), dirs_exist_ok=True)
    text = (folder / "registry.yaml").read_text("utf-8").partition("models:")[0]
    (folder / "registry.yaml").write_text(text + _MODELS, "utf-8")
    for name in ("scalar_bt_lora.yaml", "selection_arm_lora.yaml"):
        shipped(name, folder)
    registry = Registry.load(folder)
    api = registry.hub.api
    api.create_repo(f"{NAMESPACE}/tiny-base", repo_type="model")
    commit = api.upload_folder(folder_path=base, repo_id=f"{NAMESPACE}/tiny-base", ignore_patterns=[".*"]).oid
    registry.lock()
    registry.apply(registry.plan(names=[registry.datasets[0].name], workers=1))
    return {"base": commit}


def shipped(name: str, folder: Path) -> None:
    """Copy a tiny recipe, with fewer steps of fewer rows and a small evaluation."""
    text = (ROOT / "recipes" / "tiny" / name).read_text("utf-8")
    for old, new in _LESS:
        text, count = re.subn(old, new, text)
        assert count == 1, old
    (folder / name).write_text(text, "utf-8")


def train(folder: Path, name: str) -> Any:
    from action_reward_models.registry import Registry

    node = Registry.load(folder).model(name)
    why = node.reasons()
    made = node.build()
    assert made is not None
    return {
        "why": why, "stale": node.reasons(), "reload": made["training"]["reload"],
        "left": sorted(path.name for path in node.folder.parent.glob(".*training*")),
    }  # fmt: skip


def publish(folder: Path, names: list[str]) -> Any:
    from action_reward_models.registry import Registry

    registry = Registry.load(folder)
    plan = registry.plan(names=names)
    done = registry.apply(plan)
    return {
        "statuses": [step.status for step in plan.steps],
        "done": [{"commit": one.commit, "committed": one.committed, "tagged": one.tagged, "scored": one.scored}
                 for one in done],
    }  # fmt: skip


def loaded(folder: Path, kind: str, name: str) -> Any:
    """Scores of rows of the dataset: as trained, and in every way in which the published checkpoint is loaded."""
    import peft
    import torch
    import transformers
    from action_reward_models.inference.scalar import ScalarRewardModel
    from action_reward_models.inference.selection import SelectionARM
    from action_reward_models.recipes.manifest import manifest_of
    from action_reward_models.recipes.merge import merge
    from action_reward_models.recipes.scoring import answers
    from action_reward_models.registry import Registry

    repo = f"{NAMESPACE}/{name}"
    node = Registry.load(folder).model(name)
    base = manifest_of(node.folder)["checkpoint"]["base"]
    ours: Any = ScalarRewardModel if kind == "scalar" else SelectionARM
    local = ours.open(node.folder, base=node.inputs().base)
    rows = _rows(folder, local.processor, kind)
    found = {"local": answers(local, rows)}
    there = ours.from_pretrained(repo, revision="v1.0.0")
    found["ours"] = answers(there, rows)
    if kind == "scalar":
        auto: Any = transformers.AutoModelForSequenceClassification

        def logits(model: Any) -> list[float]:
            model.eval().config.get_text_config().pad_token_id = there.processor.pad_token_id
            with torch.inference_mode():
                return [float(model(**there.processor.batch([row])).logits[0, 0]) for row in rows]

        words = {"num_labels": 1, "dtype": torch.float32}
        below = auto.from_pretrained(base["repo"], revision=base["commit"], **words)
        found["peft"] = logits(peft.PeftModel.from_pretrained(below, repo, revision="v1.0.0"))
        merged = folder / "merged"
        merge(node.folder, merged, base=node.inputs().base)
        found["merged"] = answers(ours.open(merged), rows)
        found["AutoModelForSequenceClassification"] = logits(auto.from_pretrained(merged))
    return {"scores": found, "spread": max(found["local"]) - min(found["local"])}


def served(folder: Path, kind: str, name: str) -> Any:
    """The published rows as training fed them, and as the published checkpoint is fed when it is asked the same."""
    from action_reward_models.inference.scalar import ScalarRewardModel
    from action_reward_models.inference.selection import SelectionARM
    from action_reward_models.registry import Registry
    from action_reward_models.tests.recipes import serving

    ours: Any = ScalarRewardModel if kind == "scalar" else SelectionARM
    model = ours.from_pretrained(f"{NAMESPACE}/{name}", revision="v1.0.0")
    return serving.compared(model, Registry.load(folder).model(name).inputs(), folder / f"rows of {name}")


def readme() -> Any:
    from action_reward_models.tests.inference.made import png
    from action_reward_models.tests.recipes import serving

    return serving.readme(png("white"))


def tampered(folder: Path) -> Any:
    """What is said of a checkpoint that came back with one other weight."""
    from action_reward_models.recipes import probe
    from action_reward_models.recipes.manifest import manifest_of
    from action_reward_models.registry import Registry
    from action_reward_models.schemas.errors import ArmError
    from safetensors.torch import load_file, save_file

    node = Registry.load(folder).model("tiny-arm")
    other = Path(shutil.copytree(node.folder, folder / "tampered"))
    weights = load_file(other / "adapter_model.safetensors")
    name = max(name for name in weights if "lora_B" in name)
    weights[name][0] += 1.0
    save_file(weights, other / "adapter_model.safetensors")
    try:
        probe.compare(
            [other, node.folder], base=node.inputs().base, checkpoint=manifest_of(node.folder)["checkpoint"], where="x"
        )
    except ArmError as error:
        return error.message
    return None


def go_on(folder: Path) -> Any:
    """Train the published scalar checkpoint further, as the shipped recipe of it says."""
    shipped("scalar_bt_further.yaml", folder)
    with (folder / "registry.yaml").open("a") as file:
        file.write(_FURTHER)
    from action_reward_models.registry import Registry

    Registry.load(folder).lock()
    return train(folder, "tiny-further")


def resumed(folder: Path) -> Any:
    """Stock PEFT goes on with the published checkpoint: its weights can be trained, and one step changes them."""
    import peft
    import torch
    import transformers
    from action_reward_models.recipes.manifest import manifest_of
    from action_reward_models.registry import Registry

    base = manifest_of(Registry.load(folder).model("tiny-scalar").folder)["checkpoint"]["base"]
    below = transformers.AutoModelForSequenceClassification.from_pretrained(
        base["repo"], revision=base["commit"], num_labels=1, dtype=torch.float32
    )
    model: Any = peft.PeftModel.from_pretrained(
        below, f"{NAMESPACE}/tiny-scalar", revision="v1.0.0", is_trainable=True
    )  # fmt: skip
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    before = {name: value.detach().clone() for name, value in trained.items()}
    optimizer = torch.optim.SGD(trained.values(), lr=1.0)
    ids = torch.arange(8)[None]
    model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.sum().backward()
    optimizer.step()
    changed = [name for name, value in trained.items() if not torch.equal(value, before[name])]
    return {"trained": len(trained), "head": any("score" in name for name in changed), "lora": len(changed)}


def _rows(folder: Path, processor: Any, kind: str) -> list[Any]:
    """Conversations of the dataset that it was trained on, both sides of each pair."""
    from action_reward_models.schemas.built import BuiltTables

    pictures: dict[str, bytes] = {}
    tables = BuiltTables.of(folder / "build" / "action-reward-models-data", lambda *_: None, "reading")
    table, made = {"scalar": "bt_pairs", "selection_arm": "selection_sft"}[kind], []
    for row in tables.rows(table, pictures.__setitem__):
        images = [pictures[reference] for reference in row["images"]]
        if kind == "scalar":
            made += [processor.scalar(row["prompt"], images, row[side]) for side in ("chosen", "rejected")]
        else:
            made.append(processor.selection(row["prompt"], images, _text(row["completion"])))
        if len(made) >= 2 * ROWS:
            break
    return made


def _text(completion: Any) -> str:
    content = completion[0]["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


# -- processes --------------------------------------------------------------------------------------------------------


def child(step: Callable[..., Any], *given: Any) -> Any:
    """What ``step`` returns, in a process of its own."""
    with tempfile.TemporaryFile() as out:
        pid = os.fork()
        if not pid:
            status = 1
            try:
                with redirect_stdout(sys.stderr):
                    _start_by_forking()
                    said = step(*given)
                out.write(orjson.dumps(said))
                out.flush()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            sys.exit(f"{step.__name__} failed")
        out.seek(0)
        return orjson.loads(out.read())


def _start_by_forking() -> None:
    """``python -m MODULE`` of our own, as steps start it, becomes a fork."""
    from action_reward_models.recipes import scoring

    vars(scoring)["subprocess"] = SimpleNamespace(run=_run)


def _run(command: list[str], *, input: bytes, env: dict[str, str], capture_output: bool, check: bool) -> Any:
    module = importlib.import_module(command[command.index("-m") + 1])
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(input)
        given.seek(0)
        pid = os.fork()
        if not pid:
            status = 1
            try:
                for number, stream in enumerate((given, out, err)):
                    os.dup2(stream.fileno(), number)
                os.environ.update(env)
                sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
                module.main()
                sys.stdout.flush()
                status = 0
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return SimpleNamespace(returncode=status, stdout=out.read(), stderr=err.read())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
