"""The code of a card that computes its numbers again: from published predictions to every figure of the tables."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.cards.model import render
from action_reward_models.recipes.evaluation import recompute
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests.cards.model import read

# Answers of the tiny twins on the validation split of examples/miniwob.
PREDICTIONS = Path(__file__).parent / "predictions"


def test_every_number_is_computed_from_the_predictions(
    manifest: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = manifest["checkpoint"]["kind"]
    (evaluation,) = manifest["evaluations"]
    place = tmp_path / "evaluation" / evaluation["name"] / "predictions.jsonl"
    place.parent.mkdir(parents=True)
    shutil.copy(PREDICTIONS / ("scalar.jsonl" if kind == "scalar" else "selection.jsonl"), place)
    evaluation |= recompute([json.loads(line) for line in place.read_text("utf-8").splitlines()], kind)
    assert for_schema("model_manifest/1").problems(manifest) == []
    card = render(manifest)

    monkeypatch.chdir(tmp_path)
    with redirect_stdout(io.StringIO()) as out:
        exec(read.snippets(card, "python")[-1], {})
    again = json.loads(out.getvalue())

    reports = again["reports"]
    assert len(reports) >= 3
    for row, report in zip(read.table(card, "Metric", "What it is"), reports, strict=True):
        assert row[1] != "–", f"{report['metric']} has no words"
        keys = ("value", "interval_low", "interval_high", "n", "n_valid")
        assert all(read.near(cell, report[key]) for cell, key in zip(row[2:], keys, strict=True)), row
    rules = [(report, rule) for report in reports for rule in report["baselines"]]
    for row, (report, rule) in zip(read.table(card, "Metric", "Rule"), rules, strict=True):
        less = next(one for one in report["differences"] if one["baseline"] == rule["name"])
        wanted = (rule["value"], less["n"], less["value"], less["low"], less["high"])
        assert all(read.near(cell, value) for cell, value in zip(row[2:], wanted, strict=True)), row
    groups = {(one["by"], one["value"]): one for one in again["breakdown"]}
    for by, heading in (("verb", "Action of the reference"), ("host", "Host"), ("turn", "Turn")):
        for name, n, score in read.table(card, heading, "Items"):
            one = groups.pop((by, name))
            assert (int(n), read.near(score, one["score"])) == (one["n"], True)
    assert not groups
    assert {row[0]: int(row[2]) for row in read.table(card, "Outcome")} == again["outcomes"]
    if kind == "scalar":
        assert [int(row[2]) for row in read.table(card, "Probability from")] == [b["n"] for b in again["calibration"]]
    else:
        assert [int(row[1]) for row in read.table(card, "Place", "Picks")] == again["slots"]
