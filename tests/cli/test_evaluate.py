"""`arm evaluate` of predictions that lie there: nothing is loaded. The examples of its help run in
tests/recipes/evaluation, with models."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.cli import _run
from action_reward_models.recipes.evaluation import recompute
from action_reward_models.recipes.evaluation.predictions import Running
from action_reward_models.tests.recipes.evaluation.answers import answered, pair, scored


def stored(folder: Path, rows: list[dict[str, Any]], kind: str = "selection_arm") -> Path:
    running = Running(folder, {"of": folder.name})
    running.add(rows)
    entry = recompute(rows, kind)
    entry |= {"split": "validation", "left_out": {"no_label": 2}, "pairs_left_out": {}}
    running.finish({"kind": kind, "evaluation": entry, "about": {"of": folder.name}})
    return folder


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``arm``: a selection ARM that is right in 9 of 12. ``scalar``: one with scores, right in 3 of the same."""
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "arm", [answered(f"s{i}", int(i > 8), picks={"first": 0}) for i in range(12)])
    rows = [scored(f"s{i}", [1.0, 0.5, 0.0] if i < 3 else [0.0, 2.0, 1.0]) for i in range(12)]
    stored(tmp_path / "scalar", [*rows, pair("p", 1.0, 0.0)], "scalar")
    return tmp_path


def typed(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    status = _run(shlex.split(line)[1:])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_one_evaluation_beside_its_baselines(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = typed("arm evaluate arm", capsys)
    assert status == 0
    shown = " ".join(out.split())
    assert "arm (selection_arm): 12 sets of 12 states in validation" in shown
    assert "exact_agreement 0.750 0.500 .. 1.000 12 12" in shown
    assert "exact_agreement of uniform 0.333 +0.417" in shown
    assert "exact_agreement of first 1.000 -0.250 -0.500 .. 0.000 12" in shown
    assert "not asked: 2 no_label" in err
    assert "next: arm evaluate OTHER --against arm" in err


def test_two_of_different_kinds_on_the_items_of_both(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = typed("arm evaluate arm --against scalar", capsys)
    assert status == 0
    shown = " ".join(out.split())
    assert "first: arm; second: scalar; on the items of both" in shown
    assert "exact_agreement 0.750 0.250 -0.500" in shown
    assert " 6 0 0.0312 12" in shown  # 6 to none: 2 / 2**6
    assert "pair_accuracy 1.000 1.000 .. 1.000" not in shown  # one state has no interval
    assert "only the second was asked: 1 items" in err


def test_as_data(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = typed("arm evaluate arm --against scalar --json", capsys)
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert [side["kind"] for side in found["evaluations"]] == ["selection_arm", "scalar"]
    (exact, near) = found["comparison"]["metrics"]
    assert (exact["only_first"], exact["only_second"], exact["n"]) == (6, 0, 12)
    assert exact["p"] == near["p"] == 2 / 64
    assert exact["high"] < 0


def test_figures_that_do_not_follow_are_refused(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = two / "arm" / "report.json"
    report = orjson.loads(path.read_bytes())
    report["evaluation"]["reports"][0]["value"] = 0.9
    path.write_bytes(orjson.dumps(report))
    status, _, err = typed("arm evaluate arm", capsys)
    assert status == 1
    assert "says other figures than follow from its predictions: reports" in err


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("arm evaluate nobody", 2, "next: name a built directory"),
        ("arm evaluate .", 1, "holds no manifest.json"),
        ("arm evaluate arm --split test", 2, "Invalid value for '--split'"),
        ("arm evaluate arm --orders 0", 2, "Invalid value for '--orders'"),
        ("arm evaluate arm --orders 3", 2, "arm holds the answers of an evaluation"),
        ("arm evaluate", 2, "Missing argument 'CHECKPOINT'"),
    ],
)
def test_wrong_usage(two: Path, line: str, status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, out, err = typed(line, capsys)
    assert (found, out) == (status, "")
    assert said in err
