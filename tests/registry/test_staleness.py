"""A build is made again when, and only when, something behind it changed; and it says what."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from action_reward_models.builders.spec import (
    BuildSpec,
    PairSpec,
    PointwiseSpec,
    PromptSpec,
    SplitSpec,
    TrajectorySpec,
)
from action_reward_models.builders.views import load
from action_reward_models.registry import Registry, staleness
from action_reward_models.schemas.errors import ArmError

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
        ("max_pairs_per_set: 2", "max_pairs_per_set: 2, images: reference", 'images.bt_pairs: "embed" -> "reference"'),
        ("    tables:", "    shards: 2\n    tables:", "shards: 1 -> 2"),
        ("    tables:", "    redact: [secrets]\n    tables:", 'redact: [] -> ["secrets"]'),
        ("leakage: error", "leakage: error, secrets: warn", 'gates.secrets: "error" -> "warn"'),
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
    assert why(project) == ["sources[2]: data/labels.jsonl has other content"]
    labels.write_bytes(data)
    (project / "data" / "more.jsonl").write_bytes(data[: data.index(b"\n") + 1])
    edit(project, "path: data/labels.jsonl", 'path: "data/[lm]*.jsonl"')
    assert why(project) == ["sources[2]: data/more.jsonl is new"]


def test_a_damaged_build_is_made_again(project: Path) -> None:
    build = project / "build" / "action-reward-models-data"
    (build / "data" / "bt_pairs" / "train-00000-of-00001.parquet").unlink()
    assert why(project) == ["data/bt_pairs/train-00000-of-00001.parquet is missing or changed"]
    (build / "manifest.json").write_text("{", "utf-8")
    assert why(project) == ["there is no build yet"]


def test_sources_are_compared_one_by_one(project: Path) -> None:
    """A file that moves to a source with another dialect has equal bytes and other rows."""
    data = project / "data"
    lines = (data / "candidates.jsonl").read_bytes().splitlines(keepends=True)
    (data / "candidates.jsonl").unlink()
    (data / "c1.jsonl").write_bytes(b"".join(lines[:50]))
    (data / "c2.jsonl").write_bytes(b"".join(lines[50:]))
    line = "{kind: candidate_sets, format: first_release, path: data/candidates.jsonl, dialect: function, space: pixel}"
    one, two = (line.replace("candidates.jsonl", f"c{n}.jsonl") for n in (1, 2))
    edit(project, f"- {line}", f"- {one}\n      - {two}")
    assert why(project) == ["sources: 3 -> 4"]
    Registry.load(project).build(workers=1)
    assert why(project) == []
    edit(project, two, two.replace("dialect: function", "dialect: openwebrl"))
    assert why(project) == ['sources[2].dialect: "function" -> "openwebrl"']


def test_a_build_without_its_card_is_made_again(project: Path) -> None:
    (project / "build" / "action-reward-models-data" / "README.md").unlink()
    assert why(project) == ["README.md is missing"]


def test_what_a_person_wrote_in_the_card_survives(project: Path) -> None:
    card = project / "build" / "action-reward-models-data" / "README.md"
    text = card.read_text("utf-8")
    card.write_text(text.replace("---\nlicense", "---\nmine: 1.10\nlicense", 1) + "\nCite us as follows.\n", "utf-8")
    edit(project, "seed: 42", "seed: 43")
    Registry.load(project).build(workers=1)
    again = card.read_text("utf-8")
    assert again.endswith("\nCite us as follows.\n")
    assert "mine: 1.10" in again
    assert again != text


def test_a_card_that_is_a_link_is_not_read(project: Path, tmp_path: Path) -> None:
    """A registry that somebody sends may come with a build, and with what it leads to as the card's words."""
    card = project / "build" / "action-reward-models-data" / "README.md"
    (tmp_path / "mine").write_text("what nobody else may read", "utf-8")
    card.unlink()
    card.symlink_to(tmp_path / "mine")
    edit(project, "seed: 42", "seed: 43")
    with pytest.raises(ArmError, match="is a link, and no card of a build"):
        Registry.load(project).build(workers=1)


def test_files_that_no_build_made_are_not_deleted(project: Path) -> None:
    notes = project / "build" / "action-reward-models-data" / "NOTES.txt"
    notes.write_text("mine", "utf-8")
    edit(project, "seed: 42", "seed: 43")
    with pytest.raises(ArmError, match=r"holds files that no build made and that would be lost: NOTES\.txt"):
        Registry.load(project).build(workers=1)
    assert notes.read_text("utf-8") == "mine"


def test_a_flipped_byte_is_seen(project: Path) -> None:
    path = project / "build" / "action-reward-models-data" / "data" / "states" / "train-00000-of-00001.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert why(project) == ["data/states/train-00000-of-00001.parquet is missing or changed"]


def test_only_a_build_of_the_same_dataset_is_replaced(project: Path) -> None:
    build = project / "build" / "action-reward-models-data"
    edit(project, "name: action-reward-models-data", "name: another")
    with pytest.raises(ArmError, match="is a build of action-reward-models-data, not of another"):
        Registry.load(project).build(out=build, workers=1)
    link = project / "link"
    (project / "real").mkdir()
    link.symlink_to(project / "real")
    Registry.load(project).build(out=link, workers=1)
    assert link.is_symlink()
    assert (project / "real" / "manifest.json").is_file()


def test_a_table_without_rows_is_said(project: Path) -> None:
    labels = project / "data" / "labels.jsonl"
    labels.write_bytes(labels.read_bytes().replace(b"miniwob-", b"other-"))
    built, _ = Registry.load(project).build(workers=1)
    assert built is not None
    assert built.warnings == (
        "teacher_labels has no rows (no_candidate_set 117)",
        "selection_sft has no rows (nothing went in)",
        "bt_pairs has no rows (nothing went in)",
    )


@pytest.mark.parametrize(
    ("damage", "said"),
    [(b"caf\xe9", "is not UTF-8"), (b"<!-- action-reward-models:end -->", "the card's markers are broken")],
)
def test_a_card_that_cannot_be_kept_stops_the_build_first(damage: bytes, said: str, project: Path) -> None:
    card = project / "build" / "action-reward-models-data" / "README.md"
    card.write_bytes(card.read_bytes() + damage)
    before = card.read_bytes()
    with pytest.raises(ArmError, match=said) as caught:
        Registry.load(project).build(force=True, progress=lambda *_: pytest.fail("the sources were read"))
    assert caught.value.where == str(card)
    assert card.read_bytes() == before


def test_prompts_of_all_tables_are_compared() -> None:
    """Pointwise rows and pairs of episodes have prompts, too."""
    prompts = {"scalar/1": PromptSpec("scalar/1"), "trajectory/1": PromptSpec("trajectory/1")}
    bare = BuildSpec("a", "b", "1.0.0", "mit", (), SplitSpec(0.0, 1), (), {})
    spec = replace(
        bare,
        pairs=PairSpec(prompts["scalar/1"], trajectories=TrajectorySpec(prompts["trajectory/1"])),
        pointwise=PointwiseSpec(replace(prompts["scalar/1"], options={"history_window": 2})),
    )
    found = list(staleness._prompts([], spec))
    assert [reason.split()[1] for reason in found] == ["scalar/1", "scalar/1", "trajectory/1"]
    assert spec.pairs
    loaded = [load(part.prompt) for part in (spec.pairs, spec.pointwise, spec.pairs.trajectories) if part]
    known = [{"id": prompt.id, "kind": prompt.kind, "sha256": prompt.sha256} for prompt in loaded]
    assert list(staleness._prompts(known, spec)) == []
    assert list(staleness._prompts(known[:2], spec)) == [found[2]]
