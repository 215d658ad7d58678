"""``arm train``: what it says before and after, which checkpoint is meant, what it refuses. Nothing here has torch."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from action_reward_models import cli
from action_reward_models.cli.train import command
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.recipes import run as runs
from action_reward_models.recipes.train import Stopped
from action_reward_models.registry import Registry
from action_reward_models.tests.hub_sync.conftest import Publisher, Running, start
from action_reward_models.tests.registry import checkpoints

NAMES = '  - {name: my-reward-model, version: "1.0.0", recipe: mine.yaml, license: mit}\n'
Arm = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = start(tmp_path_factory.mktemp("hub"))
    yield running
    serve.stop(running.folder)


@pytest.fixture(scope="module")
def declared(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with one checkpoint, locked; and the recipe of the first example, which stands alone."""
    folder = tmp_path_factory.mktemp("declared")
    hub = running.client()
    checkpoints.publish_base(hub, "lab/tiny-base")
    built = Publisher(folder, "pages").build()
    recipe = checkpoints.RECIPE.format(dataset="pages@1.0.0", base="lab/tiny-base", revision="v1")
    (folder / "mine.yaml").write_text(recipe)
    with (folder / "registry.yaml").open("a") as file:
        file.write(f"models:\n{NAMES}")
    Registry.load(folder, hub=hub).lock()
    tiny = folder / "recipes" / "tiny"
    shutil.copytree(Registry.load(folder, hub=hub).model("my-reward-model").inputs().base, tiny / "base")
    shutil.copytree(built, tiny / "data")
    alone = recipe.replace("dataset: pages@1.0.0", "dataset: {folder: data}")
    alone = alone.replace("base: {model: lab/tiny-base, revision: v1}", "base: {folder: base}")
    (tiny / "scalar_bt_lora.yaml").write_text(alone)
    return folder


@pytest.fixture
def here(declared: Path, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "registry"
    shutil.copytree(declared, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HF_ENDPOINT", running.url)
    monkeypatch.setattr(runs, "make", checkpoints.make)
    return folder


@pytest.fixture
def arm(here: Path, capsys: pytest.CaptureFixture[str]) -> Arm:
    """Runs a line as it is typed: (exit status, standard output, standard error)."""

    def typed(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli._run(shlex.split(line)[1:])
        out, err = capsys.readouterr()
        return status, out, err

    return typed


def test_examples_of_help_run(arm: Arm, here: Path) -> None:
    lines = [line.strip() for line in (command.epilog or "").splitlines() if line.strip().startswith("arm ")]
    assert len(lines) == 3
    for line in lines:
        status, _, err = arm(line)
        assert status == 0, (line, err)
    assert (here / "build" / "my-reward-model" / "manifest.json").is_file()


def test_it_says_what_it_will_do_and_what_came_of_it(arm: Arm, here: Path) -> None:
    status, out, err = arm("arm train")
    assert (status, out) == (0, "build/my-reward-model\n")
    for part in (
        "is trained because there is no checkpoint yet", "selection_arm on 3 rows of selection_sft/train",
        "starts from lab/tiny-base at ", "about 1 steps of 8 rows", "goes to build/my-reward-model",
        "1 steps over 10 of 10 rows", "loaded again in another process: 1 conversations",
        "next: arm plan --name my-reward-model",
    ):  # fmt: skip
        assert part in err, (part, err)
    status, out, err = arm("arm train --json")
    told = orjson.loads(out)
    assert (status, told["trained"], told["reasons"]) == (0, False, [])
    assert told["training"]["steps"] == 1
    (here / "registry.yaml").write_text(
        (here / "registry.yaml").read_text().replace("license: mit}", "license: mit, description: Words.}")
    )
    assert "said anew: description" in arm("arm train")[2]


def test_a_smoke_run_leaves_no_checkpoint(arm: Arm, here: Path) -> None:
    status, out, err = arm("arm train mine.yaml --smoke 1")
    assert (status, out) == (0, "")
    assert "nothing is kept of it" in err
    assert "it works here; next: arm train --name my-reward-model" in err
    assert not (here / "build" / "my-reward-model").exists()


def test_a_recipe_alone_says_how_it_could_be_published(arm: Arm, here: Path) -> None:
    status, out, err = arm("arm train recipes/tiny/scalar_bt_lora.yaml")
    assert (status, out) == (0, "recipes/tiny/build/scalar_bt_lora\n")
    assert "declare it in a registry.yaml" in err
    status, _, err = arm("arm plan recipes/tiny/scalar_bt_lora.yaml")
    assert (status, "no registry declares this recipe" in err) == (1, True)


def test_several_checkpoints_need_a_name(arm: Arm, here: Path) -> None:
    with (here / "registry.yaml").open("a") as file:
        file.write(NAMES.replace("my-reward-model", "other"))
    status, _, err = arm("arm train mine.yaml")
    assert (status, "which checkpoint? my-reward-model, other" in err) == (2, True)
    assert "next: --name my-reward-model" in err
    status, _, err = arm("arm train --name absent")
    assert (status, "there is no model 'absent'" in err) == (2, True)
    assert arm("arm train absent.yaml")[0] == 2


def test_what_an_unfinished_training_left_is_deleted_only_when_asked(arm: Arm, here: Path) -> None:
    (here / "build" / ".my-reward-model-training").mkdir()
    status, _, err = arm("arm train --restart")
    assert (status, "nobody can be asked here: delete" in err) == (2, True)
    assert (here / "build" / ".my-reward-model-training").exists()
    assert arm("arm train --restart --yes")[0] == 0
    assert not (here / "build" / ".my-reward-model-training").exists()


def test_an_interruption_says_what_is_kept(arm: Arm, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "make", interrupted)
    status, _, err = arm("arm train")
    assert status == 130
    assert "interrupted; what is finished is kept in build/.my-reward-model-training, and the same command goes" in err


def test_training_that_was_told_to_stop_says_how_it_goes_on(
    arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def stopped(*_: object, **__: object) -> None:
        raise Stopped("training stopped after 1 of 6 steps; the same command goes on from there")

    monkeypatch.setattr(runs, "make", stopped)
    status, _, err = arm("arm train")
    assert status == 130
    assert "the same command goes on from there" in err
