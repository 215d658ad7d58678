"""What a plan says of every kind of change; the Hub is real, and holds version 1.0.0 of both datasets."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.registry import Registry, graph
from action_reward_models.registry.bumps import Level
from action_reward_models.registry.plan import Step
from action_reward_models.registry.sources.references import Reference

from ..hub_sync.conftest import Running
from .world import World

NUMBER = itertools.count()


@pytest.fixture(scope="module")
def published(running: Running, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("world") / "registry", running.client(), "planned")


@pytest.fixture
def world(published: World, tmp_path: Path) -> World:
    """What was published, to be changed."""
    return published.copy(tmp_path / "registry")


@dataclass(frozen=True)
class Case:
    """``change`` is made to the registry of version 1.0.0; then the step of ``base`` must look like this.

    ``because`` and ``built`` are parts of what is said; ``rows`` is table -> (added, removed, changed, moved), and all
    other tables have no change. ``right`` is the version that a refusal names.
    """

    change: Callable[[World], Any]
    status: str = "publish"
    level: Level = Level.NONE
    because: str = ""
    built: str = ""
    rows: dict[str, tuple[int, int, int, int]] | None = None
    right: str | None = None
    refusal: str = ""
    note: str = ""


def to(version: str, *changes: tuple[str, str]) -> Callable[[World], None]:
    """Another version with these changes of registry.yaml."""

    def change(world: World) -> None:
        world.edit(*changes)
        world.version(version)

    return change


def flipped(version: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.flip()
        if version != "1.0.0":
            world.version(version)

    return change


def whitespace(world: World) -> None:
    path = world.folder / "labels.jsonl"
    path.write_text(path.read_text().replace('": ', '":  '))
    world.version("1.0.1")


def renamed_file(world: World) -> None:
    (world.folder / "labels.jsonl").rename(world.folder / "verdicts.jsonl")
    to("1.0.1", ("labels.jsonl", "verdicts.jsonl"))(world)


def one_more_page(world: World) -> None:
    world.records(first=10, pages=1, suffix="-more")
    names = [(f"path: {name}.jsonl", f"path: {name}*.jsonl") for name in ("episodes", "sets", "labels")]
    to("1.1.0", *names)(world)


def one_page_less(world: World) -> None:
    world.lines("episodes.jsonl", lambda records: records.pop())
    world.version("1.1.0")


def other_text(world: World) -> None:
    def change(sets: list[dict[str, Any]]) -> None:
        sets[0]["candidates"][1] = "<think>7</think>\n<action>click(9, 9)</action>"

    world.lines("sets.jsonl", change)
    world.version("1.1.0")


def person(world: World) -> None:
    """A line on the card, outside what is generated."""
    card = world.folder / "build" / "base" / "README.md"
    card.write_text(card.read_text() + "\nAsk Ada before you use it.\n")
    world.version("1.0.1")


def broken(world: World) -> None:
    path = world.folder / "labels.jsonl"
    path.write_text(path.read_text() + "{}\n")


def renamed(world: World) -> None:
    path = world.folder / "registry.yaml"
    path.write_text(path.read_text().replace("name: base\n", "name: bases\n").replace("base@1.0.0", "bases@1.0.0"))
    recipe = world.folder / "arm.yaml"
    recipe.write_text(recipe.read_text().replace("base@", "bases@"))


def reordered(world: World) -> None:
    lines = world.folder.joinpath("registry.yaml").read_text().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if "kind: episodes" in line)
    lines[first], lines[first + 2] = lines[first + 2], lines[first]
    world.folder.joinpath("registry.yaml").write_text("".join(lines))
    world.version("1.0.1")


SFT = "selection_sft: {prompt: selection/1, options: {history_window: 8}"
PAIRS = "bt_pairs: {prompt: scalar/1, max_pairs_per_set: 2, rules: {coordinate_only: keep}}"
SPLIT = "split: {validation: 0.3, seed: 1}\n    shards"
PAGES = 10
FED = ("states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs")
CASES = {
    "nothing": Case(lambda world: None, "nothing"),
    "only the version": Case(to("1.0.1"), note="nothing changed but the version", built="version: '1.0.0' -> '1.0.1'"),
    "a label, version kept": Case(
        flipped("1.0.0"), "refused", Level.MINOR, right="1.1.0", built="labels.jsonl has other"
    ),
    "a label, a patch": Case(
        flipped("1.0.1"), "refused", Level.MINOR, right="1.1.0", refusal="does not fit after 1.0.0"
    ),
    "a label, a minor": Case(
        flipped("1.1.0"),
        level=Level.MINOR,
        because="the rows of teacher_labels",
        rows={"teacher_labels": (0, 0, 1, 0), "selection_sft": (0, 0, 1, 0), "bt_pairs": (1, 1, 0, 0)},
    ),
    "a label, a major": Case(flipped("2.0.0"), level=Level.MINOR, note="more than the change needs"),
    "an older version": Case(lambda world: world.move("0.9.0"), "refused", refusal="0.9.0 is older than 1.0.0"),
    "another description": Case(
        to("1.0.1", ("Pages.", "Ten pages.")), level=Level.PATCH, because="the description", rows={}
    ),
    "another licence": Case(
        to("1.0.1", ("license: mit\n    desc", "license: cc0-1.0\n    desc")),
        level=Level.PATCH,
        because="mit -> cc0-1.0",
        rows={},
    ),
    "a person's words": Case(person, level=Level.PATCH, because="the words on the card", rows={}),
    "records written otherwise": Case(whitespace, level=Level.PATCH, because="the sources", rows={}),
    "a file renamed": Case(
        renamed_file, level=Level.PATCH, because="the sources", built="verdicts.jsonl is new", rows={}
    ),
    "sources reordered": Case(reordered, level=Level.PATCH, because="the sources", built="sources[0].kind", rows={}),
    "sources added": Case(
        one_more_page,
        level=Level.MINOR,
        built="episodes-more.jsonl is new",
        rows=dict.fromkeys(FED, (1, 0, 0, 0)),
    ),
    "a record removed": Case(
        one_page_less,
        level=Level.MINOR,
        rows=dict.fromkeys(FED, (0, 1, 0, 0)) | {"exclusions": (2, 0, 0, 0)},
    ),
    "a candidate's text": Case(
        other_text,
        level=Level.MINOR,
        because="the rows of candidate_sets",
        rows={"candidate_sets": (0, 0, 1, 0), "selection_sft": (0, 0, 1, 0), "bt_pairs": (0, 0, 1, 0)},
    ),
    "a prompt's option that shows": Case(
        to("1.1.0", ("history_window: 8", "candidate_reasoning: false")),
        level=Level.MINOR,
        because="the rows of selection_sft",
        built="selection_sft.prompt.options",
        rows={"selection_sft": (0, 0, PAGES, 0)},
    ),
    "an option without effect on a row's text": Case(
        to("1.1.0", ("history_window: 8", "history_window: 4")),
        level=Level.MINOR,
        rows={"selection_sft": (0, 0, PAGES, 0)},
    ),
    "a pair rule": Case(
        to("1.1.0", ("coordinate_only: keep", "coordinate_only: quarantine")),
        level=Level.MAJOR,
        status="refused",
        right="2.0.0",
        because="the split train of bt_pairs is gone",
    ),
    "a pair rule, version 2": Case(
        to("2.0.0", ("coordinate_only: keep", "coordinate_only: quarantine")),
        level=Level.MAJOR,
        built="rules.coordinate_only",
        rows={"bt_pairs": (0, PAGES, 0, 0), "exclusions": (PAGES, 0, 0, 0)},
    ),
    "a limit of pairs that binds nothing": Case(
        to("1.0.1", ("max_pairs_per_set: 2", "max_pairs_per_set: 1")),
        level=Level.PATCH,
        because="the parameters",
        rows={},
    ),
    "the shown order": Case(
        to("1.1.0", (SFT, SFT + ", shuffle: false")), level=Level.MINOR, built="selection_sft.shuffle"
    ),
    "another seed of the split": Case(
        to("1.1.0", ("seed: 1}\n    shards", "seed: 2}\n    shards")), level=Level.MINOR, built="split.seed: 1 -> 2"
    ),
    "no validation": Case(
        to("2.0.0", (SPLIT, SPLIT.replace("0.3", "0.0"))), level=Level.MAJOR, because="the split validation of"
    ),
    "a table removed": Case(
        to("1.1.0", (PAIRS, "")), "refused", Level.MAJOR, right="2.0.0", because="the table bt_pairs is gone"
    ),
    "a table removed, version 2": Case(
        to("2.0.0", (PAIRS, "")), level=Level.MAJOR, rows={"bt_pairs": (0, PAGES, 0, 0)}
    ),
    "pictures by reference": Case(
        to("2.0.0", (SFT, SFT + ", images: reference")),
        level=Level.MAJOR,
        because="the pictures of selection_sft: embed -> reference",
    ),
    "other shards": Case(to("1.0.1", ("shards: 2", "shards: 4")), level=Level.PATCH, rows={}, built="shards: 2 -> 4"),
    "a gate": Case(
        to("1.0.1", ("{leakage: warn}", "{leakage: warn, secrets: warn}")),
        level=Level.PATCH,
        rows={},
        built="gates.secrets",
    ),
    "redaction that finds nothing": Case(
        to("1.0.1", ("    shards: 2", "    redact: [addresses]\n    shards: 2")),
        level=Level.PATCH,
        rows={},
        built="redact",
    ),
    "how broken records are treated": Case(
        to("1.0.1", ("path: sets.jsonl,", "path: sets.jsonl, on_invalid: exclude,")),
        level=Level.PATCH,
        rows={},
        built="on_invalid",
    ),
    "another teacher": Case(to("1.1.0", ("teacher: toy", "teacher: other")), level=Level.MINOR, built="constants"),
    "another name": Case(renamed, level=Level.NONE, built="there is no build yet"),
    "another namespace": Case(
        lambda world: world.edit(("namespace: planned", "namespace: elsewhere")), built="namespace"
    ),
    "a broken record": Case(broken, "refused", refusal="the sources have"),
}


def changes(step: Step) -> dict[str, tuple[int, int, int, int]]:
    """Table -> rows (added, removed, changed, moved), of the tables that have any."""
    assert step.diff is not None
    tables = step.diff.to_json()["tables"]
    counts = {
        name: tuple(table["rows"][k] for k in ("added", "removed", "changed", "moved_in"))
        for name, table in tables.items()
    }
    return {name: found for name, found in counts.items() if any(found)}


@pytest.mark.parametrize("name", CASES)
def test_a_change_gives_its_plan(world: World, name: str) -> None:
    case = CASES[name]
    case.change(world)
    step = world.step("bases" if name == "another name" else "base")
    said = [error.message for error in step.refusals]
    assert (step.status, step.level) == (case.status, case.level), (said, step.because)
    assert case.because in "; ".join(step.because)
    assert case.built in "; ".join(step.built)
    assert case.refusal in "; ".join(said)
    assert case.note in "; ".join(step.notes)
    assert bool(step.refusals) == (case.status == "refused")
    if case.right is not None:
        assert f'version: "{case.right}"' in str(step.refusals[0].next_command)
    if case.rows is not None:
        assert changes(step) == case.rows


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 25


def test_a_plan_for_nothing_says_so(world: World) -> None:
    plan = world.plan()
    assert plan.nothing
    assert [step.status for step in plan.steps] == ["nothing", "nothing"]
    assert [step.status for step in world.plan("base", "derived", "arm").steps] == ["nothing"] * 3
    assert plan.to_json()["nothing"] is True


# -- several nodes ----------------------------------------------------------------------------------------------------


def untrained(world: World) -> str:
    """Why the checkpoint is refused: it is not trained as declared."""
    (error,) = world.step("arm").refusals
    assert error.message.startswith("is to be trained first: ")
    assert str(error.next_command).startswith("arm train ")
    return error.message


def test_a_dataset_that_another_rests_on_comes_first_and_both_follow(world: World) -> None:
    world.edit(("name: base\n", "name: zbase\n"), ("namespace: planned", "namespace: fresh"))
    world.edit(("base@1.0.0", "zbase@1.0.0"), count=9)
    text = world.folder.joinpath("registry.yaml").read_text()
    head, first, second = text.partition("  - name: derived")[0], "", ""
    start = head.index("  - name: zbase")
    first, second = head[start:], text[len(head) : text.index("models:")]
    world.folder.joinpath("registry.yaml").write_text(head[:start] + second + first)
    plan = world.plan()
    assert [(step.name, step.status) for step in plan.steps] == [("zbase", "publish"), ("derived", "publish")]


def test_what_three_tables_come_from_is_looked_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    known = graph.dataset_of

    def ask(registry: Registry, reference: Reference) -> str:
        asked.append(reference)
        return known(registry, reference)

    monkeypatch.setattr(graph, "dataset_of", ask)
    spec = world.registry().resolved("derived")
    assert len({source.origin for source in spec.sources}) == 1 < len(spec.sources)
    assert len(asked) == 1


def test_a_refused_dataset_refuses_what_rests_on_it(world: World) -> None:
    broken(world)
    plan = world.plan()
    assert [step.status for step in plan.steps] == ["refused", "refused"]
    assert "rests on base 1.0.0, which is not built as declared" in plan.steps[1].refusals[0].message
    assert "arm build" in str(plan.steps[1].refusals[0].next_command)


def test_the_other_datasets_are_still_planned(world: World) -> None:
    world.edit(('name: derived\n    version: "1.0.0"', 'name: derived\n    version: "0.1.0"'))
    plan = world.plan()
    assert [step.status for step in plan.steps] == ["nothing", "refused"]


def test_a_version_that_is_no_longer_built_here_is_the_published_one(world: World) -> None:
    flipped("1.1.0")(world)
    plan = world.plan()
    assert [step.status for step in plan.steps] == ["publish", "refused"]
    assert "planned/base@v1.0.0 is not in arm.lock" in plan.steps[1].refusals[0].message
    assert str(plan.steps[1].refusals[0].next_command).startswith("arm lock")
    world.registry().lock()
    plan = world.plan()
    assert [step.status for step in plan.steps] == ["publish", "nothing"]  # derived still rests on 1.0.0
    assert world.step("arm").status == "nothing"


def test_a_dataset_that_moves_on_takes_those_along_that_name_its_new_version(world: World) -> None:
    world.flip()
    world.move("1.1.0")
    world.version("1.1.0", "derived")
    plan = world.plan()
    assert [(step.name, step.status, step.level) for step in plan.steps] == [
        ("base", "publish", Level.MINOR),
        ("derived", "publish", Level.MINOR),
    ]
    assert "sources[0].origin.revision" in "; ".join(plan.steps[1].built)
    assert ": dataset: " in untrained(world)


def test_what_rests_on_an_unpublished_version_is_refused_alone(world: World) -> None:
    world.edit(("namespace: planned", "namespace: lonely"))
    registry = world.registry()
    registry.build("base", workers=1)
    step = world.step("derived")
    assert step.status == "refused"
    assert "lonely/base@v1.0.0, which is not published" in step.refusals[0].message
    assert step.refusals[0].next_command == "arm push base"


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_another_base_of_a_checkpoint_is_locked_first_and_then_a_reason(world: World) -> None:
    world.edit(("revision: v1", "revision: v2"), file="arm.yaml")
    (refused,) = world.step("arm").refusals
    assert "planned/tiny@v2 is not in arm.lock; it holds planned/tiny@v1" in refused.message
    assert str(refused.next_command).startswith("arm lock")
    (change, gone, *_) = world.registry().lock()
    assert "tiny@v1 is no longer named" in change
    assert "tiny@v2 is" in gone
    assert "base.commit" in untrained(world)


def test_a_recipe_that_changes_is_a_reason(world: World) -> None:
    world.edit(("seed: 1", "seed: 2"), file="arm.yaml")
    assert "recipe.seed: 1 -> 2" in untrained(world)


def test_a_damaged_checkpoint_is_a_reason(world: World) -> None:
    (world.folder / "build" / "arm" / "adapter_model.safetensors").write_bytes(b"other")
    assert "adapter_model.safetensors is missing or changed" in untrained(world)
    world.registry().model("arm").build()
    assert world.step("arm").status == "nothing"
