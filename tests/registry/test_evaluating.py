"""What a checkpoint was trained on, up to the first one of its line, as far as it can be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes.evaluation.items import trained_groups
from action_reward_models.recipes.recipe import Recipe
from action_reward_models.registry import ModelNode, Registry, evaluating
from action_reward_models.registry.evaluating import Checkpoint, Trained, dataset, refuse_built, trained_on
from action_reward_models.schemas.errors import ArmError
from action_reward_models.tests.registry.lineage_world import World


def found(world: World, name: str = "judge-more", asked: str = "gamma", **identity: Any) -> Trained:
    manifest = manifests.manifest_of(world.built(name))
    return trained_on(world.hub, {**manifest, "identity": {**manifest["identity"], **identity}}, world.built(asked))


def test_tasks_of_every_checkpoint_of_the_line(world: World) -> None:
    tasks = trained_groups(world.built("beta"), "train")
    assert tasks
    for asked in ("gamma", "beta"):  # read from the Hub, or from what lies here
        known = found(world, asked=asked)
        assert known.groups == tasks
        assert [(d["repo"], d["split"]) for d in known.datasets] == [("lab/beta", "train"), ("lab/beta", "train")]
        assert known.unknown == []
    assert len(found(world, "judge").datasets) == 1


def test_the_split_is_that_of_the_recipe(world: World) -> None:
    recipe = manifests.manifest_of(world.built("judge"))["identity"]["recipe"]
    known = found(world, "judge", recipe={**recipe, "split": "validation"})
    assert (known.groups, known.datasets[0]["split"]) == (set(), "validation")


OTHER = "0" * 64


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("dataset", {"repo": None, "revision": None, "identity_sha256": OTHER}, "a build in a folder: it has no name"),
        ("dataset", {"identity_sha256": OTHER}, "lab/beta: what is published there now is another build"),
        ("dataset", {"revision": "v7.0.0", "identity_sha256": OTHER}, "lab/beta: has no revision"),
        ("init_from", {"repo": None, "revision": None, "commit": None}, "a build in a folder: the checkpoint that"),
        ("init_from", {"commit": "0" * 40}, "lab/judge: "),
    ],
)
def test_what_cannot_be_found_is_said(world: World, part: str, change: dict[str, Any], said: str) -> None:
    declared = manifests.manifest_of(world.built("judge-more"))["identity"][part]
    changed: dict[str, Any] = {part: {**declared, **change}}
    known = found(world, **changed)
    assert len(known.unknown) == 1
    assert known.unknown[0].startswith(said)
    assert len(known.datasets) == 2  # whatever else is known counts
    assert known.groups == trained_groups(world.built("beta"), "train")


def test_a_line_that_is_too_long_is_not_known_to_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "_LONGEST", 1)
    assert found(world).unknown == ["lab/judge: it stands before 1 others, and was not looked at"]


def further(world: World, evaluation: str) -> ModelNode:
    """judge-more with another evaluation, as it would be trained now."""
    node = Registry.load(world.folder, hub=world.hub).model("judge-more")
    said = {**node.spec.recipe.data, "evaluation": "none" if evaluation == "none" else {"split": evaluation}}
    return replace(node, spec=replace(node.spec, recipe=Recipe.of(node.spec.recipe.path, said)))


def test_what_is_trained_further_is_not_asked_what_its_line_saw(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert further(world, "validation").inputs().seen == trained_groups(world.built("beta"), "train")
    assert further(world, "none").inputs().seen == frozenset()
    known = found(world)
    known.datasets[0]["unknown"] = "it is gone"
    monkeypatch.setattr(evaluating, "trained_on", lambda *_: known)
    with pytest.raises(ArmError, match="tasks it was trained on is not known: lab/beta: it is gone") as error:
        further(world, "validation").inputs()
    assert str(error.value.next_command).startswith("evaluation: none")


def test_the_data_of_a_version_is_fetched_for_the_time_being(world: World) -> None:
    judge = Checkpoint.here(world.built("judge"))
    assert judge.dataset() == world.built("beta")  # which lies beside it, and is the one
    fetched = replace(judge, commit="0" * 40)
    with dataset(world.hub, fetched.dataset(), lambda *_: None) as (folder, source):
        assert trained_groups(folder, "train") == trained_groups(world.built("beta"), "train")
        assert source == {"repo": "lab/beta", "revision": "v1.0.0", "commit": world.commits["beta"]}
    assert not folder.exists()


def test_a_dataset_is_no_checkpoint(world: World) -> None:
    with pytest.raises(ArmError, match="is a dataset") as error:
        Checkpoint.here(world.built("beta"))
    assert error.value.next_command == f"arm evaluate CHECKPOINT --dataset {world.built('beta')}"


def test_nothing_is_written_into_a_built_directory(world: World, tmp_path: Path) -> None:
    for place in ("evaluation", "evaluation/more"):
        with pytest.raises(ArmError, match="lies in the built directory judge"):
            refuse_built(world.built("judge") / place)
    refuse_built(tmp_path / "evaluation")
