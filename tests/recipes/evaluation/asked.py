"""Evaluations in a process with torch, and `arm evaluate` as it is typed: ``asked.py FOLDER BASE DATASET``."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from action_reward_models.cli import _run
from action_reward_models.inference.processor import Limits
from action_reward_models.inference.scalar import ScalarRewardModel
from action_reward_models.inference.selection import SelectionARM
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes.evaluation import evaluate
from action_reward_models.recipes.evaluation.items import trained_groups
from action_reward_models.recipes.evaluation.predictions import read
from action_reward_models.recipes.recipe import Evaluation
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.tests.inference import made
from action_reward_models.tests.recipes.evaluation import tiny_checkpoints

SOURCE = {"repo": None, "revision": None, "commit": None}
HOW = Evaluation("validation", 3)


def main(work: Path, base: Path, dataset: Path) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    asked = _Asked(work, base, dataset)
    typed = _typed(work / "typed", base, dataset)
    return {
        "typed": typed,
        "report": (work / "typed" / "evaluation" / "elsewhere-validation" / "report.json").read_text(),
        "selection_arm": asked.selection(),
        "scalar": asked.scalar(),
        "interrupted": asked.interrupted(),
        "nothing_learned": asked.nothing_learned(),
        "short": asked.short(),
        "few": asked.few(),
        "refused": asked.refused(),
    }


class _Asked:
    def __init__(self, work: Path, base: Path, dataset: Path) -> None:
        self.work, self.base, self.dataset = work, base, dataset
        self.tables = BuiltTables.of(dataset, lambda *_: None, "reading")
        self.pictures: dict[str, bytes] = {}
        self.rows = {
            table: [row for row in self.tables.rows(table, self.pictures.__setitem__) if row["split"] == "validation"]
            for table in ("selection_sft", "bt_pairs")
        }

    def made(self, kind: str, limits: Limits = made.LIMITS) -> Any:
        folder = self.work / f"{kind}-{limits.max_tokens}"
        contract = tiny_checkpoints.make(folder, self.base, kind, self.dataset, limits)
        opened = SelectionARM if kind == "selection_arm" else ScalarRewardModel
        return opened.open(folder, base=self.base, contract=contract)

    def entry(self, model: Any, name: str, how: Evaluation = HOW, **more: Any) -> dict[str, Any]:
        return evaluate(model, self.dataset, how, out=self.work / name, name=name, source=SOURCE, **more)

    def selection(self) -> dict[str, Any]:
        self.arm = self.made("selection_arm")
        entry = self.entry(self.arm, "selection")
        # What the model says to the very rows that it would be trained on.
        said = {}
        for row in self.rows["selection_sft"]:
            reply = self.arm.ask(row["prompt"], [self.pictures[image] for image in row["images"]], len(row["order"]))
            said[row["set_id"]] = None if reply.selected is None else row["order"][reply.selected - 1]
        orders = {row["set_id"]: row["order"] for row in self.rows["selection_sft"]}
        return {"entry": entry, "rows": read(self.work / "selection"), "said": said, "orders": orders}

    def scalar(self) -> dict[str, Any]:
        self.model = self.made("scalar")
        entry = self.entry(self.model, "scalar")
        scores = {}
        for row in self.rows["bt_pairs"]:
            images = [self.pictures[image] for image in row["images"]]
            found = self.model.score(row["prompt"], images, [row["chosen"], row["rejected"]])
            scores[row["pair_id"]] = [*found, row["set_id"], row["chosen_index"], row["rejected_index"]]
        return {"entry": entry, "rows": read(self.work / "scalar"), "scores": scores}

    def interrupted(self) -> dict[str, Any]:
        """Stopped after three states, with half a line in the file; then run again."""
        out, score = self.work / "interrupted", self.model.score_sets
        asked: list[int] = []

        def stops(rows: Any) -> Any:
            if len(asked) == 3:
                raise KeyboardInterrupt
            asked.append(len(rows))
            return score(rows)

        self.model.score_sets = stops
        with contextlib.suppress(KeyboardInterrupt):
            self.entry(self.model, "interrupted")
        before = (out / "predictions.jsonl").read_bytes()
        (out / "predictions.jsonl").write_bytes(before + before[:200])
        again: list[int] = []

        def counts(rows: Any) -> Any:
            again.append(len(rows))
            return score(rows)

        self.model.score_sets = counts
        entry = self.entry(self.model, "interrupted")
        once = len(again)
        repeated = self.entry(self.model, "interrupted")
        self.model.score_sets = score
        return {
            "first": len(asked), "then": once, "finished": len(again) - once, "same": repeated == entry,
            "entry": entry, "rows": read(out), "files": sorted(path.name for path in out.iterdir()),
        }  # fmt: skip

    def nothing_learned(self) -> dict[str, Any]:
        """A head of zeros scores everything alike."""
        weight = self.model.model.get_base_model().score.modules_to_save["default"].weight
        kept = weight.data.clone()
        weight.data.zero_()
        entry = self.entry(self.model, "nothing")
        weight.data.copy_(kept)
        return entry

    def short(self) -> dict[str, Any]:
        """Models that take fewer tokens than some of the conversations have."""
        lengths = sorted(len(self.chosen(row).input_ids) for row in self.rows["bt_pairs"])
        middle = self.made("scalar", Limits(lengths[len(lengths) // 2], made.LIMITS.min_pixels, made.LIMITS.max_pixels))
        few = self.made("selection_arm", Limits(64, made.LIMITS.min_pixels, made.LIMITS.max_pixels))
        return {"scalar": self.entry(middle, "short"), "selection_arm": self.entry(few, "short-arm")}

    def chosen(self, row: dict[str, Any]) -> Any:
        return self.model.processor.scalar(row["prompt"], [self.pictures[i] for i in row["images"]], row["chosen"])

    def few(self) -> dict[str, Any]:
        held = sorted(trained_groups(self.dataset, "validation"))
        return {
            "arm": self.entry(self.arm, "few", Evaluation("validation", 1, 3)),
            "scalar": self.entry(self.model, "few-scored", Evaluation("validation", 1, 3)),
            "trained": self.entry(self.arm, "unseen", trained=held[:1]),
            "before": self.entry(self.arm, "unseen-before", Evaluation("validation", 1, 3), before=held[:1]),
        }

    def refused(self) -> dict[str, str]:
        def told(action: Any) -> str:
            try:
                action()
            except ArmError as error:
                return str(error)
            return "not refused"

        other = shutil.copytree(self.work / "scalar-2048", self.work / "other")
        contract = {**self.model.contract, "prompt": self.arm.contract["prompt"]}
        shutil.copy(self.work / "selection_arm-2048" / "prompts" / "selection-1.json", other / "prompts")
        wrong = ScalarRewardModel.open(other, base=self.base, contract=contract)
        held, seen = (trained_groups(self.dataset, split) for split in ("validation", "train"))
        return {
            "all_trained": told(lambda: self.entry(self.arm, "none", trained=held)),
            "own_split": told(lambda: self.entry(self.arm, "own", Evaluation("train"), trained=seen)),
            "other_orders": told(lambda: self.entry(self.arm, "selection", Evaluation("validation", 2))),
            "other_model": told(lambda: self.entry(self.model, "selection")),
            "full": told(lambda: self.entry(self.arm, "selection_arm-2048")),
            "other_kind": told(lambda: self.entry(wrong, "wrong")),
        }  # fmt: skip


def _typed(work: Path, base: Path, dataset: Path) -> dict[str, Any]:
    """The examples of the verb's help, in a folder with a build and two checkpoints that need no other base."""
    shutil.copytree(dataset, work / "build" / dataset.name)
    held = manifest_of(dataset)
    here = {"repo": None, "revision": None, "identity_sha256": held["identity_sha256"]}
    whole(work / "build" / "my-arm", base, dataset, here)
    shutil.copytree(work / "build" / "my-arm", work / "build" / "elsewhere")
    _named(work / "build" / "elsewhere", {**here, "identity_sha256": "7" * 64})
    os.chdir(work)
    epilog = import_module("action_reward_models.cli.evaluate").command.epilog
    lines = [line.strip() for line in epilog.splitlines() if line.strip().startswith("arm ")]
    lines += [
        "arm evaluate build/elsewhere --dataset build/action-reward-models-data --json",
        "arm evaluate build/my-arm --max-items 2 --out beside --json",
        "arm evaluate build/elsewhere",
        "arm evaluate build/my-arm --dataset build/action-reward-models-data --out build/my-arm/evaluation/more",
        "arm evaluate build/action-reward-models-data",
        "arm evaluate build/my-arm --against build/elsewhere --out both",
        "arm evaluate nobody",
    ]
    return {line: said(line) for line in lines}


def whole(folder: Path, base: Path, dataset: Path, trained_on: dict[str, Any]) -> None:
    """The base model as a merged checkpoint; ``trained_on`` as `model_manifest/1` has it at identity.dataset."""
    shutil.copytree(base, folder)
    adapter = folder.with_name(f"{folder.name}-adapter")
    contract = tiny_checkpoints.make(adapter, base, "selection_arm", dataset)
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (adapter / name).is_file():
            shutil.copy(adapter / name, folder)
    shutil.copytree(adapter / "prompts", folder / "prompts")
    shutil.rmtree(adapter)
    _named(folder, trained_on, {**contract, "layout": "merged"})


def _named(folder: Path, trained_on: dict[str, Any], contract: dict[str, Any] | None = None) -> None:
    """Write the manifest of ``folder``, whose name it has; ``contract``: that of the manifest that is there."""
    contract = contract or manifests.manifest_of(folder)["checkpoint"]
    made_of = manifests.identity(
        {"recipe": 1}, name=folder.name, namespace="lab", version="1.0.0", dataset=trained_on,
        base={**manifests.FOLDER, "sha256": "0" * 64},
    )  # fmt: skip
    manifests.write(folder, manifests.describe(folder, made_of, checkpoint=contract, training=None))


def said(line: str) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = _run(shlex.split(line)[1:])
    return {"status": status, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    told = main(*map(Path, sys.argv[1:4]))
    sys.stdout.write("\n" + json.dumps(told) + "\n")
