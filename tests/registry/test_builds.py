"""A built directory as a whole: a card that would load something else is no clean build."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest
from action_reward_models.registry import Registry, check_build

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob" / "registry.yaml"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "build"
    Registry.load(EXAMPLE).build(out=folder, workers=1)
    return folder


@pytest.fixture
def build(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "build"))


def test_a_fresh_build_is_clean(build: Path) -> None:
    assert check_build(build) == []


def test_a_card_that_loads_other_files(build: Path) -> None:
    """Stock `datasets` reads what the card's YAML names: other labels in other files would pass for these."""
    card = build / "README.md"
    shutil.copytree(build / "data" / "bt_pairs", build / "more")
    card.write_text(card.read_text("utf-8").replace("path: data/bt_pairs/", "path: more/"), "utf-8")
    found = {issue.file: issue.message for issue in check_build(build)}
    assert found["README.md"].startswith("its configs is not that of the manifest: `load_dataset` would read")
    assert found["more/train-00000-of-00001.parquet"] == "is not in the manifest"


@pytest.mark.parametrize("text", ["", "no yaml", "---\n- a\n---\n", "---\nconfigs: {\n---\n"])
def test_a_card_without_a_loader(text: str, build: Path) -> None:
    (build / "README.md").write_text(text, "utf-8")
    found = check_build(build)
    assert found
    assert {issue.file for issue in found} == {"README.md"}


def test_a_persons_words_are_no_problem(build: Path) -> None:
    card = build / "README.md"
    card.write_text(card.read_text("utf-8") + "\nCite us.\n", "utf-8")
    assert check_build(build) == []


@pytest.mark.parametrize("number", ["0.0.9", None])
def test_other_code_may_have_worded_the_card_otherwise(number: str | None, build: Path) -> None:
    """A version stays what it is when the next arm writes cards in other words; what loads is compared all the same."""
    manifest = orjson.loads((build / "manifest.json").read_bytes())
    manifest["environment"]["code_sha256"] = "0" * 64
    if number:
        manifest["environment"]["action_reward_models"] = number
    (build / "manifest.json").write_bytes(orjson.dumps(manifest))
    card = build / "README.md"
    worded = card.read_text("utf-8").replace("## ", "## Of ")
    card.write_text(worded, "utf-8")
    assert check_build(build) == []
    card.write_text(worded.replace("path: data/bt_pairs/", "path: data/states/"), "utf-8")
    assert [issue.file for issue in check_build(build)] == ["README.md"]
