"""A build is made again when, and only when, something behind it changed; and it says what."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from action_reward_models.registry import Registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "miniwob"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stale") / "registry"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build"))
    Registry.load(folder).build(workers=1)
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "registry"))


def why(folder: Path) -> list[str]:
    from action_reward_models.registry import reasons

    registry = Registry.load(folder)
    spec = registry.dataset()
    return reasons(spec, registry.folder(spec))


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "registry.yaml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_nothing_changed(project: Path) -> None:
    assert why(project) == []
    built, reasons = Registry.load(project).build()
    assert built is None
    assert reasons == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('version: "1.0.0"', 'version: "1.1.0"', "version: '1.0.0' -> '1.1.0'"),
        ("seed: 42", "seed: 43", "split.seed: 42 -> 43"),
        ("validation: 0.1,", "validation: 0.2,", "split.validation: 0.1 -> 0.2"),
        ("max_pairs_per_set: 2", "max_pairs_per_set: 3", "bt_pairs.max_pairs_per_set: 2 -> 3"),
        ("duplicates: merge", "duplicates: keep", 'selection_sft.duplicates: "merge" -> "keep"'),
        (
            "teacher: scripted-solver",
            "teacher: another",
            'sources[2].constants: {"teacher":"scripted-solver"} -> {"teacher":"another"}',
        ),
        ("leakage: error", "leakage: warn", 'gates.leakage: "error" -> "warn"'),
        ("      states: {}", "      states: {images: reference}", 'images.states: "embed" -> "reference"'),
        ("    tables:", "    shards: 2\n    tables:", "shards: 1 -> 2"),
    ],
)
def test_a_changed_declaration_says_what(old: str, new: str, reason: str, project: Path) -> None:
    edit(project, old, new)
    assert why(project) == [reason]


def test_a_prompt_option_changes_prompt_and_parameters(project: Path) -> None:
    edit(
        project,
        "{prompt: scalar/1, options: {candidate_reasoning: false}",
        "{prompt: scalar/1, options: {history_window: 2}",
    )
    found = why(project)
    assert found[0] == "bt_pairs.prompt.options.candidate_reasoning: false -> null"
    assert any(reason.startswith("prompt scalar/1 renders differently") for reason in found)


def test_sources_are_compared_by_content(project: Path) -> None:
    labels = project / "data" / "labels.jsonl"
    data = labels.read_bytes()
    labels.touch()
    assert why(project) == []
    labels.write_bytes(data.replace(b'"selection": 3', b'"selection": 2', 1))
    assert why(project) == ["source data/labels.jsonl (teacher_labels) has other content"]
    labels.write_bytes(data)
    (project / "data" / "more.jsonl").write_bytes(data[: data.index(b"\n") + 1])
    edit(project, "path: data/labels.jsonl", 'path: "data/[lm]*.jsonl"')
    assert why(project) == ["source data/more.jsonl (teacher_labels) is new"]


def test_a_damaged_build_is_made_again(project: Path) -> None:
    build = project / "build" / "action-reward-models-data"
    (build / "data" / "bt_pairs" / "train-00000-of-00001.parquet").unlink()
    assert why(project) == ["data/bt_pairs/train-00000-of-00001.parquet is missing or cut"]
    (build / "manifest.json").write_text("{", "utf-8")
    assert why(project) == ["there is no build yet"]
