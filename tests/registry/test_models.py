"""Checkpoints in a registry: what makes one stale, what refuses it, which version fits, and what is published."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.hub_sync import commit, pull, readback
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.recipes import manifest as manifests
from action_reward_models.recipes.evaluation import recompute
from action_reward_models.recipes.manifest import manifest_of
from action_reward_models.registry import Registry
from action_reward_models.registry.alone import of_recipe
from action_reward_models.registry.builds import check_checkpoint
from action_reward_models.registry.plan import plan_folder
from action_reward_models.registry.provenance.history import history
from action_reward_models.registry.provenance.walk import of_revision
from action_reward_models.registry.sources.lock import Lock
from action_reward_models.registry.sources.models import Models
from action_reward_models.schemas.errors import ArmError

from ..hub_sync.conftest import Running, start
from ..recipes.evaluation.answers import answered
from . import checkpoints
from .model_world import World


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Any:
    running = start(tmp_path_factory.mktemp("hub"))
    yield running
    serve.stop(running.folder)


@pytest.fixture(scope="module")
def published(own: Running, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("world") / "registry", own.client())


@pytest.fixture
def world(published: World, tmp_path: Path) -> World:
    return published.copy(tmp_path / "registry")


def refusal(world: World) -> ArmError:
    step = world.step()
    assert step.status == "refused"
    return step.refusals[0]


# -- what is published ------------------------------------------------------------------------------------------------


def test_a_published_checkpoint_is_noted_and_nothing_to_do(world: World) -> None:
    models = world.hub.of("model")
    refs = models.refs("lab/judge")
    assert refs is not None
    step = world.step()
    assert (step.status, step.push and step.push.tagged) == ("nothing", refs.tags["v1.0.0"])
    entry = Lock.read(world.folder / "arm.lock").published["judge"]["1.0.0"]
    assert (entry["repo"], entry["commit"]) == ("lab/judge", refs.tags["v1.0.0"])
    held = set(models.files("lab/judge", refs.head)) - {".gitattributes"}
    assert held == {path.relative_to(world.built).as_posix() for path in world.built.rglob("*") if path.is_file()}
    assert check_checkpoint(world.built) == []


def test_it_leads_to_dataset_base_and_parent(world: World) -> None:
    found = of_revision(world.hub, "lab/judge", "v1.0.0").root
    assert [(node.kind, node.name) for node in found.inputs] == [
        ("dataset", "lab/pages"),
        ("repository", "lab/tiny-base"),
    ]
    assert all(node.commit for node in found.inputs)


def test_only_weights_and_plain_files_of_the_base_are_fetched(world: World) -> None:
    base = world.node.inputs().base
    assert {path.name for path in base.iterdir()} == {"config.json", "model.safetensors"}  # and no pytorch_model.bin
    away = Registry.load(world.folder, hub=Hub("http://127.0.0.1:9"))
    assert away.model("judge").inputs().base == base  # without the network
    (base / "model.safetensors").write_bytes(b"damaged")
    assert world.node.inputs().base == base
    assert (base / "model.safetensors").read_bytes() == checkpoints.weights(b"base")
    (base / "planted.safetensors").write_bytes(b"")
    with pytest.raises(ArmError):
        Models(world.folder / "build" / ".sources", None).base("lab/tiny-base", base.name)
    assert world.node.inputs().base == base
    assert not (base / "planted.safetensors").exists()


def test_a_base_that_is_only_a_pickle_is_not_fetched(world: World) -> None:
    api = world.hub.api
    api.create_repo("lab/pickled", repo_type="model", exist_ok=True)
    api.upload_file(path_or_fileobj=b"{}", path_in_repo="config.json", repo_id="lab/pickled")
    done = api.upload_file(path_or_fileobj=b"\x80\x04N.", path_in_repo="pytorch_model.bin", repo_id="lab/pickled")
    with pytest.raises(ArmError, match="holds no weights as safetensors"):
        Models(world.folder / "build" / ".sources", world.hub).base("lab/pickled", str(done.oid))


# -- what it is called, and the version rule --------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """After ``change``, version 1.0.0 is refused, ``because`` of this, and ``right`` is said to be the one."""

    change: Callable[[World], Any]
    right: str
    because: str


def trained_otherwise(world: World) -> None:
    world.edit("seed: 1", "seed: 2", "recipes/judge.yaml")
    world.node.build()


def contract(**changes: Any) -> Callable[[World], None]:
    def change(world: World) -> None:
        said = manifest_of(world.built)["checkpoint"]
        world.rewrite(
            checkpoint={**said, **{k: {**said[k], **v} if isinstance(v, dict) else v for k, v in changes.items()}}
        )

    return change


def card(world: World) -> None:
    path = world.built / "README.md"
    path.write_text(path.read_text("utf-8") + "\nAsk Ada first.\n", "utf-8")


def log(world: World) -> None:
    (world.built / "training" / "log.jsonl").write_text('{"step": 1, "loss": 0.5, "epoch": 1}\n')
    world.rewrite()


CASES = {
    "other weights": Case(trained_otherwise, "1.1.0", "the weights differ"),
    "another limit": Case(contract(processor={"max_tokens": 32}), "2.0.0", "processor.max_tokens: 64 -> 32"),
    "another type of the base": Case(contract(dtype="bfloat16"), "2.0.0", "dtype: float32 -> bfloat16"),
    "words on the card": Case(card, "1.0.1", "the words on the card differ"),
    "another licence": Case(
        lambda w: w.edit("license: mit, d", "license: apache-2.0, d"), "1.0.1", "license: mit -> apache-2.0"
    ),
    "other words about it": Case(lambda w: w.edit("Judges.", "Judges pages."), "1.0.1", "the description differs"),
    "a file beside the weights": Case(log, "1.0.1", "files beside the weights differ"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_changed_says_which_version_fits(world: World, case: Case) -> None:
    case.change(world)
    step = world.step()
    assert step.status == "refused"
    assert case.because in "; ".join(step.because)
    assert step.refusals[0].next_command == f'raise the version in registry.yaml: version: "{case.right}"'
    world.version(case.right)
    assert world.step().status == "publish"


def test_another_version_is_said_anew_and_not_trained(world: World) -> None:
    weights = (world.built / "adapter_model.safetensors").stat()
    card(world)
    world.version("1.0.1")
    assert world.node.reasons() == []
    step = world.step()
    assert (step.status, step.built) == ("publish", ('version: "1.0.0" -> "1.0.1"',))
    manifest = manifest_of(world.built)
    assert (manifest["identity"]["version"], check_checkpoint(world.built)) == ("1.0.1", [])
    assert "Ask Ada first." in (world.built / "README.md").read_text("utf-8")
    assert (world.built / "adapter_model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns


# -- what refuses -----------------------------------------------------------------------------------------------------


def test_without_a_licence_nothing_is_published(world: World) -> None:
    world.edit(", license: mit, description", ", description")
    assert "has no licence" in refusal(world).message


def test_what_is_not_trained_as_declared_is_refused_and_not_trained(world: World) -> None:
    shutil.rmtree(world.built)
    error = refusal(world)
    assert "there is no checkpoint yet" in error.message
    assert f"arm train {world.folder}/registry.yaml --name judge" in str(error.next_command)
    assert not world.built.exists()


def test_what_rests_on_an_unpublished_dataset_is_refused(world: World) -> None:
    world.edit('name: pages\n    version: "1.0.0"', 'name: pages\n    version: "1.1.0"')
    world.edit("pages@1.0.0", "pages@1.1.0", "recipes/judge.yaml")
    world.registry().build("pages", workers=1)
    world.node.build()
    world.version("1.1.0")
    assert "which is not published" in refusal(world).message
    both = world.registry().plan(workers=1)
    assert [step.status for step in both.steps] == ["publish", "refused"]
    assert both.steps[1].refusals[0].next_command == "arm apply --name pages   # then plan again"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("base: {model: lab/tiny-base, revision: v1}", "base: {folder: .}"),
        ("dataset: pages@1.0.0", "dataset: {folder: .}"),
    ],
)
def test_folders_are_for_recipes_that_stand_alone(world: World, old: str, new: str) -> None:
    world.edit(old, new, "recipes/judge.yaml")
    with pytest.raises(ArmError) as caught:
        world.registry()
    assert any("is a folder, which is for trying out" in issue.message for issue in caught.value.issues)


LEAKS: dict[str, tuple[str, bytes, str]] = {
    "a pickle": ("optimizer.pt", b"\x80\x04N.", "is no file of a checkpoint"),
    "settings of a trainer": ("training_args.bin", b"PK", "is no file of a checkpoint"),
    "a state of a trainer": ("training/trainer_state.json", b"{}", "is no file of a checkpoint"),
    "code": ("modeling.py", b"print()", "is no file of a checkpoint"),
    "a pickle called weights": ("value_head.safetensors", b"\x80\x04N." * 9, "is no safetensors file"),
    "something behind the weights": (
        "value_head.safetensors", checkpoints.weights(b"head") + b"\x80\x04N.", "tensors end at 4"
    ),
    "a path of somebody's home": ("config.json", b'{"a": ["/home/ada/base"]}', "names a place on the machine"),
    "a path of a drive": ("config.json", b'{"a": "C:\\\\models\\\\base"}', "names a place on the machine"),
    "an address of a file": ("prompts/x.json", b'{"a": "file:///models/base"}', "names a place on the machine"),
    "a path in a log": ("training/log.jsonl", b'{"step": 1}\n{"d": "/data/runs"}\n', "names a place on the machine"),
    "what is no JSON": ("config.json", b"{", "is not JSON"),
    "what is no text": ("chat_template.jinja", b"\xff\xfe", "is not UTF-8"),
    "a figure that is none": ("assets/a.png", b"\x80\x04N.", "is no picture"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "data", "said"), LEAKS.values(), ids=LEAKS)
def test_what_nobody_should_get_is_not_published(world: World, name: str, data: bytes, said: str) -> None:
    (world.built / name).parent.mkdir(parents=True, exist_ok=True)
    (world.built / name).write_bytes(data)
    world.rewrite()
    world.version("1.1.0")
    found = [issue for issue in refusal(world).issues if issue.file == name]
    assert any(said in issue.message for issue in found), found


def measured(world: World, **said: Any) -> dict[str, Any]:
    """Let the checkpoint have been asked about five sets, three of them right. ``said``: other figures than follow."""
    rows = [answered(f"s{number}\u2028\x85", int(number > 3)) for number in range(5)]  # no ends of lines
    path = world.built / "evaluation" / "validation" / "predictions.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    identity = manifest_of(world.built)["identity"]["dataset"]
    entry = {
        "name": "validation", "dataset": {**identity, "commit": None}, "split": "validation", "left_out": {},
        "pairs_left_out": {}, "teacher": "toy", **recompute(rows, "selection_arm"), **said,
    }  # fmt: skip
    world.rewrite(evaluations=[entry])
    return entry


def issues(world: World) -> list[str]:
    return [f"{issue.file} {issue.path} {issue.message}" for issue in check_checkpoint(world.built)]


def test_figures_follow_from_the_predictions_or_are_not_published(world: World) -> None:
    entry = measured(world)
    assert issues(world) == []
    (report, *others) = entry["reports"]
    assert report["value"] == 0.8
    measured(world, reports=[{**report, "value": 0.99}, *others])
    path = "evaluation/validation/predictions.jsonl"
    wrong = f"manifest.json $.evaluations[0].reports is not what follows from {path}"
    assert issues(world) == [wrong]
    world.version("1.0.1")
    world.node.relabel()
    assert wrong in "; ".join(f"{issue.file} {issue.path} {issue.message}" for issue in refusal(world).issues)
    environment = manifest_of(world.built)["environment"]
    world.rewrite(evaluations=[{**entry, "slots": [9]}])
    assert f"manifest.json $.evaluations[0].slots is not what follows from {path}" in issues(world)
    older = {**environment, "files": manifest_of(world.built)["environment"]["files"], "action_reward_models": "0.0.1"}
    manifests.write(world.built, {**manifest_of(world.built), "environment": older})
    assert not [issue for issue in issues(world) if "$.evaluations" in issue], "another version counts other things"
    measured(world, reports=[{**report, "value": 0.99}, *others])
    older = {**older, "files": manifest_of(world.built)["environment"]["files"]}
    manifests.write(world.built, {**manifest_of(world.built), "environment": older})
    assert wrong in issues(world)
    measured(world, dataset={**entry["dataset"], "identity_sha256": "0" * 64})
    assert "manifest.json $.evaluations[0].dataset is another build than that of $.identity.dataset" in issues(world)
    measured(world)
    rows = (world.built / path).read_bytes().splitlines(keepends=True)
    (world.built / path).write_bytes(b"".join(rows[:3]) + b"{}\n")
    world.rewrite()
    assert any(issue.startswith(f"{path} $ ") for issue in issues(world))
    (world.built / path).unlink()
    world.rewrite()
    missing = f"manifest.json $.evaluations[0] nobody can count again what it says: there is no {path}"
    assert missing in issues(world)


CONTRADICTIONS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another base": (lambda said: said["identity"]["base"].update(commit="0" * 40), "it was trained from 000000000000"),
    "another kind": (
        lambda said: said["checkpoint"].update(kind="scalar"), "kind is scalar, and its recipe trains a selection_arm"
    ),
    "more rows": (lambda said: said["training"].update(used=99), "training.used and training.unusable are not all"),
    "another end": (lambda said: said["training"].update(loss_last=0.01), "are not the ends of training.curve"),
    "another LoRA": (
        lambda said: said["identity"]["recipe"].update(lora={"r": 8}), "lora.r of its recipe is 8, and adapter_config"
    ),
    "another loss": (
        lambda said: said["training"]["curve"][0].update(loss=0.01),
        "training.curve is not what training/log.jsonl says",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "told"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_manifest_does_not_contradict_itself(world: World, change: Any, told: str) -> None:
    config = orjson.loads((world.built / "adapter_config.json").read_bytes())
    (world.built / "adapter_config.json").write_bytes(orjson.dumps({**config, "r": 4}))
    said = manifest_of(world.built)
    change(said)
    world.rewrite(**{key: said[key] for key in ("identity", "checkpoint", "training")})
    assert any(told in issue for issue in issues(world)), issues(world)


def test_the_commit_of_the_dataset_is_said_when_it_is_known(world: World) -> None:
    measured(world)
    assert world.node.relabel()
    (one,) = manifest_of(world.built)["evaluations"]
    assert one["dataset"]["commit"] == world.node.dataset_commit is not None
    assert {report["dataset_commit"] for report in one["reports"]} == {world.node.dataset_commit}
    assert issues(world) == []


def test_the_folder_that_it_was_made_in_is_named_nowhere(world: World) -> None:
    (world.built / "chat_template.jinja").write_text(f"{{# {world.built.parent}/x #}}")
    world.rewrite()
    world.version("1.1.0")
    assert [issue.file for issue in refusal(world).issues] == ["chat_template.jinja"]


# -- apply ------------------------------------------------------------------------------------------------------------


def test_what_scores_otherwise_after_download_gets_no_tag(world: World) -> None:
    trained_otherwise(world)
    world.version("1.1.0")

    def otherwise(folders: Any, **_: Any) -> Any:
        raise ArmError("gives other scores: they differ by up to 0.5", where="x")

    with pytest.raises(ArmError, match=r"gives other scores.*no tag was set"):
        world.push(compare=otherwise)
    refs = world.hub.of("model").refs("lab/judge")
    assert refs is not None
    assert "v1.1.0" not in refs.tags
    done = world.push()  # the commit is there; nothing is sent twice
    assert (done.committed, done.tagged, done.commit) == (False, True, refs.head)


@pytest.mark.parametrize("killed", ["before the commit", "after the commit", "before the tag"])
def test_a_killed_apply_is_safe_to_run_again(
    own: Running, published: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    world = published.copy(tmp_path / "registry")
    name = f"judge-{killed.replace(' ', '-')}"
    world.edit("name: judge,", f"name: {name},")
    shutil.move(world.built, world.built.with_name(name))

    class KilledError(BaseException):
        pass

    def kill(*_: Any, **__: Any) -> Any:
        raise KilledError

    places = {
        "before the commit": (commit.Upload, "_create"), "after the commit": (readback, "reload"),
        "before the tag": (world.hub.of("model").api.__class__, "create_tag"),
    }  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(*places[killed], kill)
        with pytest.raises(KilledError):
            world.registry().apply(world.registry().plan(names=[name]))
    registry = world.registry()
    (done,) = registry.apply(registry.plan(names=[name]))
    refs = world.hub.of("model").refs(f"lab/{name}")
    assert refs is not None
    assert refs.tags == {"v1.0.0": done.commit}
    assert done.scored == {"conversations": 1, "max_difference": 0.0}
    assert len(world.hub.of("model").commits(f"lab/{name}", "main")) == 2  # the first is the empty repository
    assert Lock.read(world.folder / "arm.lock").published[name]["1.0.0"]["commit"] == done.commit


def test_weights_of_a_person_are_in_the_way(world: World) -> None:
    world.edit("name: judge,", "name: taken,")
    shutil.move(world.built, world.built.with_name("taken"))
    api = world.hub.api
    api.create_repo("lab/taken", repo_type="model")
    api.upload_file(path_or_fileobj=b"\x80\x04N.", path_in_repo="pytorch_model.bin", repo_id="lab/taken")
    registry = world.registry()
    (step,) = registry.plan(names=["taken"]).steps
    assert "holds files that no build made" in step.refusals[0].message
    assert "pytorch_model.bin" in step.refusals[0].message


def test_history_pull_and_a_second_version(own: Running, published: World, tmp_path: Path) -> None:
    world = published.copy(tmp_path / "registry")
    world.edit("name: judge,", "name: historic,")
    shutil.move(world.built, world.built.with_name("historic"))
    registry = world.registry()
    registry.apply(registry.plan(names=["historic"]))
    world.edit("seed: 1", "seed: 5", "recipes/judge.yaml")
    world.edit('name: historic, version: "1.0.0"', 'name: historic, version: "1.1.0"')
    registry = world.registry()
    registry.model("historic").build()
    registry.apply(registry.plan(names=["historic"]))
    newest, oldest = history(world.hub.of("model"), "lab/historic").versions
    assert (newest.version, newest.change and newest.change.level) == ("1.1.0", "minor")
    assert newest.change is not None
    assert newest.change.reasons == ("the weights differ", "the recipe differs")
    assert oldest.rows == {}
    pull.pull(world.hub.of("model"), "lab/historic", "v1.0.0", tmp_path / "pulled")
    assert check_checkpoint(tmp_path / "pulled") == []
    done = own.arm("yank", "lab/historic@v1.0.0", "--reason", "wrong seed", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = own.arm("log", "lab/historic", "--json", cwd=tmp_path)
    assert orjson.loads(done.stdout)["versions"][1]["withdrawn"] == "wrong seed"
    done = own.arm("pull", "models/lab/historic@v1.0.0", "--out", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "wrong seed" in done.stderr
    done = own.arm("diff", "lab/historic@v1.0.0", "lab/historic@v1.1.0", cwd=tmp_path)
    assert (done.returncode, "is a checkpoint" in done.stderr) == (2, True)


# -- training further, and recipes that stand alone -------------------------------------------------------------------


def test_a_published_checkpoint_is_trained_further(world: World) -> None:
    from .lineage_world import further

    text = (world.folder / "recipes" / "judge.yaml").read_text()
    (world.folder / "recipes" / "more.yaml").write_text(further(text, "judge@1.0.0"))
    with (world.folder / "registry.yaml").open("a") as file:
        file.write('  - {name: more, version: "1.0.0", recipe: recipes/more.yaml, license: mit}\n')
    registry = world.registry()
    with pytest.raises(ArmError, match=r"lab/judge@v1.0.0 is not in arm.lock"):
        registry.model("more").inputs()
    registry.lock()
    inputs = world.registry().model("more").inputs()
    assert inputs.start is not None
    assert check_checkpoint(inputs.start) == []
    assert inputs.base_source["repo"] == "lab/tiny-base"
    assert inputs.identity["init_from"]["repo"] == "lab/judge"
    away = Registry.load(world.folder, hub=Hub("http://127.0.0.1:9"))
    assert away.model("more").inputs().start == inputs.start  # without the network
    world.edit("selection_arm", "scalar", "recipes/more.yaml")
    with pytest.raises(ArmError, match="which is a selection_arm, and the recipe is of a scalar"):
        world.registry().model("more").inputs()


def test_a_recipe_finds_the_registry_that_declares_it(world: World) -> None:
    registry, names = of_recipe(world.folder / "recipes" / "judge.yaml")
    assert (registry.path.resolve(), names) == ((world.folder / "registry.yaml").resolve(), ("judge",))
    assert Registry.load(world.folder / "recipes" / "judge.yaml").path == registry.path


def test_a_recipe_alone_has_no_namespace(world: World, tmp_path: Path) -> None:
    alone = tmp_path / "mine.yaml"
    shutil.copy(world.folder / "recipes" / "judge.yaml", alone)
    with pytest.raises(ArmError) as error:
        Registry.load(alone)
    (issue,) = error.value.issues
    assert (issue.path, "write NAMESPACE/pages@1" in issue.message) == ("$.dataset", True)


def test_a_recipe_alone_is_trained_and_not_published(world: World, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere" / "mine.yaml"
    alone.parent.mkdir()
    shutil.copytree(world.node.inputs().base, alone.parent / "base")
    text = (world.folder / "recipes" / "judge.yaml").read_text()
    alone.write_text(text.replace("model: lab/tiny-base, revision: v1", "folder: base").replace("pages@", "lab/pages@"))
    registry = Registry.load(alone, hub=world.hub, make=checkpoints.make)
    with pytest.raises(ArmError, match=r"is not in arm\.lock"):
        registry.model("mine").reasons()
    registry.lock()
    (alone.parent / "other.yaml").write_text(alone.read_text())
    Registry.load(alone.parent / "other.yaml", hub=world.hub).lock()
    assert registry.lock_problems() == []
    manifest = registry.model("mine").build()
    assert manifest is not None
    assert manifest["identity"]["base"] == {"repo": None, "revision": None, "commit": None,
                                            "sha256": manifest["checkpoint"]["base"]["sha256"]}  # fmt: skip
    assert (alone.parent / "build" / "mine" / "manifest.json").is_file()
    assert registry.model("mine").reasons() == []
    (alone.parent / "base" / "config.json").write_text('"other"')
    assert ["base.sha256" in reason for reason in registry.model("mine").reasons()] == [True]
    (step,) = registry.plan().steps
    assert "no registry declares this recipe" in step.refusals[0].message
    (step,) = plan_folder(registry.model("mine").folder, world.hub).steps
    assert "has no licence" in step.refusals[0].message


def test_training_that_failed_goes_on_with_what_is_left(world: World) -> None:
    world.edit("seed: 1", "seed: 9", "recipes/judge.yaml")
    (world.node.work / "fail").mkdir(parents=True)
    before = manifest_of(world.built)
    with pytest.raises(ArmError, match="training fails"):
        world.node.build()
    assert manifest_of(world.built) == before
    world.node.build(restart=True)
    assert world.node.reasons() == []


def test_a_card_that_another_version_wrote_is_written_anew(world: World) -> None:
    path = world.built / "README.md"
    path.write_text(path.read_text("utf-8").replace("adapter", "adaptor"), "utf-8")
    assert world.step().built == ("the card, as this version writes it",)
    assert "adaptor" not in path.read_text("utf-8")
    assert world.step().status == "nothing"
