"""The learning example: text alone tells nothing, and what it claims to learn it learns."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.examples.learning import run, scenes
from action_reward_models.recipes import recipe
from action_reward_models.recipes.evaluation.baselines import words
from action_reward_models.schemas.actions import parse
from action_reward_models.tests.tiny_vlm import cached
from PIL import Image

FOLDER = Path(__file__).parents[2] / "examples" / "learning"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_text_alone_does_not_tell_the_right_action() -> None:
    made = list(scenes.scenes(4000, 3))
    assert len({scene.task for scene in made}) == len(made), "each task is a group of its own"
    named = {word.encode() for word in scenes.COLOURS}
    assert not any(named & set(words(scene.task)) for scene in made)
    slots, colours = Counter(scene.right_index for scene in made), Counter(scene.lit for scene in made)
    # 4 standard deviations of a count: 4 * sqrt(4000 * 0.2 * 0.8), 4 * sqrt(4000 / 8 * 7 / 8)
    assert all(abs(slots[slot] - 800) < 101 for slot in range(5)), slots
    assert all(abs(colours[colour] - 500) < 84 for colour in scenes.COLOURS), colours
    by_colour = Counter((scene.lit, colour) for scene in made for colour in scene.candidates)
    assert all(by_colour[lit, lit] == colours[lit] for lit in scenes.COLOURS)
    assert all(scene.lit in scene.candidates and len(set(scene.candidates)) == 5 for scene in made)


def test_a_page_shows_one_lit_button_and_a_white_one_nothing() -> None:
    for scene in scenes.scenes(50, 4):
        shown = Image.open(io.BytesIO(scenes.picture(scene))).convert("RGB")
        data = shown.tobytes()
        grey = [len(set(data[at : at + 3])) == 1 for at in range(0, len(data), 3)]
        places = [divmod(at, scenes.SIDE) for at, same in enumerate(grey) if not same]
        lit = {y // scenes.CELL * scenes.GRID + x // scenes.CELL for y, x in places}
        assert lit == {scene.cells[0]}, scene
    white = Image.open(io.BytesIO(scenes.picture(None))).convert("RGB")
    assert white.getcolors() == [(scenes.SIDE**2, (255, 255, 255))]


def test_variants_differ_in_what_they_are_for(tmp_path: Path) -> None:
    scenes.write(tmp_path, 100, 0)
    labels, random = (lines(tmp_path / name) for name in ("labels.jsonl", "labels_random.jsonl"))
    assert sum(a == b for a, b in zip(labels, random, strict=True)) == 20, "as many as chance gives"
    asked = [parse("function", text) for row in lines(tmp_path / "candidates.jsonl") for text in row["candidates"]]
    assert all(action.parse_error is None and len(action.calls) == 1 for action in asked)
    for kind in ("selection_arm", "scalar_bt"):
        plain, *others = (recipe.read(FOLDER / f"{kind}{variant}.yaml").data for variant in ("", "_blank", "_random"))
        for other in others:
            assert {key for key in plain if plain[key] != other[key]} <= {"dataset", "evaluation"}


def result(value: float, low: float, **about: str) -> dict[str, Any]:
    differences = {name: {"value": 0.3, "low": 0.1 if name != "first" else low, "high": 0.5} for name in run.BASELINES}
    return {"model": "m", "learned_from": "lit-button", "n": 418, "value": value, "differences": differences, **about}


def test_a_claim_holds_only_where_the_figures_say_so() -> None:
    assert run.guessing(5, 5) == pytest.approx(0.2**5)
    assert run.guessing(0, 5) == pytest.approx(1 - 5 * 0.2 * 0.8**4), "all but one right are as rare"
    asked = [
        result(0.7, 0.01, asked_about="lit-button"), result(0.7, 0.0, asked_about="lit-button"),
        result(0.21, 0.0, asked_about="lit-button-blank"), result(0.30, 0.1, asked_about="lit-button-blank"),
        result(0.12, 0.0, asked_about="lit-button-blank"),
    ]  # fmt: skip
    assert [claim["holds"] for claim in run.claims(asked)] == [True, False, True, False, False]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_both_kinds_learn_what_there_is_to_learn(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "--folder", str(tmp_path)],
        env={**cached.environment(), "PYTHONWARNINGS": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (tmp_path / "build" / "report.json").exists(), done.stderr[-3000:]
    report = json.loads((tmp_path / "build" / "report.json").read_text("utf-8"))
    found = {(one["model"], one["asked_about"]): one for one in report["results"]}
    assert len(found) == len(report["results"]) == len(report["claims"]) == 8
    for kind in ("selection_arm", "scalar_bt"):
        true = found[kind, "lit-button"]
        assert true["n"] == true["n_valid"] > 400
        assert set(true["differences"]) >= {"uniform", "first", "most_common", "word_overlap"}
        assert all(one["low"] > 0 for one in true["differences"].values()), true
        assert true["value"] > 0.6
        for model, about in (
            (f"{kind}_blank", "lit-button-blank"), (f"{kind}_random", "lit-button"), (kind, "lit-button-blank"),
        ):  # fmt: skip
            blind = found[model, about]
            assert 0.12 < blind["value"] < 0.28, "4 standard deviations: 4 * sqrt(0.2 * 0.8 / 418)"
            assert blind["value"] < true["value"] - 0.3
    assert all(claim["holds"] for claim in report["claims"]), done.stdout
    assert done.returncode == 0, done.stdout
