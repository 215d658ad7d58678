"""The hold-out rule of the first release: the same splits as a plain script, and how much they leak, counted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pytest
from action_reward_models.builders.spec import GateSpec, SplitSpec
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.plan import plan
from action_reward_models.hub_sync.preflight import preflight
from action_reward_models.registry import Registry, check_build
from action_reward_models.registry.provenance.rebuild import rebuild
from action_reward_models.registry.provenance.respec import Inputs
from action_reward_models.registry.sources.store import Store
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.manifest import manifest_of
from action_reward_models.schemas.store import TABLES

if TYPE_CHECKING:
    from .conftest import Toy

Row = dict[str, Any]
GENERATOR = Path(__file__).parents[2] / "benchmarks" / "make_release.py"
REGISTRY = """\
registry: 1
namespace: someone
datasets:
  - name: {name}
    version: "1.0.0"
    license: other
    sources:
      - {{kind: states, format: first_release, path: states_full.jsonl, dialect: openwebrl, space: norm1000}}
      - {{kind: candidate_sets, format: first_release, path: candidates_merged.jsonl, dialect: openwebrl,
         space: norm1000, on_conflict: quarantine}}
      - {{kind: teacher_labels, format: first_release, path: labels_drawlevel.jsonl}}
    split: {split}
    tables:
      states: {{}}
      teacher_labels: {{}}
      selection_sft: {{prompt: selection/1, images: reference}}
      bt_pairs: {{prompt: scalar/1, images: reference}}
    {gates}
"""
FACTS = ("state", "episode", "task")
NOWHERE = Hub("http://127.0.0.1:9", "none")  # a directory is judged before anything is asked of the Hub
LEGACY = "{rule: legacy_draws, validation: 0.02, seed: 42}"


def plain_script(folder: Path) -> dict[str, str]:
    """Set id -> split of its label, for the labels that name a candidate."""
    with (folder / "candidates_merged.jsonl").open() as file:
        drawn = {json.loads(line)["state_id"] for line in file}
    rng = random.Random(42)
    splits = {}
    with (folder / "labels_drawlevel.jsonl").open() as file:
        for line in file:
            label = json.loads(line)
            if label["selection"] is None or label["state_id"] not in drawn:
                continue
            splits[label["state_id"]] = "validation" if rng.random() < 0.02 else "train"
    return splits


class Made(NamedTuple):
    """A build of one release, and where it lies."""

    release: Path
    built: Path

    def rows(self, table: str) -> list[Row]:
        return [
            row
            for path in sorted(self.built.glob(f"data/{table}/*.parquet"))
            for row in built_rows(path, TABLES[table])
        ]

    @property
    def identity(self) -> Row:
        identity: Row = manifest_of(self.built)["identity"]
        return identity


def make(folder: Path, name: str, split: str, gates: str = "") -> Made:
    path = folder / f"{name}.yaml"
    path.write_text(REGISTRY.format(name=name, split=split, gates=gates), "utf-8")
    Registry.load(path).build(workers=1)
    return Made(folder, folder / "build" / name)


def generate(folder: Path, scale: str, kilobytes: str) -> Path:
    words = [sys.executable, str(GENERATOR), str(folder), "--scale", scale, "--image-kb", kilobytes]
    subprocess.run(words, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("release"), "0.01", "1")


@pytest.fixture(scope="module")
def legacy(release: Path) -> Made:
    return make(release, "legacy", LEGACY)


# -- the same as the script -----------------------------------------------------------------------------------------


def compare(made: Made) -> None:
    expected = plain_script(made.release)
    labels = made.rows("teacher_labels")
    found = {row["set_id"]: row["split"] for row in labels if row["status"] == "ok"}
    lost = {r["source_id"] for r in made.rows("exclusions") if r["stage"] == "teacher_labels"}
    assert found == {set_id: split for set_id, split in expected.items() if set_id not in lost}
    assert lost & set(expected), "labels of sets in quarantine draw, too"
    assert "validation" in found.values()
    assert {row["split"] for row in labels if row["status"] != "ok"} <= {"train"}
    for table in ("selection_sft", "bt_pairs"):
        trained = made.rows(table)
        assert {row["split"] for row in trained} == {"train", "validation"}
        assert [row["label_id"] for row in trained if row["split"] != expected[row["set_id"]]] == []
    sft = {row["set_id"] for row in made.rows("selection_sft")}
    excluded = {r["source_id"].split("|")[0] for r in made.rows("exclusions") if r["stage"] == "selection_sft"}
    assert sft | excluded >= set(found)
    reasons = {r["reason"] for r in made.rows("exclusions") if r["stage"] in ("selection_sft", "bt_pairs")}
    assert "crosses_split" not in reasons, "nothing that leaked is taken out"


def test_every_label_and_row_has_the_split_that_the_script_draws(legacy: Made) -> None:
    compare(legacy)


def overlap(made: Made, table: str) -> Row:
    """Per fact, distinct values of validation and how many of them train has: counted over the rows as they lie."""
    states = {row["state_id"]: row for row in made.rows("states")}
    facts: dict[str, Callable[[Row], Iterable[Any]]] = {
        "state": lambda row: [row["state_id"]],
        "episode": lambda row: [states[row["state_id"]]["episode_id"]],
        "task": lambda row: [states[row["state_id"]]["task_group"]],
        "screenshot": lambda row: row["images"],
        "prompt": lambda row: [orjson.dumps([row["prompt"], row["images"]])],
    }
    trained = made.rows(table)
    counted = {}
    for fact, of in facts.items():
        values = {
            split: {value for row in trained if row["split"] == split for value in of(row)}
            for split in ("train", "validation")
        }
        both = len(values["train"] & values["validation"])
        counted[fact] = {"validation": len(values["validation"]), "both": both}
    return counted


def measured(made: Made, table: str) -> Row:
    found: Row = made.identity["statistics"]["audits"]["overlap"][table]
    return {fact: {name: n for name, n in counts.items() if name != "near"} for fact, counts in found.items()}


@pytest.mark.parametrize("table", ["selection_sft", "bt_pairs"])
def test_the_manifest_states_the_leak_that_the_rows_have(legacy: Made, table: str) -> None:
    counted = overlap(legacy, table)
    assert measured(legacy, table) == counted
    for fact in (*FACTS, "screenshot"):
        assert counted[fact]["both"] > 0.9 * counted[fact]["validation"], "nearly all of validation is known from train"
    assert counted["prompt"]["both"] == (0 if table == "selection_sft" else counted["prompt"]["validation"])


def test_the_card_states_it(legacy: Made) -> None:
    card = (legacy.built / "README.md").read_text("utf-8")
    counted = overlap(legacy, "selection_sft")
    assert "It repeats the rule of the first release" in card
    states, episodes, tasks = (f"{counted[f]['both']} of {counted[f]['validation']} {f}s" for f in FACTS)
    (said,) = [line for line in card.splitlines() if "The splits leak" in line]
    assert f"{states}, {episodes} and {tasks} of `selection_sft`" in said
    leaking = legacy.identity["statistics"]["leakage"]["bt_pairs"]
    assert leaking == overlap(legacy, "bt_pairs")["prompt"]["both"] > 0
    assert f"`bt_pairs` ({leaking} prompts)" in said


def test_the_default_split_of_the_same_data_leaks_nothing(release: Path) -> None:
    made = make(release, "fair", "{validation: 0.1, seed: 42}")
    for table in ("selection_sft", "bt_pairs"):
        counted = overlap(made, table)
        assert measured(made, table) == counted
        for fact in (*FACTS, "prompt"):
            assert counted[fact]["validation"] > 0
            assert counted[fact]["both"] == 0
    assert set(made.identity["statistics"]["leakage"].values()) == {0}


# -- declaring and publishing it ------------------------------------------------------------------------------------


def test_it_is_published_only_when_the_registry_says_that_it_leaks(legacy: Made) -> None:
    with pytest.raises(ArmError) as caught:
        plan(legacy.built, NOWHERE, check=check_build)
    assert "gates: {leakage: warn}   # publishes a leaky split; say why" in (caught.value.next_command or "")
    assert {issue.path for issue in caught.value.issues} == {"$.gates.leakage"}
    allowed = make(legacy.release, "allowed", LEGACY, "gates: {leakage: warn}")
    checked = preflight(allowed.built, check_build)
    assert (checked.issues, checked.violations) == ((), ())


def test_what_it_does_not_read_is_refused(release: Path) -> None:
    path = release / "wrong.yaml"
    text = REGISTRY.format(name="wrong", split=LEGACY.replace("}", ", isolate_screenshots: true}"), gates="")
    path.write_text(text, "utf-8")
    with pytest.raises(ArmError, match=r"isolate_screenshots means nothing with legacy_draws"):
        Registry.load(path).dataset()
    labels = "      - {kind: teacher_labels, format: first_release, path: labels_drawlevel.jsonl}\n"
    assert labels in text
    path.write_text(text.replace(labels, "").replace(", isolate_screenshots: true", ""), "utf-8")
    with pytest.raises(ArmError, match=r"split.rule draws per label, and no source holds teacher_labels"):
        Registry.load(path).dataset()


def test_a_legacy_build_is_built_again_from_its_manifest(legacy: Made, tmp_path: Path) -> None:
    manifest = manifest_of(legacy.built)
    assert manifest["identity"]["parameters"]["split"]["rule"] == "legacy_draws"
    inputs = Inputs(legacy.release, Store(tmp_path / "store"), None)
    assert rebuild(manifest, inputs, tmp_path / "work", published=legacy.built) == []
    manifest["identity"]["parameters"]["split"]["seed"] = 43
    assert rebuild(manifest, inputs, tmp_path / "other", published=legacy.built) != []


# -- what decides a draw --------------------------------------------------------------------------------------------


def test_labels_without_a_pick_or_a_set_draw_nothing(toy: Toy) -> None:
    """The draws are those of the labels in the order of the file, whatever stands between them."""
    rng = random.Random(3)
    expected = {}
    for number in range(20):
        set_id = toy.draw(toy.page(f"p{number}", picture=number), "click(1, 1)", "click(7, 7)")
        if number % 4 == 1:
            toy.label(f"{set_id}x", 0)  # no such set
        if number % 4 == 2:
            toy.label(set_id, None)
        else:
            toy.label(set_id, 0)
            expected[set_id] = "validation" if rng.random() < 0.5 else "train"
    assert set(expected.values()) == {"train", "validation"}
    build = toy.build(split=SplitSpec(0.5, 3, rule="legacy_draws"), gates=GateSpec(leakage="warn"))
    labels = {row["set_id"]: row["split"] for row in build.rows("teacher_labels", status="ok")}
    assert labels == expected
    assert {row["set_id"]: row["split"] for row in build.rows("selection_sft")} == expected


def test_a_state_with_labels_on_both_sides_stands_in_train(toy: Toy) -> None:
    state = toy.page("a")
    for number in range(20):
        toy.label(toy.draw(state, "click(1, 1)", "click(7, 7)", number=number), 0)
    toy.scene("b", picture=1)
    build = toy.build(split=SplitSpec(0.5, 3, rule="legacy_draws"), gates=GateSpec(leakage="warn"))
    assert {row["split"] for row in build.rows("candidate_sets", state_id=state)} == {"train", "validation"}
    assert build.row("states", state_id=state)["split"] == "train"
    held = [row["split"] for row in build.rows("teacher_labels") if row["set_id"].startswith("b")]
    assert [row["split"] for row in build.rows("states", state_id="b__t0")] == held


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_whole_release(tmp_path: Path) -> None:
    made = make(generate(tmp_path, "1", "1"), "legacy", LEGACY)
    compare(made)
    assert measured(made, "selection_sft") == overlap(made, "selection_sft")
