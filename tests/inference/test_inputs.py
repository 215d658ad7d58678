"""Candidate sets of a build as questions: as their rows say, each with its state and the bytes of its picture."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.inference.inputs import Question, Split
from action_reward_models.inference.rendering import Shown
from action_reward_models.inference.request import Spoken
from action_reward_models.prompts.render import Prompt
from action_reward_models.schemas.built import BuiltTables
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.tests.builders.conftest import Toy
from action_reward_models.tests.inference.asked import prompt

SPOKEN = [Spoken("function", "pixel")]
PAGES = 12


def tables(folder: Path) -> BuiltTables:
    return BuiltTables.of(folder, lambda *_: None, "reading", hashed=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve states with two sets each."""
    toy = Toy(tmp_path_factory.mktemp("toy"))
    for number in range(PAGES):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
        toy.draw(f"e{number}__t0", "click(2, 2)", "stop()", number=1)
    return Path(toy.build(validation=0.5, shards=4).folder)


def all_of(split: Split, piece: int) -> list[Question]:
    firsts = range(0, split.total, piece)
    return [one for first in firsts for one in split.questions(first, min(first + piece, split.total))]


@pytest.mark.parametrize("held", ["train", "validation"])
def test_questions_are_the_rows_of_the_split(built: Path, held: str) -> None:
    of = tables(built)
    pictures: dict[str, bytes] = {}
    states = {row["state_id"]: row for row in of.rows("states", pictures.__setitem__)}
    sets = {row["set_id"]: row for row in of.rows("candidate_sets") if row["split"] == held}
    split = Split(of, held, prompt(), SPOKEN)
    found = all_of(split, 5)
    assert 2 < len(found) == split.total == len(sets) < 2 * PAGES
    assert {one.id for one in found} == sets.keys()
    assert [one.row_index for one in found] == list(range(len(found)))
    for one in found:
        request = one.request
        assert request is not None
        assert one.line is None
        assert request.set_row == sets[str(one.id)]
        assert request.state == states[request.set_row["state_id"]]
        (sha256,) = request.pictures
        assert sha256_hex(request.pictures[sha256]) == sha256 == request.state["screenshot_sha256"]
        assert request.pictures[sha256] == pictures[request.state["screenshot"]]
        order = Shown().order(request.set_row)
        assert split.renderer is not None
        assert split.renderer.selection(request.state, request.set_row, order).images == (sha256,)
    assert found == all_of(split, 3) == all_of(split, 1000)


def test_states_lie_beside_each_other(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a piece reads few row groups of pictures, however ids of sets are sorted."""
    of = tables(built)
    columns = BuiltTables.columns

    def backwards(self: BuiltTables, table: str, *given: Any) -> Any:
        found = list(columns(self, table, *given))
        return iter(found[::-1] if table == "states" else found)

    monkeypatch.setattr(BuiltTables, "columns", backwards)
    place = {row["state_id"]: at for at, row in enumerate(of.columns("states", ("state_id",)))}
    split = Split(of, "train", prompt(), SPOKEN)
    order = [place[one.request.set_row["state_id"]] for one in all_of(split, 4) if one.request]
    assert order == sorted(order)


def test_only_files_of_the_split_are_read(built: Path) -> None:
    """Those of a published build are downloaded when they are read."""
    of, fetched = tables(built), set[str]()

    def fetch(name: str) -> Path:
        fetched.add(name)
        return built / name

    all_of(Split(replace(of, fetch=fetch), "validation", prompt(), SPOKEN), 4)
    assert {name.split("/")[1] for name in fetched} == {"states", "candidate_sets"}
    assert not [name for name in fetched if "train" in name]


def test_states_may_lie_in_another_split(built: Path) -> None:
    of = tables(built)
    entry = of.identity["tables"]["states"]
    files = [file for part in entry["splits"].values() for file in part["files"]]
    moved = identity(of, {"states": {**entry, "splits": {"train": {"files": files}}}})
    found = all_of(Split(moved, "validation", prompt(), SPOKEN), 5)
    assert found
    assert all(one.request is not None for one in found)


def test_who_decides_what_is_asked(built: Path) -> None:
    of = tables(built)
    train, other = (Split(of, name, prompt(), SPOKEN).identity for name in ("train", "validation"))
    assert train != other
    assert {**train, "split": "validation"} == other
    changed = replace(of, identity={**of.identity, "version": "9.9.9"})
    assert Split(changed, "train", prompt(), SPOKEN).identity != train


def test_a_set_whose_state_is_gone_has_a_row(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = tables(built)
    gone = next(iter(of.columns("states", ("state_id",))))["state_id"]
    some = BuiltTables.some

    def without(self: BuiltTables, table: str, *given: Any) -> Any:
        return (row for row in some(self, table, *given) if table != "states" or row["state_id"] != gone)

    monkeypatch.setattr(BuiltTables, "some", without)
    found = [one for held in ("train", "validation") for one in all_of(Split(of, held, prompt(), SPOKEN), 7)]
    lost = [one for one in found if one.request is None]
    assert [one.id for one in lost] == [f"{gone}#d0", f"{gone}#d1"]
    assert {one.problem for one in lost} == {f"the build has no state {gone!r}"}
    assert len(found) == 2 * PAGES


def identity(of: BuiltTables, change: Mapping[str, Any]) -> BuiltTables:
    return replace(of, identity={**of.identity, "tables": {**of.identity["tables"], **change}})


def refused(of: BuiltTables, split: str = "train", spoken: Any = SPOKEN, shown: Prompt | None = None) -> str:
    with pytest.raises(ArmError) as caught:
        all_of(Split(of, split, shown or prompt(), spoken), 4)
    return str(caught.value)


def test_what_cannot_be_asked_about_at_all(built: Path, tmp_path: Path) -> None:
    of = tables(built)
    assert "holds no candidate sets in test" in refused(of, "test")
    told = refused(of, spoken=[Spoken("react", None), Spoken("function", "norm1000")])
    assert "trained on actions in function in norm1000, react in no declared space, and those of train" in told
    held = {name: entry for name, entry in of.identity["tables"].items() if name != "states"}
    told = refused(replace(of, identity={**of.identity, "tables": held}))
    assert "has no table states" in told
    assert "tables: {states: {}}   # of the dataset, in registry.yaml" in told
    damaged = tmp_path / "damaged"
    shutil.copytree(built, damaged)
    path = next(damaged.glob("data/candidate_sets/train*"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert "is not the file that the manifest names" in refused(tables(damaged))


def test_pictures_by_their_hash_alone(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    for number in range(3):
        toy.scene(f"e{number}", picture=number)
    of = tables(Path(toy.build(images={"states": "reference", "selection_sft": "embed", "bt_pairs": "embed"}).folder))
    assert "images: embed   # of states, in registry.yaml" in refused(of)
    text = Split(of, "train", prompt(observation="text"), SPOKEN)
    assert [one.request is not None for one in all_of(text, 4)] == [True] * 3, "which shows none"
