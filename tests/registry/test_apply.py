"""Applying a plan: what is sent, what is noted, and a saved plan that somebody wrote on."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from action_reward_models.hub_sync.pull import pull
from action_reward_models.registry import Registry
from action_reward_models.registry.apply import SavedPlan, saved
from action_reward_models.registry.plan import Plan
from action_reward_models.registry.sources.lock import Lock
from action_reward_models.schemas.errors import ArmError

from ..hub_sync.conftest import Running
from .world import World

SHARDS = 8


@pytest.fixture(scope="module")
def published(running: Running, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("world") / "registry", running.client(), "applied")


@pytest.fixture
def world(published: World, tmp_path: Path) -> World:
    return published.copy(tmp_path / "registry")


def test_one_label_and_one_line_of_the_card(running: Running, tmp_path: Path) -> None:
    """Of eight shards per table only those that hold the changed rows are sent; the rest stays as it is."""
    world = World(tmp_path / "registry", running.client(), "sharded")
    world.folder.mkdir()
    world.records(pages=64)
    (world.folder / "registry.yaml").write_text((Path(__file__).parent / "sharded.yaml").read_text("utf-8"), "utf-8")
    first = world.registry()
    first.apply(first.plan(workers=1))
    world.flip(page=5)
    card = world.folder / "build" / "base" / "README.md"
    card.write_text(card.read_text("utf-8") + "\nAsk Ada first.\n", "utf-8")
    kept = world.step()
    assert kept.refusals[0].next_command == 'raise the version in registry.yaml: version: "1.1.0"'
    world.version("1.1.0")
    plan = world.registry().plan(workers=1)
    (step,) = plan.steps
    assert step.diff is not None
    assert step.push is not None
    report = step.diff.to_json()
    assert report["label_flips"]["total"] == 1
    (flip,) = report["label_flips"]["first"]
    assert flip["label_id"] == "e5__t0#d0|toy|-|0"
    assert (flip["before"]["selected_index"], flip["after"]["selected_index"]) == (1, 0)
    assert (flip["before"]["action"], flip["after"]["action"]) == ("click(7, 7)", "click(1, 1)")
    rows = {name: table["rows"] for name, table in report["tables"].items()}
    assert [rows[t]["changed"] for t in ("states", "candidate_sets", "teacher_labels", "selection_sft")] == [0, 0, 1, 1]
    assert (rows["bt_pairs"]["added"], rows["bt_pairs"]["removed"]) == (1, 1)
    follows = {name: table["follows_flips"] for name, table in report["tables"].items() if table["follows_flips"]}
    assert follows["selection_sft"] == {"added": 0, "removed": 0, "changed": 1}
    assert follows["bt_pairs"] == {"added": 1, "removed": 1, "changed": 0}
    assert "+Ask Ada first." in report["card"]["words"]["lines"]
    assert (str(step.level), step.last) == ("minor", "1.0.0")
    data = [operation.path for operation in step.push.operations if operation.path.startswith("data/")]
    assert sorted(path.split("/")[1] for path in data) == ["bt_pairs", "selection_sft", "teacher_labels"]
    tables = step.push.release.manifest["identity"]["tables"]
    shards = {
        name: len({f["path"][-23:] for s in t["splits"].values() for f in s["files"]}) for name, t in tables.items()
    }
    assert min(n for name, n in shards.items() if name != "exclusions") == SHARDS
    rest = {o.path for o in step.push.operations} - set(data)
    assert rest - {"assets/slots.png"} == {"README.md", "manifest.json", "load.py"}  # the figure shows the flip
    (done,) = world.registry().apply(plan)
    assert done.committed
    assert done.loaded["teacher_labels"]["train"] > 0  # by stock datasets, one shard of each table
    pull(world.hub, "sharded/base", "v1.1.0", tmp_path / "pulled")
    loaded = pq.read_table(tmp_path / "pulled" / "data" / "teacher_labels").to_pydict()
    picked = dict(zip(loaded["label_id"], loaded["selected_index"], strict=True))
    assert picked["e5__t0#d0|toy|-|0"] == 0
    assert world.registry().plan(workers=1).nothing


# -- what is noted ----------------------------------------------------------------------------------------------------


def test_what_is_published_is_noted_in_the_lock(world: World) -> None:
    lock = Lock.read(world.folder / "arm.lock")
    refs = world.hub.refs("applied/base")
    assert refs is not None
    entry = lock.published["base"]["1.0.0"]
    assert (entry["repo"], entry["commit"]) == ("applied/base", refs.tags["v1.0.0"])
    manifest = json.loads((world.folder / "build" / "base" / "manifest.json").read_text())
    assert entry["identity_sha256"] == manifest["identity_sha256"]
    (world.folder / "arm.lock").unlink()  # a lost lock finds out again
    registry = world.registry()
    registry.lock()
    registry.apply(registry.plan(workers=1))
    assert Lock.read(world.folder / "arm.lock").published == lock.published


def test_words_that_were_kept_from_the_hub_are_the_local_ones_afterwards(running: Running, tmp_path: Path) -> None:
    world = World.make(tmp_path / "registry", running.client(), "words")
    card = world.folder / "build" / "base" / "README.md"
    text = card.read_text("utf-8")
    theirs = (text + "\nWritten on the Hub.\n").encode()
    world.hub.api.upload_file(
        path_or_fileobj=theirs, path_in_repo="README.md", repo_id="words/base", repo_type="dataset"
    )
    card.write_text(text + "\nWritten here.\n", "utf-8")
    world.version("1.0.1")
    assert "words of a person" in world.step().refusals[0].message
    plan = world.plan("base", keep="hub")
    world.registry().apply(plan)
    assert "Written on the Hub." in card.read_text("utf-8")
    assert "Written here." not in card.read_text("utf-8")
    assert world.plan("base").nothing


def test_a_copy_elsewhere_is_no_version_of_the_registry(world: World) -> None:
    plan = world.plan("base", repo="applied/copy")
    (done,) = world.registry().apply(plan)
    assert (done.repo, done.committed) == ("applied/copy", True)
    assert set(Lock.read(world.folder / "arm.lock").published["base"]) == {"1.0.0"}
    assert Lock.read(world.folder / "arm.lock").published["base"]["1.0.0"]["repo"] == "applied/base"


def test_a_plan_with_a_refusal_publishes_nothing(world: World) -> None:
    world.flip()
    world.move("1.0.1")
    world.version("1.0.1", "derived")
    plan = world.plan()
    assert [step.status for step in plan.steps] == ["refused", "refused"]
    with pytest.raises(ArmError, match=r"nothing was published: 1.0.1 does not fit after 1.0.0.*and 1 more"):
        world.registry().apply(plan)


# -- saved plans ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned(published: World, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A plan that has both datasets to publish."""
    world = published.copy(tmp_path_factory.mktemp("agreed") / "registry")
    world.edit(("Pages.", "Other pages."))
    world.move("1.0.1")
    world.version("1.0.1", "derived")
    plan = world.plan()
    assert [step.status for step in plan.steps] == ["publish", "publish"], [e.message for e in plan.refusals]
    return plan


@pytest.fixture
def agreed(planned: Plan) -> dict[str, Any]:
    """The plan as it was saved."""
    return copy.deepcopy(saved(planned))


def held(plan: Plan, data: Any, file: Path) -> list[str]:
    """What is said of a saved plan that is held against one made now."""
    file.write_text(json.dumps(data))
    with pytest.raises(ArmError) as caught:
        SavedPlan.read(file).check(plan)
    assert caught.value.where == str(file)
    assert "arm plan" in str(caught.value.next_command)
    return [f"{issue.path} {issue.message}" for issue in caught.value.issues]


def step(data: dict[str, Any], number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = data["steps"][number]
    return found


def operation(data: dict[str, Any], path: str) -> dict[str, Any]:
    found: dict[str, Any] = next(o for o in step(data)["operations"] if o["path"] == path)
    return found


OTHER = "f" * 64
EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a path outside the build": (
        lambda d: operation(d, "README.md").update(path="../../.ssh/authorized_keys"),
        "'../../.ssh/authorized_keys' is no file of the build",
    ),
    "an absolute path": (lambda d: operation(d, "README.md").update(path="/etc/passwd"), "is no file of the build"),
    "a file that no build has": (lambda d: operation(d, "README.md").update(path="evil.py"), "is no file of the build"),
    "a file that does not change": (
        lambda d: operation(d, "README.md").update(path="schemas/state-1.json"),
        "schemas/state-1.json would not change",
    ),
    "another digest": (lambda d: operation(d, "README.md").update(sha256=OTHER), f"of README.md is {OTHER}"),
    "another size": (lambda d: operation(d, "README.md").update(bytes=1), "of README.md is 1, and"),
    "another action": (lambda d: operation(d, "README.md").update(action="delete"), "of README.md is delete, and"),
    "an unknown operation": (lambda d: operation(d, "README.md").update(action="execute"), "\"execute\", not one of"),
    "an operation twice": (
        lambda d: step(d)["operations"].append(copy.deepcopy(operation(d, "README.md"))),
        "README.md stands twice",
    ),
    "an operation less": (lambda d: step(d)["operations"].remove(operation(d, "README.md")), "lacks README.md"),
    "a moved head": (lambda d: step(d).update(base="a" * 40), "the head moved: the plan rests on aaaa"),
    "another repository": (lambda d: step(d).update(repo="evil/base"), "is another repository: evil/base"),
    "another version": (lambda d: step(d).update(version="9.9.9"), "is another version: 9.9.9"),
    "another build": (lambda d: step(d).update(identity_sha256=OTHER), "the build is"),
    "another visibility": (lambda d: step(d).update(private=True), "is another visibility: True"),
    "another Hub": (lambda d: d.update(endpoint="https://evil.example"), "is https://evil.example, and HF_ENDPOINT is"),
    "another dataset": (lambda d: step(d).update(name="unknown"), "unknown is no dataset of this registry"),
    "a step twice": (lambda d: d["steps"].append(copy.deepcopy(step(d))), "base stands twice"),
    "another order": (lambda d: d["steps"].reverse(), "the order is base, derived"),
    "an unknown key": (lambda d: d.update(run="rm -rf"), "$.run is not a known field"),
    "a later form": (lambda d: d.update(plan=2), "$.plan"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_a_plan_edited_by_hand_is_refused_by_name(
    planned: Plan, agreed: dict[str, Any], tmp_path: Path, name: str
) -> None:
    edit, said = EDITS[name]
    edit(agreed)
    found = held(planned, agreed, tmp_path / "plan.json")
    assert any(said in problem for problem in found), found
    assert all(problem.startswith("$") for problem in found)


def test_a_plan_as_it_was_saved_is_held_to_be_right(planned: Plan, agreed: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(agreed))
    SavedPlan.read(file).check(planned)
    for text in ("", "[]", "null", "{"):
        file.write_text(text)
        with pytest.raises(ArmError):
            SavedPlan.read(file)
    with pytest.raises(ArmError, match="cannot be read"):
        SavedPlan.read(tmp_path / "none.json")


def test_what_changed_since_is_named(running: Running, tmp_path: Path) -> None:
    """The build, and the head of the Hub."""
    world = World.make(tmp_path / "registry", running.client(), "since")
    file = tmp_path / "plan.json"
    world.edit(("Pages.", "Other pages."))
    world.move("1.0.1")
    data = saved(world.plan("base"))
    world.hub.api.upload_file(
        path_or_fileobj=b"notes", path_in_repo="NOTES.md", repo_id="since/base", repo_type="dataset"
    )
    (problem,) = held(world.plan("base"), data, file)
    assert problem.startswith("$.steps[0].base the head moved")
    world.edit(("Other pages.", "Yet other pages."))
    assert any("the build is" in problem for problem in held(world.plan("base"), data, file))


def test_an_edited_plan_makes_nothing_public_that_is_asked_to_be_private(running: Running, tmp_path: Path) -> None:
    """Who sees a repository to be created is the one thing that only the saved plan says, unless it is said again."""
    world = World(tmp_path / "registry", running.client(), "hidden")
    world.folder.mkdir()
    world.records(pages=2)
    text = (Path(__file__).parent / "sharded.yaml").read_text("utf-8").replace("shards: 8", "shards: 1")
    (world.folder / "registry.yaml").write_text(text.replace("sharded", "hidden"), "utf-8")
    plan = tmp_path / "plan.json"

    def arm(*words: str) -> Any:
        return running.arm(*words, cwd=world.folder)

    assert arm("plan", "--private", "--out", str(plan)).returncode == 0
    agreed = json.loads(plan.read_bytes())
    repo = agreed["steps"][0]["repo"]
    plan.write_text(json.dumps({**agreed, "steps": [{**agreed["steps"][0], "private": False}]}))
    refused = arm("apply", str(plan), "--private")
    assert (refused.returncode, "is another visibility: False" in refused.stderr) == (1, True)
    assert world.hub.refs(repo) is None
    plan.write_text(json.dumps(agreed))
    assert arm("apply", str(plan)).returncode == 0
    assert world.hub.is_private(repo)


def test_a_plan_without_anything_to_do_is_not_saved(world: World) -> None:
    with pytest.raises(ArmError, match="there is nothing to publish"):
        saved(world.plan())
    world.flip()
    with pytest.raises(ArmError, match=r"no plan was saved: v1\.0\.0 is published at [0-9a-f]{40} with other content"):
        saved(world.plan("base"))


def test_the_registry_of_a_plan_is_its_own(world: World) -> None:
    assert Registry.load(world.folder, hub=world.hub).plan(names=["base"], workers=1).nothing
