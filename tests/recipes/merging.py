"""Merges tiny checkpoints in a process with torch, and prints what came of it as JSON: ``FOLDER BASE BLIND``."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import orjson
from action_reward_models.inference.processor import Processor
from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.inference.selection import SelectionARM
from action_reward_models.inference.serve import export
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes import merge as merging
from action_reward_models.recipes import scoring
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.inference import made

_BASE = {"repo": None, "revision": None, "commit": None, "sha256": "0" * 64}
_IDENTITY = manifests.identity(
    {"recipe": 1}, name="arm", namespace="lab", version="1.0.0",
    dataset={"repo": None, "revision": None, "identity_sha256": "1" * 64}, base=_BASE, description="A toy.",
)  # fmt: skip


def checkpoint(folder: Path, base: Path, kind: str, **more: Any) -> dict[str, Any]:
    """``more``: of `made.make`."""
    contract = made.make(folder, base, kind, **more)
    (folder / "manifest.json").unlink()
    manifests.write(folder, manifests.describe(folder, _IDENTITY, checkpoint=contract, training=None))
    return contract


def main(folder: Path, base: Path, blind: Path) -> None:
    """blind: a base that takes no pictures."""
    import torch
    import transformers
    from peft.tuners.tuners_utils import BaseTuner
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    told: dict[str, Any] = {}
    for kind, opened in (("scalar", ScalarRewardModel), ("selection_arm", SelectionARM)):
        adapter, out = folder / kind, folder / f"{kind}-merged"
        checkpoint(adapter, base, kind)
        done = merging.merge(adapter, out, base=base)
        model = opened.open(out)
        rows = merging.conversations(model.processor, kind)
        before = scoring.answers(opened.open(adapter, base=base), rows)
        after = scoring.answers(model, rows)
        auto = {"scalar": "AutoModelForSequenceClassification", "selection_arm": "AutoModelForImageTextToText"}[kind]
        # As somebody does who only knows transformers: no class of ours.
        stock, loading = getattr(transformers, auto).from_pretrained(out, output_loading_info=True)
        told[kind] = {
            "done": {key: getattr(done, key) for key in ("architecture", "changed", "same", "conversations", "shards")},
            "unchanged": list(done.unchanged_modules), "apart": done.max_difference,
            "recomputed": max(abs(one - other) for one, other in zip(before, after, strict=True)),
            "spread": max(before) - min(before),
            "missing": sorted(loading["missing_keys"]), "unexpected": sorted(loading["unexpected_keys"]),
            "files": sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()),
            "config": json.loads((out / "config.json").read_bytes()),
            "manifest": json.loads((out / "manifest.json").read_bytes()),
            "weights": sorted(name for path in out.glob("*.safetensors") for name in load_file(path)),
        }  # fmt: skip
        if kind == "scalar":
            row = rows[-1]
            batch = Processor(out, made.LIMITS).batch([row])
            stock.eval()
            told[kind]["problems"] = export.problems(out)
            with torch.inference_mode():
                told[kind]["stock"] = abs(float(stock(**batch).logits[0, 0]) - after[-1])

    def refused(name: str, change: Any) -> None:
        """What merging says to the scalar checkpoint after ``change`` of its weights or files."""
        other = folder / name
        checkpoint(other, base, "scalar")
        change(other)
        try:
            merging.merge(other, folder / f"{name}-merged", base=base)
            told[name] = None
        except ArmError as error:
            told[name] = error.message
        told[f"{name} left"] = sorted(path.name for path in folder.glob(f"*{name}-*"))

    def idle(other: Path) -> None:
        weights = load_file(other / "adapter_model.safetensors")
        save_file({k: v * 0 if "lora_B" in k else v for k, v in weights.items()}, other / "adapter_model.safetensors")

    def twice(other: Path) -> None:
        """A merge whose result is not what the adapter gives: the weights are added twice."""
        real = scoring.opened

        def loaded(folder: Path, base: Path | None, checkpoint: Any, device: str | None = None) -> Any:
            model = real(folder, base, checkpoint, device)
            if folder == other:
                return model
            with torch.no_grad():
                model.model.model.language_model.layers[0].mlp.down_proj.weight.mul_(1.5)
            return model

        scoring.opened = loaded

    refused("idle", idle)
    refused("again", lambda other: (other / "manifest.json").write_bytes(
        orjson.dumps({**(found := json.loads((other / "manifest.json").read_bytes())),
                      "checkpoint": {**found["checkpoint"], "layout": "merged"}})
    ))  # fmt: skip
    real = scoring.opened
    refused("apart", twice)
    scoring.opened = real
    merge_and_unload = BaseTuner.merge_and_unload

    def spills(tuner: Any, *rest: Any, **more: Any) -> Any:
        """A merge that touches what LoRA does not name."""
        model = merge_and_unload(tuner, *rest, **more)
        with torch.no_grad():
            model.model.language_model.norm.weight.add_(1e-6)
        return model

    BaseTuner.merge_and_unload = spills
    refused("elsewhere", lambda _: None)
    BaseTuner.merge_and_unload = merge_and_unload
    told["example"] = _example(folder, base)
    told["blind"] = _blind(folder / "blind", blind)
    print(json.dumps(told))


def _example(folder: Path, base: Path) -> dict[str, Any]:
    """The verb's own example, with a base in a folder; what it prints with --json."""
    from action_reward_models.cli.merge import command
    from click.testing import CliRunner

    (folder / "build").mkdir()
    (folder / "selection_arm").rename(folder / "build" / "my-arm")
    os.chdir(folder)
    (line,) = [line for line in str(command.epilog).splitlines() if line.strip().startswith("arm merge")]
    found = CliRunner().invoke(command, [*shlex.split(line)[2:], "--base", str(base), "--json"])
    assert found.exit_code == 0, found.output
    said: dict[str, Any] = json.loads(found.stdout)
    return said


def _blind(folder: Path, base: Path) -> dict[str, Any]:
    """What vLLM reads of a scalar model that takes no pictures."""
    folder.mkdir()
    checkpoint(folder / "adapter", base, "scalar")
    out = merging.merge(folder / "adapter", folder / "merged", base=base).folder
    config = json.loads((out / "config.json").read_bytes())
    return {"architectures": config["architectures"], "problems": export.problems(out)}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
