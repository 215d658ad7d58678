"""What diff, lineage, log, pull, verify and yank are pointed at is told apart in one way."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.cli import source
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.tests.registry.checkpoints import RECIPE

REGISTRY = """\
registry: 1
namespace: lab
datasets:
  - name: pages
    version: "1.0.0"
    license: mit
    sources: [{kind: states, format: first_release, path: states.jsonl, dialect: function, space: pixel}]
    split: {seed: 1, validation: 0.1}
    tables: {states: {}}
models: [{name: arm, version: "0.1.0", recipe: arm.yaml}]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab" / "there").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def registry(here: Path) -> Path:
    (here / "registry.yaml").write_text(REGISTRY)
    (here / "arm.yaml").write_text(RECIPE.format(dataset="pages@1.0.0", base="lab/tiny", revision="v1"))
    (here / "states.jsonl").write_text("")
    return here


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("lab/there", Path("lab/there")),
        ("lab", Path("lab")),
        ("lab/other", ("lab/other", "main")),
        ("lab/there@v1.0.0", ("lab/there", "v1.0.0")),
        ("lab/other@feature/x", ("lab/other", "feature/x")),
        ("models/lab/other@v1.0.0", ("lab/other", "v1.0.0")),
        ("models/lab", ("models/lab", "main")),
        ("pages", None),
    ],
)
def test_a_folder_that_is_there_comes_before_a_repository(here: Path, text: str, place: object) -> None:
    assert source.place(text) == place


@pytest.mark.parametrize("text", ["a/b/c", "nobody/", "/other", "lab/../x"])
def test_what_has_a_slash_and_is_neither(here: Path, text: str) -> None:
    with pytest.raises(ArmError, match="is no repository"):
        source.place(text)


def test_a_name_without_a_registry(here: Path) -> None:
    with pytest.raises(UsageError, match=r"no registry\.yaml here"):
        source.declared("pages")


@pytest.mark.parametrize(("name", "then"), [("pages", "arm build --name pages"), ("arm", "arm train --name arm")])
def test_the_build_of_a_name(registry: Path, name: str, then: str) -> None:
    with pytest.raises(ArmError, match="is not built yet") as raised:
        source.built(name)
    assert raised.value.next_command == then
    (registry / "build" / name).mkdir(parents=True)
    (registry / "build" / name / "manifest.json").write_text("{}")
    assert source.built(name).samefile(registry / "build" / name)


def test_a_name_that_is_not_declared(registry: Path) -> None:
    with pytest.raises(UsageError, match="there is no dataset or checkpoint 'other'; there are pages, arm"):
        source.built("other")
