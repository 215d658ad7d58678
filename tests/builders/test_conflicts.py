"""One id, two contents: an error that names both lines, or quarantine of all records of the id."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

KINDS = ("episodes", "candidate_sets", "teacher_labels")


def _again(toy: Toy, kind: str) -> str:
    """Append a record with the id of the first one and other content; return that id."""
    if kind == "episodes":
        return toy.page("a", picture=9)
    if kind == "candidate_sets":
        return toy.draw("a__t0", "click(3, 3)", "stop()")
    return toy.label("a__t0#d0", 1)


def _repeat(toy: Toy, kind: str) -> None:
    toy.lines(kind).append(toy.lines(kind)[0])


@pytest.fixture
def two(toy: Toy) -> Toy:
    toy.scene("a", picture=1, task="one")
    toy.scene("b", picture=2, task="two")
    return toy


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_names_both_lines(two: Toy, kind: str) -> None:
    """49,536 records carry 49,360 distinct ids: 176 ids exist twice, with different content."""
    row_id = _again(two, kind)
    with pytest.raises(ArmError) as caught:
        two.build()
    (issue,) = caught.value.issues
    assert (issue.file, issue.line) == (two.files[kind], 3)
    assert issue.message == f"the id {row_id!r} has other content in {two.files[kind]}:1"
    assert "on_conflict: quarantine" in (caught.value.next_command or "")


@pytest.mark.parametrize("kind", KINDS)
def test_exact_repeats_are_no_conflict(two: Toy, kind: str) -> None:
    alone = two.build()
    _repeat(two, kind)
    _repeat(two, kind)
    build = two.build()
    stage = "states" if kind == "episodes" else kind
    assert [len(ids) for ids in build.excluded(stage).values()] == [2]
    assert list(build.excluded(stage)) == ["duplicate_record"]
    assert {k: v for k, v in build.digests.items() if k != "exclusions"} == {
        k: v for k, v in alone.digests.items() if k != "exclusions"
    }
    assert build.balanced()


def test_a_repeat_in_other_words_is_a_repeat(two: Toy) -> None:
    """Key order and spaces are not content."""
    record = two.sets[0]
    assert isinstance(record, dict)
    two.sets.append(json.dumps(dict(reversed(record.items())), indent=1).replace("\n", " ").encode() + b"\n")
    assert two.build().excluded("candidate_sets") == {"duplicate_record": ["a__t0#d0"]}


def test_a_conflicting_state_takes_its_sets_and_labels_along(two: Toy) -> None:
    _again(two, "episodes")
    _repeat(two, "episodes")
    two.source = {"on_conflict": "quarantine"}
    build = two.build()
    assert build.excluded("states") == {"conflicting_id": ["a__t0"] * 3}
    assert build.excluded("candidate_sets") == {"no_state": ["a__t0#d0"]}
    assert build.excluded("teacher_labels") == {"no_candidate_set": ["a__t0#d0"]}
    assert {row["status"] for row in build.rows("exclusions", reason="conflicting_id")} == {"quarantined"}
    assert {row["state_id"] for table in ("states", "selection_sft", "bt_pairs") for row in build.rows(table)} == {
        "b__t0"
    }
    assert build.balanced()


def test_a_conflicting_set_takes_its_label_along(two: Toy) -> None:
    """A rerun appended a second `#d0`; which of the two the label judged, nobody can say."""
    _again(two, "candidate_sets")
    two.draw("a__t0", "click(3, 3)", "stop()", number=1)
    two.label("a__t0#d1", 0)
    two.source = {"on_conflict": "quarantine"}
    build = two.build()
    assert build.excluded("candidate_sets") == {"conflicting_id": ["a__t0#d0"] * 2}
    assert build.excluded("teacher_labels") == {"no_candidate_set": ["a__t0#d0"]}
    assert build.excluded("coverage") == {}  # the state has another draw
    assert {row["set_id"] for row in build.rows("selection_sft")} == {"a__t0#d1", "b__t0#d0"}
    details = {row["detail"] for row in build.rows("exclusions", reason="conflicting_id")}
    assert details == {f"candidates.jsonl:{line} one id, two contents" for line in (1, 3)}


def test_conflicting_labels_feed_nothing(two: Toy) -> None:
    _again(two, "teacher_labels")
    two.source = {"on_conflict": "quarantine"}
    build = two.build()
    assert build.excluded("teacher_labels") == {"conflicting_id": ["a__t0#d0|-|-|0"] * 2}
    assert build.excluded("coverage") == {"no_label": ["a__t0#d0"]}
    assert {row["set_id"] for row in build.rows("selection_sft")} == {"b__t0#d0"}
    assert build.balanced()


def test_one_label_with_two_reasonings_is_a_conflict(two: Toy) -> None:
    two.label("a__t0#d0", 0, reasoning="because")
    with pytest.raises(ArmError, match="1 problem"):
        two.build()


def test_two_teachers_are_two_labels(two: Toy) -> None:
    states, sets, labels = two.sources()
    other = (("other.jsonl", two.write("other.jsonl", [{"state_id": "a__t0#d0", "selection": 1}])),)
    build = two.build(sources=(states, sets, labels, replace(labels, files=other, constants={"teacher": "other"})))
    assert {row["label_id"] for row in build.rows("teacher_labels", state_id="a__t0")} == {
        "a__t0#d0|-|-|0", "a__t0#d0|other|-|0",
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("declared", [("quarantine", "error"), ("error", "quarantine")])
def test_both_sources_must_allow_quarantine(two: Toy, kind: str, declared: tuple[str, str]) -> None:
    """Which source comes first must not decide."""
    row_id = _again(two, kind)
    again = two.lines(kind).pop()
    other = (("again.jsonl", two.write("again.jsonl", [again])),)
    sources = [replace(s, on_conflict=declared[0]) for s in two.sources()]  # type: ignore[arg-type]
    (own,) = [source for source in sources if source.kind == kind]
    sources.append(replace(own, files=other, on_conflict=declared[1]))  # type: ignore[arg-type]
    with pytest.raises(ArmError) as caught:
        two.build(sources=tuple(sources))
    assert repr(row_id) in caught.value.issues[0].message


@pytest.mark.parametrize("shards", [1, 3])
def test_the_order_of_the_lines_decides_nothing(two: Toy, shards: int) -> None:
    """Which record came first must not decide which one is kept."""
    for kind in KINDS:
        _again(two, kind)
        _repeat(two, kind)
        two.lines(kind).append(b'{"oops')
    for name in "cde":
        two.scene(name, picture=ord(name))
        two.label(two.draw(f"{name}__t0", "click(1, 1)", "wait(1)", "stop()", number=1), 2)
    two.sets.append(two.sets[-1])
    two.label("gone__t0#d0", 0)
    two.source = {"on_conflict": "quarantine", "on_invalid": "exclude"}
    found = set()
    for seed in range(6):
        for kind in KINDS:
            random.Random(seed).shuffle(two.lines(kind))
            two.lines(kind).append(b"\n")
        build = two.build(shards=shards, validation=0.4)
        for kind in KINDS:
            two.lines(kind).pop()
        assert build.balanced()
        found.add((tuple(sorted(build.digests.items())), json.dumps(build.identity["statistics"], sort_keys=True)))
    assert len(found) == 1
