"""Predictions in files: what is read back, what is refused, and what is taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.recipes.evaluation.metrics import recompute
from action_reward_models.recipes.evaluation.predictions import Running, read, report_of
from action_reward_models.schemas.errors import ArmError

from .answers import answered

ABOUT = {"protocol": {"orders": 1}, "model_sha256": "a"}


def lines(path: Path, *rows: Any) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def test_what_is_added_is_there_at_once(tmp_path: Path) -> None:
    running = Running(tmp_path / "new" / "one", ABOUT)
    assert not (tmp_path / "new").exists()
    rows = [answered("a", 0), answered("b", None)]
    running.add(rows)
    assert read(tmp_path / "new" / "one") == rows
    again = Running(tmp_path / "new" / "one", ABOUT)
    assert again.done == {"a": rows[:1], "b": rows[1:]}
    assert not again.finished


def test_half_a_line_is_forgotten(tmp_path: Path) -> None:
    Running(tmp_path / "x", ABOUT).add([answered("a", 0), answered("b", 1)])
    path = tmp_path / "x" / "predictions.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = Running(tmp_path / "x", ABOUT)
    assert set(again.done) == {"a"}
    again.add([answered("b", 1)])
    assert [row["item_id"] for row in read(path)] == ["a", "b"]


def test_what_was_asked_only_in_part_is_asked_again(tmp_path: Path) -> None:
    running = Running(tmp_path / "x", ABOUT)
    running.add([answered("a", 0), answered("b", 1)])
    running.keep(["a", "c"])
    assert set(running.done) == {"a"}
    assert [row["item_id"] for row in read(tmp_path / "x")] == ["a"]


def test_another_evaluation_is_not_mixed_in(tmp_path: Path) -> None:
    running = Running(tmp_path / "x", ABOUT)
    running.add([answered("a", 0)])
    other = {**ABOUT, "model_sha256": "b"}
    for _ in range(2):  # while it runs, and when it has finished
        with pytest.raises(ArmError, match="something else: model_sha256 differs"):
            Running(tmp_path / "x", other)
        running.finish({"kind": "scalar", "evaluation": {}, "about": ABOUT})
    assert Running(tmp_path / "x", ABOUT).finished
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == ["predictions.jsonl", "report.json"]


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArmError, match="holds no evaluation"):
        Running(tmp_path, ABOUT)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"predicted_index": 7}, "$.predicted_index names candidate 7 of 3"),
        ({"order": [0, 1]}, "$.predicted_index was not shown"),
        ({"scores": [1.0]}, "$.scores has 1 scores of 3 candidates"),
        ({"reference_index": None}, "$.reference_index is null"),
        ({"status": "fine"}, '$.status is "fine", not one of'),
        ({"near_index": [3]}, "$.near_index names candidate 3 of 3"),
    ],
)
def test_contradictions_are_told_with_their_line(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = lines(tmp_path / "predictions.jsonl", answered("a", 0), {**answered("b", 2), **change})
    with pytest.raises(ArmError) as error:
        read(path)
    issue, *_ = error.value.issues
    assert issue.line == 2
    assert said in f"{issue.path} {issue.message}"


def test_an_item_is_answered_once_in_each_order(tmp_path: Path) -> None:
    path = lines(tmp_path / "p.jsonl", answered("a", 0), answered("a", 1, number=1), answered("a", 2))
    with pytest.raises(ArmError, match="has 1 problem") as error:
        read(path)
    assert error.value.issues[0].line == 3


def test_what_is_no_json_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "predictions.jsonl").write_bytes(b"{\n")
    with pytest.raises(ArmError) as error:
        read(tmp_path)
    assert "is no JSON" in error.value.issues[0].message
    with pytest.raises(ArmError, match="holds no predictions"):
        read(tmp_path / "nowhere")


def test_a_report_is_held_against_its_predictions(tmp_path: Path) -> None:
    rows = [answered("a", 0), answered("b", 1)]
    running = Running(tmp_path / "x", ABOUT)
    running.add(rows)
    entry = recompute(rows, "selection_arm")
    running.finish({"kind": "selection_arm", "evaluation": entry, "about": ABOUT})
    assert report_of(tmp_path / "x")["evaluation"] == entry
    lines(tmp_path / "x" / "predictions.jsonl", rows[0], answered("b", 0))
    with pytest.raises(ArmError, match=r"says other figures than follow from its predictions: .*reports"):
        report_of(tmp_path / "x")
    (tmp_path / "x" / "report.json").unlink()
    with pytest.raises(ArmError, match="holds no finished evaluation"):
        report_of(tmp_path / "x")
