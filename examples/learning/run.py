"""Whether anything is learned: a toy base, a selection ARM and a reward model, and both of them with nothing to learn.

    python examples/learning/run.py

Everything goes to build/ beside this file; the figures to build/report.json. Exits with 1 when a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from action_reward_models.examples.learning import base, scenes
from action_reward_models.recipes.evaluation.run import evaluate
from action_reward_models.recipes.recipe import Evaluation
from action_reward_models.recipes.scoring import opened
from action_reward_models.registry import Registry
from action_reward_models.registry.alone import of_recipe

HERE = Path(__file__).parent
PAGES, SEED = 2000, 1
CHANCE = 1 / scenes.BUTTONS
RARE = 0.001  # six results are compared with chance; of 160 machines, one would find one of them beside it
KINDS = ("selection_arm", "scalar_bt")
BASELINES = ("uniform", "first", "most_common", "word_overlap")
# Variant -> (which data it learned from, which data it is asked about).
VARIANTS = {
    "": ("lit-button", "lit-button"),
    "_blank": ("lit-button-blank", "lit-button-blank"),
    "_random": ("lit-button-random", "lit-button"),
}


def main() -> None:
    given = argparse.ArgumentParser(description="Train and measure everything in this folder.")
    given.add_argument("--folder", type=Path, default=HERE, help="where to work; by default beside this file")
    given.add_argument("--base", type=Path, help="a base that base.py made; by default one is made")
    said = given.parse_args()
    report = learn(said.folder.resolve(), said.base)
    print(table(report))
    sys.exit(0 if all(claim["holds"] for claim in report["claims"]) else 1)


def learn(folder: Path, ready_base: Path | None = None) -> dict[str, Any]:
    """Do all of it in ``folder`` and return what ``build/report.json`` says. ``ready_base``: copied, not made."""
    import torch

    torch.set_num_threads(1)  # with so small a model a second one mostly waits
    build = folder / "build"
    seconds: dict[str, float] = {}
    clock = _Clock(seconds)
    if folder != HERE:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (*HERE.glob("*.yaml"), HERE / "prompts"):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    for name in ("base", "data"):
        shutil.rmtree(build / name, ignore_errors=True)
    with clock("data"):
        scenes.write(build / "data", PAGES, SEED)
        registry = Registry.load(folder / "registry.yaml")
        for spec in registry.order():
            registry.build(spec.name, workers=1)
    with clock("base"):
        if ready_base is not None:
            shutil.copytree(ready_base, build / "base")
        else:
            unseen = {scene.task for scene in scenes.scenes(PAGES, SEED)}
            base.make(build / "base", base.Size(), 0, unseen, _tell)
    asked: list[dict[str, Any]] = []
    for kind in KINDS:
        for variant, (learned_from, asked_about) in VARIANTS.items():
            name = f"{kind}{variant}"
            with clock(name):
                found, names = of_recipe(folder / f"{name}.yaml")
                node = found.model(names[0])
                manifest = node.build(restart=True, progress=lambda *_: None)
                assert manifest is not None
                made = {"learned_from": learned_from, "asked_about": asked_about, **_training(manifest)}
                if manifest["evaluations"]:
                    (entry,) = manifest["evaluations"]
                else:
                    entry = _ask(node.folder, manifest, build, asked_about)
                asked.append({"model": name, **made, **_agreement(entry)})
                _tell(f"{name}: {asked[-1]['value']:.3f}")
                if not variant:
                    with clock(f"{name} on white pages"):
                        entry = _ask(node.folder, manifest, build, "lit-button-blank")
                    white = {"learned_from": learned_from, "asked_about": "lit-button-blank", **_training(manifest)}
                    asked.append({"model": name, **white, **_agreement(entry)})
    report = {"chance": CHANCE, "seconds": seconds, "results": asked, "claims": claims(asked)}
    (build / "report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return report


def claims(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who can learn beats every baseline: the 95 % interval of the difference lies above 0. Who sees nothing, or
    learned from nothing, is at chance: guesses are as far from it with probability p, which is not below RARE."""
    found = []
    for result in asked:
        about = {key: result[key] for key in ("model", "learned_from", "asked_about")}
        if result["learned_from"] == result["asked_about"] == "lit-button":
            holds = all(result["differences"][name]["low"] > 0 for name in BASELINES)
            found.append({**about, "claim": "beats every baseline", "holds": holds})
        else:
            p = guessing(round(result["value"] * result["n"]), result["n"])
            found.append({**about, "claim": "is at chance", "p": p, "holds": p >= RARE})
    return found


def guessing(right: int, count: int) -> float:
    """Two-sided exact p of ``right`` of ``count`` by guessing: of all numbers that are no likelier than this one."""
    chances = [math.comb(count, k) * CHANCE**k * (1 - CHANCE) ** (count - k) for k in range(count + 1)]
    return min(1.0, sum(one for one in chances if one <= chances[right] * (1 + 1e-9)))


def table(report: Mapping[str, Any]) -> str:
    """The results for a person."""
    lines = [f"{'model':24} {'asked about':18} {'agreement':9} {'95 % interval':16} difference to the best baseline"]
    for result in report["results"]:
        name, best = max(result["differences"].items(), key=lambda item: -item[1]["value"])
        lines.append(
            f"{result['model']:24} {result['asked_about']:18} {result['value']:9.3f} "
            f"{result['low']:.3f} to {result['high']:.3f}   "
            f"{best['value']:+.3f} ({best['low']:+.3f} to {best['high']:+.3f}; {name})"
        )
    lines += [f"{claim['model']} on {claim['asked_about']} {claim['claim']}: {'yes' if claim['holds'] else 'NO'}"
              for claim in report["claims"]]  # fmt: skip
    lines.append("CPU seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in report["seconds"].items()))
    return "\n".join(lines)


def _ask(checkpoint: Path, manifest: Mapping[str, Any], build: Path, about: str) -> dict[str, Any]:
    """Figures on the held-out tasks of a dataset that the checkpoint was not trained on."""
    out = build / "asked" / f"{checkpoint.name}-{about}"
    shutil.rmtree(out, ignore_errors=True)
    model = opened(checkpoint, build / "base", manifest["checkpoint"])
    nowhere = {"repo": None, "revision": None, "commit": None}
    return evaluate(model, build / about, Evaluation("validation"), out=out, name=out.name, source=nowhere)


def _agreement(entry: Mapping[str, Any]) -> dict[str, Any]:
    (report,) = (report for report in entry["reports"] if report["metric"] == "exact_agreement")
    return {
        "n": report["n"], "n_valid": report["n_valid"], "value": report["value"],
        "low": report["interval_low"], "high": report["interval_high"],
        "differences": {
            one["baseline"]: {key: one[key] for key in ("value", "low", "high")} for one in report["differences"]
        },
    }  # fmt: skip


def _training(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {key: manifest["training"][key] for key in ("used", "steps", "loss_first", "loss_last")}


class _Clock:
    """Process seconds of a part, those of its child processes included."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds, self._running = seconds, []  # type: ignore[var-annotated]

    def __call__(self, name: str) -> _Clock:
        self._running.append((name, _spent()))
        return self

    def __enter__(self) -> None:
        _tell(f"{self._running[-1][0]} ...")

    def __exit__(self, *_: object) -> None:
        name, began = self._running.pop()
        self._seconds[name] = round(_spent() - began, 1)


def _spent() -> float:
    return sum(os.times()[:4])


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
