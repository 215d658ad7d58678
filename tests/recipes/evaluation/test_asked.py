"""Real models asked about the bundled example: what they were shown, what they said, and what is counted of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.recipes.evaluation import recompute
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests import processes
from action_reward_models.tests.tiny_vlm import cached

KINDS = ("selection_arm", "scalar")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> dict[str, Any]:
    """What `asked.py` found: all in one process with torch."""
    words = (tmp_path_factory.mktemp("asked"), cached.made(), dataset)
    done = processes.torch("action_reward_models.tests.recipes.evaluation.asked", *words)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def values(entry: dict[str, Any]) -> dict[str, float]:
    return {report["metric"]: report["value"] for report in entry["reports"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_follows_from_the_predictions(told: dict[str, Any], kind: str) -> None:
    entry, rows = told[kind]["entry"], told[kind]["rows"]
    for row in rows:
        assert for_schema("eval_prediction/1").problems(row) == []
    stamp = {key: entry["reports"][0][key] for key in ("protocol_sha256", "prompt_sha256")}
    found = recompute(rows, kind, stamp)
    assert {key: entry[key] for key in found} == found
    assert None not in stamp.values()


def test_the_model_is_shown_what_it_is_trained_on(told: dict[str, Any]) -> None:
    """What it says to the prompts of the table selection_sft, each asked alone."""
    found = told["selection_arm"]
    first = {row["item_id"]: row for row in found["rows"] if row["order_index"] == 0}
    assert {name: row["order"] for name, row in first.items()} == found["orders"]
    assert {name: row["predicted_index"] for name, row in first.items()} == found["said"]
    assert len(first) == 8


def test_each_set_is_shown_in_different_orders(told: dict[str, Any]) -> None:
    orders: dict[str, list[list[int]]] = {}
    for row in told["selection_arm"]["rows"]:
        orders.setdefault(row["item_id"], []).append(row["order"])
    assert {len(found) for found in orders.values()} == {3}
    for found in orders.values():
        assert len({tuple(order) for order in found}) == 3
        assert len({tuple(sorted(order)) for order in found}) == 1
    assert told["selection_arm"]["entry"]["orders"] == 3


def test_scores_of_a_pair_are_those_of_its_sides(told: dict[str, Any]) -> None:
    rows = {row["item_id"]: row for row in told["scalar"]["rows"]}
    scores = told["scalar"]["scores"]
    assert len(scores) == 16
    for pair_id, (chosen, rejected, set_id, *places) in scores.items():
        assert rows[pair_id]["scores"] == pytest.approx([chosen, rejected], abs=1e-4)
        assert rows[pair_id]["status"] == "ok"
        # One conversation has one score, wherever it is asked for.
        assert rows[pair_id]["scores"] == [rows[set_id]["scores"][place] for place in places]


def test_baselines_are_those_of_the_dataset_card(told: dict[str, Any], dataset: Path) -> None:
    """Counted by other code when the dataset was built."""
    audits = manifest_of(dataset)["identity"]["statistics"]["audits"]["baselines"]["selection_sft"]["validation"]
    for kind in KINDS:
        for report in told[kind]["entry"]["reports"][:2]:
            how = report["metric"].removesuffix("_agreement")
            mine = {one["name"]: one["value"] for one in report["baselines"]}
            for name in ("uniform", "first", "most_common", "word_overlap"):
                assert mine[name] == pytest.approx(audits[name][how], abs=1e-4), (kind, name)


def test_every_set_of_the_split_is_asked_or_counted(told: dict[str, Any], dataset: Path) -> None:
    tables = manifest_of(dataset)["identity"]["tables"]
    asked = [*told["few"].values(), told["selection_arm"]["entry"], told["scalar"]["entry"]]
    for entry in asked:
        assert (
            entry["items"] + sum(entry["left_out"].values()) == tables["candidate_sets"]["splits"]["validation"]["rows"]
        )
    for entry in (told["few"]["scalar"], told["scalar"]["entry"]):
        assert (
            entry["pairs"] + sum(entry["pairs_left_out"].values()) == tables["bt_pairs"]["splits"]["validation"]["rows"]
        )
    assert told["few"]["arm"]["items"] == told["few"]["scalar"]["items"] == 3
    same = [told["few"][kind]["reports"][0]["task_set_sha256"] for kind in ("arm", "scalar")]
    assert same[0] == same[1], "both kinds are asked about the same sets"


def test_tasks_that_were_trained_on_are_not_asked_about(told: dict[str, Any]) -> None:
    assert told["few"]["trained"]["left_out"]["task_in_train"] == 4
    assert told["few"]["before"]["left_out"]["task_in_train"] == 4  # by a checkpoint that this one was trained from
    for case in ("all_trained", "own_split"):
        assert "can be asked: " in told["refused"][case]
        assert " task_in_train" in told["refused"][case]


def test_an_interrupted_evaluation_goes_on(told: dict[str, Any]) -> None:
    found = told["interrupted"]
    assert (found["first"], found["then"], found["finished"]) == (3, 5, 0)  # states asked, then the others, then none
    assert found["rows"] == told["scalar"]["rows"]
    assert {**found["entry"], "name": "scalar"} == told["scalar"]["entry"]
    assert found["same"]
    assert found["files"] == ["predictions.jsonl", "report.json"]


def test_a_model_that_scores_all_alike_picks_nothing(told: dict[str, Any]) -> None:
    entry = told["nothing_learned"]
    assert entry["outcomes"] == {"tie": 8}
    assert values(entry) == {
        "exact_agreement": 0, "equivalent_agreement": 0, "ties": 1, "set_pair_accuracy": 0.5, "set_margin": 0,
        "pair_accuracy": 0.5, "margin": 0, "calibration_error": 0,
    }  # fmt: skip


def test_what_a_model_cannot_take_is_an_outcome(told: dict[str, Any]) -> None:
    found = told["short"]
    assert found["selection_arm"]["outcomes"] == {"too_long": 8}
    assert found["selection_arm"]["reports"][0]["n_valid"] == 0
    assert found["scalar"]["items"] == 8
    assert set(found["scalar"]["outcomes"]) == {"ok", "too_long"}


def test_a_folder_of_something_else_is_left_as_it_is(told: dict[str, Any]) -> None:
    refused = told["refused"]
    assert "something else: protocol differs\n  next: --out NEW" in refused["other_orders"]
    assert "model_sha256, prompt_sha256, protocol differ\n" in refused["other_model"]
    assert "is not empty and holds no evaluation" in refused["full"]
    assert "is a selection prompt, and the model is a scalar" in refused["other_kind"]


# -- arm evaluate ----------------------------------------------------------------------------------------------------


def test_the_examples_of_help_run(told: dict[str, Any]) -> None:
    examples = list(told["typed"].items())[:3]
    for line, done in examples:
        assert done["status"] == 0, (line, done["err"])
    shown = examples[0][1]
    assert "exact_agreement" in shown["out"]
    assert "most_common" in shown["out"]
    assert "not asked: 1 null_in_source" in shown["err"]
    assert "next: arm evaluate OTHER --against evaluation/my-arm-validation" in shown["err"]
    compared = json.loads(examples[2][1]["out"])
    assert [side["evaluation"]["orders"] for side in compared["evaluations"]] == [1, 3]
    assert [(m["difference"], m["p"], m["n"]) for m in compared["comparison"]["metrics"]] == [(0, 1, 8), (0, 1, 8)]


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("build/elsewhere", 1, "next: --dataset FOLDER"),
        ("build/my-arm --dataset build/action-reward-models-data --out build/my-arm/evaluation/more", 1,
         "lies in the built directory my-arm, which is complete"),
        ("build/action-reward-models-data", 1, "next: arm evaluate CHECKPOINT --dataset build/"),
        ("build/my-arm --against build/elsewhere --out both", 2, "next: evaluate each with its own --out"),
        ("nobody", 2, "next: name a built directory"),
    ],
)  # fmt: skip
def test_what_it_refuses(told: dict[str, Any], line: str, status: int, said: str) -> None:
    done = told["typed"][f"arm evaluate {line}"]
    assert (done["status"], done["out"]) == (status, "")
    assert said in done["err"]


def test_the_build_beside_a_checkpoint_is_what_it_is_asked_about(told: dict[str, Any]) -> None:
    done = told["typed"]["arm evaluate build/my-arm --max-items 2 --out beside --json"]
    (side,) = json.loads(done["out"])["evaluations"]
    assert (side["evaluation"]["items"], side["warnings"]) == (2, [])


def test_it_says_when_what_was_trained_on_is_not_known(told: dict[str, Any]) -> None:
    done = told["typed"]["arm evaluate build/elsewhere --dataset build/action-reward-models-data --json"]
    (side,) = json.loads(done["out"])["evaluations"]
    assert "whether it was trained on tasks that are asked about is not known" in side["warnings"][0]
    assert json.loads(told["report"])["trained_on"][0]["unknown"]
