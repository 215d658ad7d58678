"""Stage by stage: what was finished is kept, whatever fails later, and only for the same training.

The stages themselves are stand-ins here: what they really do is in test_trainers.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import orjson
import pytest
from action_reward_models.cards import model as cards
from action_reward_models.cards import model_figures
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes import probe, reload, run, scoring
from action_reward_models.recipes import work as works
from action_reward_models.recipes.evaluation import run as evaluation
from action_reward_models.recipes.inputs import Inputs
from action_reward_models.recipes.recipe import Recipe
from action_reward_models.recipes.train import Stopped
from action_reward_models.recipes.work import Work
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.recipes import tiny

SHA = "0" * 64
NOTHING: dict[str, Any] = {**manifests.FOLDER, "sha256": SHA}
CHECKPOINT: dict[str, Any] = {
    "kind": "scalar", "layout": "adapter", "architecture": "Toy", "dtype": "float32",
    "base": {"repo": None, "commit": None, "sha256": SHA}, "prompt": {"id": None, "sha256": None, "file": None},
    "processor": {
        "min_pixels": None, "max_pixels": None, "max_tokens": 64, "template_options": {}, "chat_template_sha256": SHA,
        "tokenizer_sha256": SHA,
    },
    "head": {"file": "value_head.safetensors", "scored_token_id": 1, "scored_token": "x"},
}  # fmt: skip
TRAINING: dict[str, Any] = {
    "table": "bt_pairs", "split": "train", "rows": 2, "used": 2, "unusable": {}, "steps": 1, "epochs": 1.0, "batch": 2,
    "seconds": 1.0, "device": "cpu", "processes": 1, "parameters": 9, "trained_parameters": 3, "loss_first": 0.5,
    "loss_last": 0.5, "curve": [], "packages": {},
}  # fmt: skip


class Stages:
    """Stand-ins for the stages. ``calls``: in order; one whose name is in ``failing`` raises what is there."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing: dict[str, BaseException] = {}

    def stage(self, name: str, given: Any = None) -> Any:
        self.calls.append(name)
        if name in self.failing:
            raise self.failing[name]
        return given

    def train(self, inputs: Inputs, work: Work, team: Any, *, steps: int | None, progress: Any) -> dict[str, Any]:
        work.made.mkdir(exist_ok=True)
        (work.made / "adapter_model.safetensors").write_bytes(f"trained {self.calls.count('train')}".encode())
        self.stage("train")
        return {"checkpoint": CHECKPOINT, "training": TRAINING, "reference": {"units": [0], "values": [0.0]}}

    def compare(self, *_: Any, **__: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.stage("reload", {"conversations": 1, "max_difference": 0.0})
        return found

    def evaluate(self, *_: Any, out: Path, name: str, source: Any, before: Any, **__: Any) -> dict[str, Any]:
        self.before = before
        out.mkdir(parents=True, exist_ok=True)
        (out / "predictions.jsonl").write_bytes(b"{}\n")
        self.stage("evaluate")
        return {
            "name": name, "dataset": {**source}, "split": name, "items": 1, "states": 1, "left_out": {}, "pairs": 0,
            "pairs_left_out": {}, "orders": 1, "teacher": None, "outcomes": {}, "slots": [], "reports": [],
            "breakdown": [], "calibration": [],
        }  # fmt: skip


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    made, team = Stages(), ModuleType("team")
    alone = SimpleNamespace(first=True, count=1, wait=lambda: None, part=lambda: None)
    monkeypatch.setattr(team, "team", lambda: alone, raising=False)
    monkeypatch.setitem(sys.modules, "action_reward_models.recipes.trainers.team", team)
    monkeypatch.setattr(run, "train", made.train)
    monkeypatch.setattr(run, "compare", made.compare)
    monkeypatch.setattr(run, "opened", lambda *_: None)
    monkeypatch.setattr(evaluation, "evaluate", made.evaluate)
    monkeypatch.setattr(model_figures, "figures", lambda *_: made.stage("figures", []))
    monkeypatch.setattr(cards, "eval_results", lambda _: {".eval_results/x.yaml": "x: 1\n"})
    monkeypatch.setattr(cards, "render", lambda _: made.stage("card", "# Card\n"))
    return made


def given(**changes: Any) -> Inputs:
    words = {"evaluation": {"split": "validation"}, **changes}
    recipe = Recipe.of(Path("recipe.yaml"), tiny.data("scalar", **words))
    dataset = {"repo": None, "revision": None, "identity_sha256": SHA}
    identity = manifests.identity(
        recipe.data, name="toy", namespace="somebody", version="1.0.0", dataset=dataset, base=NOTHING
    )
    return Inputs(recipe, identity, Path("data"), None, Path("base"), NOTHING)


@pytest.fixture
def make(stages: Stages, tmp_path: Path) -> Callable[..., Any]:
    def made(inputs: Inputs | None = None, **words: Any) -> Any:
        stages.calls.clear()
        return run.make(inputs or given(), tmp_path / ".toy-training", tmp_path / "toy", **words)

    return made


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_manifest_names_every_file_and_the_work_folder_is_gone(make: Callable[..., Any], tmp_path: Path) -> None:
    manifest = make()
    assert manifests.manifest_of(tmp_path / "toy") == manifest
    kept = [".eval_results/x.yaml", "adapter_model.safetensors", "evaluation/validation/predictions.jsonl"]
    assert files(tmp_path) == sorted(f"toy/{name}" for name in [*kept, "README.md", "manifest.json"])
    assert sorted(manifest["environment"]["files"]) == kept
    assert manifest["training"]["reload"]["conversations"] == 1
    assert manifest["evaluations"][0]["dataset"] == {
        "repo": None, "revision": None, "commit": None, "identity_sha256": SHA
    }  # fmt: skip


FAILURES: list[tuple[str, BaseException, list[str]]] = [
    ("reload", ArmError("other scores"), ["reload", "evaluate", "figures", "card"]),
    ("evaluate", RuntimeError("out of memory"), ["evaluate", "figures", "card"]),
    ("figures", ValueError("no font"), ["figures", "card"]),
    ("card", KeyError("undefined"), ["figures", "card"]),
]


@pytest.mark.parametrize(("stage", "error", "then"), FAILURES, ids=[stage for stage, *_ in FAILURES])
def test_a_failure_keeps_the_weights_and_the_same_command_goes_on(
    make: Callable[..., Any], stages: Stages, tmp_path: Path, stage: str, error: BaseException, then: list[str]
) -> None:
    stages.failing[stage] = error
    with pytest.raises(ArmError) as told:
        make()
    made = tmp_path / ".toy-training" / "made"
    assert f"the trained weights are kept in {made}, and the same command goes on" in told.value.message
    assert str(error.args[0]) in told.value.message
    weights = (made / "adapter_model.safetensors").read_bytes()
    assert not (tmp_path / "toy").exists()
    stages.failing.clear()
    make()
    assert stages.calls == then
    assert (tmp_path / "toy" / "adapter_model.safetensors").read_bytes() == weights


def test_an_interrupted_evaluation_goes_on(make: Callable[..., Any], stages: Stages) -> None:
    stages.failing["evaluate"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        make()
    stages.failing.clear()
    make()
    assert stages.calls == ["evaluate", "figures", "card"]


def test_a_stopped_training_is_called_again(make: Callable[..., Any], stages: Stages) -> None:
    stages.failing["train"] = Stopped("after 1 of 2 steps")
    with pytest.raises(Stopped):
        make()
    stages.failing.clear()
    make()
    assert stages.calls[0] == "train"


CHANGES: list[tuple[str, dict[str, Any], str]] = [
    ("seed", {"seed": 4}, "trained_from.recipe.seed was 3 and is 4"),
    ("trainer", {"trainer": {"max_steps": 9}}, "trained_from.recipe.trainer.max_steps was 3 and is 9"),
]


@pytest.mark.parametrize(("changes", "told"), [case[1:] for case in CHANGES], ids=[name for name, *_ in CHANGES])
def test_another_training_is_not_resumed_into(
    make: Callable[..., Any], stages: Stages, changes: dict[str, Any], told: str
) -> None:
    stages.failing["card"] = ArmError("x")
    with pytest.raises(ArmError):
        make()
    stages.failing.clear()
    with pytest.raises(ArmError) as error:
        make(given(**changes))
    assert stages.calls == []
    assert told in error.value.message
    assert str(error.value.next_command).startswith("arm train recipe.yaml --restart")
    make(given(**changes), restart=True)
    assert stages.calls[0] == "train"


def test_what_a_recipe_says_wrong_is_refused_before_anything_is_made(
    make: Callable[..., Any], stages: Stages, tmp_path: Path
) -> None:
    make()
    with pytest.raises(ArmError) as error:
        make(given(evaluation={"split": "train"}))
    assert [issue.path for issue in error.value.issues] == ["$.evaluation.split"]
    assert stages.calls == []
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_weights_that_somebody_removed_are_trained_again(
    make: Callable[..., Any], stages: Stages, tmp_path: Path
) -> None:
    stages.failing["card"] = ArmError("x")
    with pytest.raises(ArmError):
        make()
    stages.failing.clear()
    (tmp_path / ".toy-training" / "made" / "adapter_model.safetensors").unlink()
    make()
    assert stages.calls == ["train", "reload", "evaluate", "figures", "card"]


def test_what_failed_before_anything_was_trained_is_in_nobodys_way(make: Callable[..., Any], stages: Stages) -> None:
    stages.failing["train"] = ArmError("an argument that is none")
    with pytest.raises(ArmError):
        make()
    stages.failing.clear()
    assert make(given(seed=7))["training"] == {**TRAINING, "reload": {"conversations": 1, "max_difference": 0.0}}


def test_other_data_are_not_resumed_into(make: Callable[..., Any], stages: Stages) -> None:
    stages.failing["card"] = ArmError("x")
    with pytest.raises(ArmError):
        make()
    other = given()
    identity = {**other.identity, "dataset": {**other.identity["dataset"], "identity_sha256": "1" * 64}}
    with pytest.raises(ArmError, match=r"trained_from\.dataset was"):
        make(dataclasses.replace(other, identity=identity))
    assert stages.calls == []


def test_another_evaluation_and_another_name_do_not_train_again(make: Callable[..., Any], stages: Stages) -> None:
    stages.failing["card"] = ArmError("x")
    with pytest.raises(ArmError):
        make()
    stages.failing.clear()
    other = given(evaluation={"split": "validation", "max_items": 5})
    manifest = make(dataclasses.replace(other, identity={**other.identity, "description": "said anew"}))
    assert stages.calls == ["evaluate", "figures", "card"]
    assert manifest["identity"]["description"] == "said anew"


def test_another_evaluation_of_a_finished_checkpoint_keeps_its_weights(
    make: Callable[..., Any], stages: Stages, tmp_path: Path
) -> None:
    first = make()
    other = given(evaluation={"split": "validation", "max_items": 5})
    second = make(other)
    assert stages.calls == ["evaluate", "figures", "card"]
    assert second["identity"]["recipe"]["evaluation"]["max_items"] == 5
    assert (second["training"], second["checkpoint"]) == (first["training"], first["checkpoint"])
    assert files(tmp_path / "toy") == sorted([*first["environment"]["files"], "README.md", "manifest.json"])
    make(given(evaluation="none"))
    assert stages.calls == ["figures", "card"]
    assert not (tmp_path / "toy" / "evaluation").exists()
    make(other, restart=True)
    assert stages.calls[:2] == ["train", "reload"]
    (tmp_path / "toy" / "adapter_model.safetensors").write_bytes(b"others")
    make()
    assert stages.calls[:2] == ["train", "reload"]


def test_tasks_of_the_checkpoints_before_it_are_not_asked_about(make: Callable[..., Any], stages: Stages) -> None:
    make(dataclasses.replace(given(), seen=frozenset({"a task"})))
    assert stages.before == {"a task"}


def test_smoke_leaves_nothing(make: Callable[..., Any], stages: Stages, tmp_path: Path) -> None:
    report = make(smoke=2)
    assert stages.calls == ["train", "reload"]
    assert report["training"]["reload"] == {"conversations": 1, "max_difference": 0.0}
    assert list(tmp_path.iterdir()) == []
    stages.failing["reload"] = ArmError("other scores")
    with pytest.raises(ArmError):
        make(smoke=2)
    assert list(tmp_path.iterdir()) == []


def test_smoke_leaves_an_unfinished_training_alone(make: Callable[..., Any], stages: Stages, tmp_path: Path) -> None:
    stages.failing["card"] = ArmError("x")
    with pytest.raises(ArmError):
        make()
    before = files(tmp_path)
    make(given(seed=9), smoke=1)
    assert files(tmp_path) == before


def test_the_last_checkpoint_is_replaced_and_nothing_else_is(make: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "toy"
    make()
    make(given(seed=9))
    assert manifests.manifest_of(out)["identity"]["recipe"]["seed"] == 9
    (out / "manifest.json").unlink()
    with pytest.raises(ArmError, match="is no checkpoint, and would be replaced"):
        make()
    assert (out / "README.md").exists()


def test_what_is_left_of_a_finished_training_is_in_nobodys_way(
    make: Callable[..., Any], stages: Stages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process ends after the checkpoint was moved; then another recipe, or another evaluation, is asked for."""
    with monkeypatch.context() as killed:
        killed.setattr(works, "remove", lambda _: None)
        make()
        make(given(seed=9))
    assert stages.calls[0] == "train"
    other = given(seed=9, evaluation={"split": "validation", "max_items": 5})
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "copytree", half_a_copy)
        with pytest.raises(KeyboardInterrupt):
            make(other)
    assert "adapter_model.safetensors" in make(other)["environment"]["files"]
    assert "train" not in stages.calls
    assert not (tmp_path / ".toy-training").exists()


def half_a_copy(_: Path, to: Path, **__: Any) -> None:
    to.mkdir()
    (to / "adapter_config.json").write_text("{}")
    raise KeyboardInterrupt


def test_a_work_folder_of_another_making_is_left_alone(make: Callable[..., Any], tmp_path: Path) -> None:
    work = tmp_path / ".toy-training"
    work.mkdir()
    (work / "notes.txt").write_text("mine")
    with pytest.raises(ArmError, match="is in the way"):
        make()
    assert (work / "notes.txt").read_text() == "mine"


def test_two_processes_do_not_train_in_one_folder(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[ArmError] = []

    def again(*_: Any, **__: Any) -> Any:
        with pytest.raises(ArmError) as error:
            make()
        found.append(error.value)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "compare", again)
    with pytest.raises(KeyboardInterrupt):
        make()
    assert "another process trains here" in found[0].message


RELOADS: list[tuple[str, list[float | None], str, str | None]] = [
    ("equal", [1.0, 2.0], "float32", None),
    ("below the tolerance", [1.0, 2.000009], "float32", None),
    ("above it", [1.0, 2.00002], "float32", r"other scores: they differ by up to 2e-05, and 1e-05 is allowed"),
    ("rounded weights", [1.0, 2.01], "bfloat16", None),
    ("rounded weights, above it", [1.0, 2.03], "bfloat16", "other scores"),
    ("no number", [1.0, None], "float32", "scores that are no numbers"),
]


@pytest.mark.parametrize(("found", "dtype", "told"), [case[1:] for case in RELOADS], ids=[case[0] for case in RELOADS])
def test_scores_of_another_process_are_compared(
    monkeypatch: pytest.MonkeyPatch, found: list[float | None], dtype: str, told: str | None
) -> None:
    monkeypatch.setenv("RANK", "0")
    asked: list[Any] = []

    def answer(command: list[str], *, input: bytes, env: dict[str, str], **_: Any) -> Any:
        asked.append(orjson.loads(input))
        assert "RANK" not in env, "it is no process of those that trained"
        assert command[1:] == ["-P", "-m", "action_reward_models.recipes.reload"]
        return SimpleNamespace(returncode=0, stdout=b"noise\n" + orjson.dumps(found) + b"\n", stderr=b"")

    monkeypatch.setattr(scoring, "subprocess", SimpleNamespace(run=answer))
    words: dict[str, Any] = {
        "base": Path("base"), "checkpoint": {**CHECKPOINT, "dtype": dtype},
        "reference": {"units": [0, 3], "values": [1.0, 2.0]},
    }  # fmt: skip
    if told is None:
        assert reload.compare(Path("made"), Path("rows"), **words)["conversations"] == 2
    else:
        with pytest.raises(ArmError, match=told):
            reload.compare(Path("made"), Path("rows"), **words)
    assert asked[0]["units"] == [0, 3]


def test_a_checkpoint_that_cannot_be_loaded_again_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=1, stdout=b"", stderr=b"Traceback\nArmError: the head is missing\n")
    monkeypatch.setattr(scoring, "subprocess", SimpleNamespace(run=lambda *_, **__: failed))
    with pytest.raises(ArmError, match="cannot be loaded: ArmError: the head is missing"):
        reload.compare(Path("made"), Path("rows"), base=Path("base"), checkpoint=CHECKPOINT, reference={"units": []})


PROBES: list[tuple[str, list[list[float | None]], str | None]] = [
    ("zero is a score", [[0.0, 2.0], [0.0, 2.0]], None),
    ("no number", [[None, 2.0], [None, 2.0]], "scores that are no numbers"),
    ("other scores", [[0.0, 2.0], [0.0, 2.1]], "they differ by up to 0.1"),
]


@pytest.mark.parametrize(("found", "told"), [case[1:] for case in PROBES], ids=[case[0] for case in PROBES])
def test_scores_after_a_download_are_compared(
    monkeypatch: pytest.MonkeyPatch, found: list[list[float | None]], told: str | None
) -> None:
    done = SimpleNamespace(returncode=0, stdout=orjson.dumps(found), stderr=b"")
    monkeypatch.setattr(scoring, "subprocess", SimpleNamespace(run=lambda *_, **__: done))
    folders = [Path("downloaded"), Path("sent")]
    if told is None:
        compared = probe.compare(folders, base=None, checkpoint=CHECKPOINT, where="x")
        assert compared == {"conversations": 2, "max_difference": 0.0}
    else:
        with pytest.raises(ArmError, match=told):
            probe.compare(folders, base=None, checkpoint=CHECKPOINT, where="x")
