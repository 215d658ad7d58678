"""Figures of a model card, from the manifest's training and evaluations and nothing else: how the loss fell, which
places were picked, whether a predicted probability means anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import model_facts as facts
from .figures import COLOURS, FOLDER, INK, png
from .model_facts import Evaluation, Manifest
from .text import Markdown, number, share, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[["Axes"], None]
_ALT = 400  # characters that say what a figure shows
_MARKS = 60  # entries of a curve that are marked one by one


def figures(manifest: Manifest, folder: Path) -> list[Path]:
    """Write ``assets/*.png`` of a checkpoint's folder; a figure without anything to show is left out. The same manifest
    gives the same bytes. Raises ArmError for names that no checkpoint can have."""
    facts.check(manifest)
    written = []
    for name, (draw, _) in _wanted(manifest).items():
        path = folder / FOLDER / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(draw, 3.2))
        written.append(path)
    return written


def shown(manifest: Manifest) -> dict[str, Markdown]:
    """Name of a figure that lies beside the weights -> the picture for a card, with what it shows in words."""
    files = manifest["environment"]["files"]
    return {
        name: Markdown(f"![{text(said, _ALT)}]({FOLDER}/{name}.png)")
        for name, (_, said) in _wanted(manifest).items()
        if f"{FOLDER}/{name}.png" in files
    }


def _wanted(manifest: Manifest) -> dict[str, tuple[Draw, str]]:
    """Name of each figure with something to show -> how it is drawn, and what it says."""
    found: dict[str, tuple[Draw, str]] = {}
    training = manifest["training"]
    if training and len(training["curve"]) > 1:
        found["loss"] = (_loss(training), _say_loss(training))
    for one in manifest["evaluations"]:
        if sum(one["slots"]):
            found[f"{one['name']}-slots"] = (_slots(one), _say_slots(one))
        if _bins(one):
            found[f"{one['name']}-calibration"] = (_calibration(one), _say_calibration(one))
    return found


def _say_loss(training: Mapping[str, Any]) -> str:
    first, last = training["curve"][0], training["curve"][-1]
    return (
        f"Training loss: {number(first['loss'])} at step {first['step']:,}, {number(last['loss'])} at step "
        f"{last['step']:,}"
    )


def _loss(training: Mapping[str, Any]) -> Draw:
    def draw(axes: Axes) -> None:
        steps = [entry["step"] for entry in training["curve"]]
        losses = [entry["loss"] for entry in training["curve"]]
        axes.plot(steps, losses, color=COLOURS[0], marker="o" if len(steps) <= _MARKS else None, markersize=3)
        axes.set_ylim(min(0, *losses), 1.08 * max(losses) if max(losses) > 0 else None)
        axes.set_xlabel("step of the optimizer")
        axes.set_ylabel("loss")

    return draw


def _say_slots(evaluation: Evaluation) -> str:
    total = sum(evaluation["slots"])
    return f"Share of the picks by place, first to last: {', '.join(share(n, total) for n in evaluation['slots'])}"


def _slots(evaluation: Evaluation) -> Draw:
    picks = evaluation["slots"]

    def draw(axes: Axes) -> None:
        places = range(1, len(picks) + 1)
        axes.bar(places, [100 * n / sum(picks) for n in picks], 0.72, color=COLOURS[0])
        axes.set_xticks(places)
        axes.set_xlabel("place of the picked candidate (1 is the first shown)")
        axes.set_ylabel("picks, %")

    return draw


def _bins(evaluation: Evaluation) -> list[Mapping[str, Any]]:
    """Those that hold a pair."""
    return [one for one in evaluation["calibration"] if None not in (one["predicted"], one["observed"])]


def _say_calibration(evaluation: Evaluation) -> str:
    parts = [
        f"{number(float(one['predicted']))} said, {number(float(one['observed']))} right ({one['n']:,} pairs)"
        for one in _bins(evaluation)
    ]
    return f"Probability of the preferred side, and share of right pairs: {'; '.join(parts)}"


def _calibration(evaluation: Evaluation) -> Draw:
    lines = _bins(evaluation)

    def draw(axes: Axes) -> None:
        low = min(one["low"] for one in lines)
        most = max(one["n"] for one in lines)
        axes.plot([low, 1], [low, 1], color=INK, linewidth=0.8, linestyle=":", label="as predicted")
        axes.plot([one["predicted"] for one in lines], [one["observed"] for one in lines], color=COLOURS[0], zorder=2)
        axes.scatter(
            [one["predicted"] for one in lines], [one["observed"] for one in lines], color=COLOURS[0], zorder=3,
            s=[20 + 80 * one["n"] / most for one in lines], label="measured; the larger, the more pairs",
        )  # fmt: skip
        axes.set_xlabel("probability that the model gives the side that it prefers")
        axes.set_ylabel("share in which it was right")
        axes.set_ylim(0, 1.03)
        axes.legend(frameon=False, labelcolor=INK, loc="lower right")

    return draw
