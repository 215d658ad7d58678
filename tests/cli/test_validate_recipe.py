"""`arm validate recipe.yaml`: what it finds for the references, what it refuses, and what it lists as unchecked.

Without the libraries that train, so that no process waits for them; `tests/recipes/test_checks.py` has them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from action_reward_models.cli import validate
from action_reward_models.hub_sync.hub import Hub, RemoteFile, git_blob_id
from action_reward_models.recipes.checks import Checked, Given, checking
from action_reward_models.registry import Registry
from action_reward_models.registry import checking as resolving
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
NOBODY = "http://127.0.0.1:1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
RECIPE = (ROOT / "recipes" / "tiny" / "selection_arm_lora.yaml").read_text()
BASE = "{model: your-name/tiny-base, revision: main}"


@pytest.fixture(autouse=True)
def _without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "find_spec", lambda name: None)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled example, built."""
    folder = tmp_path_factory.mktemp("example") / "miniwob"
    shutil.copytree(ROOT / "examples" / "miniwob", folder, ignore=shutil.ignore_patterns("build"))
    Registry.load(folder).build(workers=1)
    return folder


def write(folder: Path, *edits: tuple[str, str]) -> Path:
    text = RECIPE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = folder / "recipe.yaml"
    path.write_text(text)
    return path


def run(*words: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(validate.command, [*words, "--json"])
    assert done.exit_code in (0, 1), done.exception
    said: dict[str, Any] = json.loads(done.stdout)
    return done.exit_code, said


def hub() -> Hub:
    return Hub(NOBODY, repo_type="model")


def test_offline_it_lists_what_it_could_not_check(tmp_path: Path) -> None:
    status, said = run(str(write(tmp_path)), "--offline")
    assert (status, said["ok"], said["issues"]) == (0, True, [])
    assert {one["check"] for one in said["skipped"]} == {"references", "arguments", "model", "rows", "groups", "tokens"}
    (pin,) = [one for one in said["skipped"] if one["check"] == "references"]
    assert pin["why"] == "your-name/tiny-base@main is not pinned: arm.lock holds no commit of it"
    assert pin["next"] == f"arm lock {tmp_path / 'recipe.yaml'}"


def test_online_what_is_not_pinned_is_refused(tmp_path: Path) -> None:
    found = resolving.check_recipe(write(tmp_path), hub=hub(), sample=1)
    assert [(issue.path, issue.line) for issue in found.issues] == [("$.dataset", 6), ("$.base.revision", 9)]
    assert all(f"arm lock {tmp_path / 'recipe.yaml'}" in issue.message for issue in found.issues)


def test_a_version_must_be_named(tmp_path: Path) -> None:
    status, said = run(str(write(tmp_path, ("models-data@1.0.0", "models-data"))), "--offline")
    (issue,) = said["issues"]
    assert (status, issue["path"], issue["line"]) == (1, "$.dataset", 6)
    assert issue["message"].startswith("is floating: it names no version")


@pytest.mark.parametrize(
    ("edit", "place", "words"),
    [
        (("seed: 42", "seed: many"), "$.seed", 'is "many", not an integer'),
        (("lora:\n", "lorra:\n"), "$.lorra", "is not a known field; did you mean 'lora'?"),
        (("dtype: float32", "dtype: float16"), "$.dtype", "not one of float32, bfloat16"),
    ],
)
def test_the_form_is_checked_first(tmp_path: Path, edit: tuple[str, str], place: str, words: str) -> None:
    status, said = run(str(write(tmp_path, edit)), "--offline")
    assert status == 1
    assert any(issue["path"] == place and words in issue["message"] for issue in said["issues"]), said["issues"]
    assert all(issue["line"] for issue in said["issues"])


def test_a_build_beside_is_read(example: Path) -> None:
    """The registry above the recipe builds the dataset, so its rows are checked without a download."""
    found = resolving.check_recipe(write(example), hub=None, sample=1)
    assert found.issues == ()
    assert found.counts["rows"] == {"table": "selection_sft", "train": 88, "validation": 8}
    assert found.counts["groups"] == {"train": 31, "validation": 3}
    other = resolving.check_recipe(write(example, ("@1.0.0", "@1.0.1")), hub=None, sample=1)
    assert "rows" not in other.counts
    assert any("action-reward-models-data@v1.0.1 is not on this machine" in one.why for one in other.skipped)


def test_the_registry_s_own_dataset_is_built_not_pinned(example: Path, tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text((example / "registry.yaml").read_text())
    found = resolving.check_recipe(write(tmp_path), hub=hub(), sample=1)
    assert [issue.path for issue in found.issues] == ["$.base.revision"]
    (rows,) = [one for one in found.skipped if one.check == "rows"]
    assert rows.why == "your-name/action-reward-models-data@v1.0.0 is not built"
    assert rows.next == f"arm build {tmp_path / 'registry.yaml'}"


def test_a_version_that_the_registry_will_not_have_is_refused(example: Path, tmp_path: Path) -> None:
    path = write(tmp_path, ("action-reward-models-data@1.0.0", "action-reward-models-data@1.0.1"))
    models = 'models:\n  - {name: arm, version: "1.0.0", recipe: recipe.yaml}\n'
    (tmp_path / "registry.yaml").write_text((example / "registry.yaml").read_text() + models)
    (issue,) = resolving.check_recipe(path, hub=None, sample=1).issues
    newest = f"1.0.0 is the newest that {tmp_path / 'registry.yaml'} declares"
    assert (issue.path, newest in issue.message) == ("$.dataset", True)


def test_a_folder_is_refused_where_a_registry_publishes_the_recipe(example: Path, tmp_path: Path) -> None:
    folder = tmp_path / "registry"
    shutil.copytree(example, folder)
    (folder / "base").mkdir()
    (folder / "base" / "config.json").write_text("{}")
    path = write(folder, (BASE, "{folder: base}"))
    assert resolving.check_recipe(path, hub=None, sample=1).issues == ()
    with (folder / "registry.yaml").open("a") as file:
        file.write('models:\n  - {name: arm, version: "1.0.0", recipe: recipe.yaml}\n')
    (issue,) = resolving.check_recipe(path, hub=None, sample=1).issues
    assert (issue.path, issue.line) == ("$.base.folder", 9)
    assert issue.message.startswith(f"is a folder, and {folder / 'registry.yaml'} publishes this recipe")


def test_what_a_folder_lacks_is_said(tmp_path: Path) -> None:
    status, said = run(str(write(tmp_path, (BASE, "{folder: nowhere}"))), "--offline")
    (issue,) = said["issues"]
    assert (status, issue["path"]) == (1, "$.base")
    assert issue["message"] == f"{tmp_path / 'nowhere'} holds no config.json"


class Served(Hub):
    """A Hub whose one repository is a folder; ``asked`` are the files that were fetched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(NOBODY, repo_type="model")
        self.folder, self.asked = folder, list[str]()

    def files(self, repo: str, commit: str) -> dict[str, RemoteFile]:
        assert (repo, commit) == ("your-name/tiny-base", COMMIT)
        return {
            path.name: RemoteFile(path.name, path.stat().st_size, git_blob_id(path.read_bytes()), None)
            for path in self.folder.iterdir()
        }

    def fetch(self, repo: str, commit: str, path: str, folder: Path) -> Path:
        self.asked.append(path)
        return Path(shutil.copy(self.folder / path, folder / path))


def test_of_a_pinned_base_only_what_describes_it_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("config.json", "tokenizer.json", "model.safetensors", "modeling_own.py", "pytorch_model.bin")
    (tmp_path / "repo").mkdir()
    for name in names:
        (tmp_path / "repo" / name).write_text("{}")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "manifest.json").write_text("{}")
    path = write(tmp_path, ("your-name/action-reward-models-data@1.0.0", "{folder: data}"))
    reference = {"kind": "model", "repo": "your-name/tiny-base", "revision": "main", "file": None, "commit": COMMIT}
    lock: dict[str, Any] = {"lock": 1, "datasets": {}, "models": {}, "packages": {}, "published": {}}
    lock["references"] = [{**reference, "identity_sha256": None, "files": {}}]
    (tmp_path / "arm.lock").write_bytes(orjson.dumps(lock))
    served = Served(tmp_path / "repo")

    seen: list[Given] = []

    def check(_: Path, given: Given, **__: Any) -> Checked:
        seen.append(given)
        return Checked((), (), {})

    monkeypatch.setattr(resolving, "check", check)

    def absent(hub: Hub | None) -> dict[str, tuple[str, str]]:
        assert resolving.check_recipe(path, hub=hub, sample=1).issues == ()
        return seen.pop().absent

    assert set(absent(None)) == {"base"}
    assert absent(served) == {}
    assert sorted(served.asked) == ["config.json", "tokenizer.json"]
    assert absent(None) == absent(served) == {}
    assert len(served.asked) == 2, "what was fetched is there without the network"


def test_its_options_go_with_a_recipe(example: Path) -> None:
    done = CliRunner().invoke(validate.command, [str(example / "registry.yaml"), "--offline"])
    assert "--offline and --sample go with a recipe" in str(done.exception)
