"""Plans where the Hub does not show what was published, gives no answer, or holds what a saved plan asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from action_reward_models.hub_sync import hub as hubs
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.registry import Registry
from action_reward_models.registry.apply import SavedPlan, saved
from action_reward_models.registry.plan import Plan
from action_reward_models.schemas.errors import ArmError

from ..hub_sync.conftest import Running
from .world import World


@pytest.fixture(scope="module")
def published(running: Running, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("world") / "registry", running.client(), "unseen")


@pytest.fixture
def world(published: World, tmp_path: Path) -> World:
    return published.copy(tmp_path / "registry")


def test_a_repository_that_was_there_is_not_silently_the_first_version(world: World) -> None:
    """Of a Hub that has none, or to a person without a token: a plan would create, in public, what was published."""
    world.hub.api.update_repo_settings("unseen/base", repo_type="dataset", private=True)
    try:
        (step,) = Registry.load(world.folder, hub=Hub(world.hub.endpoint)).plan(names=["base"], workers=1).steps
    finally:
        world.hub.api.update_repo_settings("unseen/base", repo_type="dataset", private=False)
    assert (step.status, step.last) == ("publish", None)
    (note,) = step.notes
    assert note.startswith("arm.lock says that 1.0.0 of unseen/base was published, and http://127.0.0.1:")
    assert world.step().notes == ()


def test_a_hub_that_gives_no_answer_is_asked_by_one_dataset_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "WAITS_S", (0.0,))
    said: list[str] = []
    down = Hub("http://127.0.0.1:9", progress=said.append)
    plan = Registry.load(world.folder, hub=down).plan(workers=1)
    assert [step.status for step in plan.steps] == ["refused"] * 3  # and the checkpoint
    assert all("reading refs: " in step.refusals[0].message for step in plan.steps)
    assert len(said) == 1


# -- a saved plan that was carried out, in part or by somebody else ---------------------------------------------------


def problems(plan: Plan, agreed: object, file: Path) -> list[str]:
    file.write_text(json.dumps(agreed))
    with pytest.raises(ArmError) as caught:
        SavedPlan.read(file).check(plan)
    assert caught.value.next_command == f"arm plan --out {file}   # and look at it again"
    return [f"{issue.path} {issue.message}" for issue in caught.value.issues]


def test_what_a_saved_plan_asked_for_may_be_there_already(running: Running, tmp_path: Path) -> None:
    world = World.make(tmp_path / "registry", running.client(), "again")
    world.edit(("Pages.", "Other pages."))
    world.move("1.0.1")
    agreed = saved(world.plan("base"))
    (done,) = world.registry().apply(world.plan("base"))
    world.hub.api.delete_tag("again/base", tag="v1.0.1", repo_type="dataset")  # as a killed apply leaves it
    (said,) = problems(world.plan("base"), agreed, tmp_path / "plan.json")
    assert said == f"$.steps[0] its files are at the head {done.commit} already, without the tag v1.0.1"
    world.registry().apply(world.plan("base"))
    (said,) = problems(world.plan("base"), agreed, tmp_path / "plan.json")
    assert said == f"$.steps[0] base 1.0.1 is published with what the plan says, at {done.commit}"
    world.flip()
    (said,) = problems(world.plan("base"), agreed, tmp_path / "plan.json")
    assert said.startswith("$.steps[0] base 1.0.1 is refused now: v1.0.1 is published at ")


@pytest.mark.parametrize("text", ["registry: 1", '{"lock": 1}'])
def test_a_file_that_is_no_plan_is_not_named_as_one_to_write(text: str, tmp_path: Path) -> None:
    """`arm apply registry.yaml`, typed by mistake, must not lead to `arm plan --out registry.yaml`."""
    file = tmp_path / "registry.yaml"
    file.write_text(text)
    with pytest.raises(ArmError) as caught:
        SavedPlan.read(file)
    assert caught.value.next_command == "arm plan --out plan.json   # and look at it again"
