"""Labels that contradict each other: counted, and put aside where that is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders import runner, states
from action_reward_models.builders.spec import PromptSpec, SelectionSpec
from action_reward_models.schemas import gates
from action_reward_models.schemas.errors import ArmError

from tests.builders.audits.conftest import ACTIONS, page

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy


def conflicts(build: Build) -> dict[str, Any]:
    found: dict[str, Any] = build.identity["statistics"]["audits"]["conflicting_picks"]
    return found


@pytest.fixture
def contradicting(toy: Toy) -> Toy:
    """Three equal pages: a and b contradict each other, c has other alternatives; d is another page."""
    toy.scene("a", *ACTIONS, picture=page(1), pick=0)
    toy.scene("b", *ACTIONS[::-1], picture=page(1), pick=0)
    toy.scene("c", *ACTIONS[:3], picture=page(1), pick=1)
    toy.scene("d", *ACTIONS, picture=page(2), pick=1)
    return toy


def test_they_are_kept_and_told(contradicting: Toy) -> None:
    build = contradicting.build()
    assert conflicts(build) == {
        "handling": "keep",
        "groups": 1,
        "labels": 2,
        "named": [{"label": "a__t0#d0|-|-|0", "contradicts": "b__t0#d0|-|-|0"}],
    }
    assert len(build.rows("selection_sft")) == 4
    assert gates.warnings(build.identity) == [
        "2 labels pick different actions for equal states and alternatives, such as a__t0#d0|-|-|0 and b__t0#d0|-|-|0"
    ]


def test_quarantine_takes_all_of_them_out_before_rows_are_made(contradicting: Toy) -> None:
    build = contradicting.build(conflicting="quarantine")
    both = ["a__t0#d0|-|-|0", "b__t0#d0|-|-|0"]
    assert build.excluded("selection_sft") == {"conflicting_pick": both}
    assert sorted(row["label_id"] for row in build.rows("selection_sft")) == ["c__t0#d0|-|-|0", "d__t0#d0|-|-|0"]
    assert {row["label_id"] for row in build.rows("bt_pairs")} == {"c__t0#d0|-|-|0", "d__t0#d0|-|-|0"}
    first = build.row("exclusions", source_id=both[0])
    assert first["status"] == "quarantined"
    assert first["detail"] == (
        f"picks click(10, 10); {both[1]} picks click(10, 60) for an equal state and alternatives"
    )
    assert len(build.rows("teacher_labels")) == 4  # labels stay what they are
    assert build.balanced()
    assert (conflicts(build)["handling"], conflicts(build)["labels"]) == ("quarantine", 2)
    assert gates.warnings(build.identity) == []


def test_they_stop_a_build_when_that_is_declared(contradicting: Toy) -> None:
    spec = contradicting.spec(conflicting_picks="error")
    with pytest.raises(ArmError, match="2 labels pick different actions") as caught:
        runner.build(spec, contradicting.folder / "out", card=lambda manifest: "", workers=1)
    assert caught.value.next_command == ("gates: {conflicting_picks: warn}   # or labels: {conflicting: quarantine}")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("another task", {"task": "Click TWO."}),
        ("another screenshot", {"picture": page(2)}),
        ("another address", {"text": "URL: https://a.test/"}),
        ("the same pick", {"pick": 0}),
    ],
)
def test_states_that_differ_do_not_contradict(name: str, change: dict[str, Any], toy: Toy) -> None:
    toy.scene("a", *ACTIONS, picture=page(1), pick=0)
    told: dict[str, Any] = {"picture": page(1), "pick": 1} | change
    toy.scene("b", *ACTIONS, **told)
    assert conflicts(toy.build(conflicting="quarantine"))["labels"] == 0


def test_states_of_which_nothing_is_seen_do_not_contradict() -> None:
    """Without screenshot and without text nobody knows whether two pages are the same."""
    seen: dict[str, Any] = {"task": "t", "url": None, "history": [], "observation_text": None}
    a, b = {**seen, "state_id": "a"}, {**seen, "state_id": "b"}
    assert states.content(a, None) != states.content(b, None)
    assert states.content(a, "0" * 64) == states.content(b, "0" * 64) != states.content(a, "1" * 64)
    assert states.content(a | {"observation_text": "x"}, None) == states.content(b | {"observation_text": "x"}, None)


def test_text_only_states_contradict_across_ids(toy: Toy) -> None:
    for name, pick in (("a", 0), ("b", 1), ("c", 1)):
        toy.scene(name, *ACTIONS, picture=None, text="URL: https://a.test/the/same", pick=pick)
    options = {"observation": "text"}
    selection = SelectionSpec(PromptSpec("selection/1", options=options))
    build = toy.build(selection=selection, tables=("states", "selection_sft"), conflicting="quarantine", shards=3)
    assert build.excluded("selection_sft") == {"conflicting_pick": [f"{n}__t0#d0|-|-|0" for n in "abc"]}


def test_a_label_that_feeds_nothing_contradicts_nothing(toy: Toy) -> None:
    toy.scene("a", *ACTIONS, picture=page(1), pick=0)
    toy.scene("b", *ACTIONS, picture=page(1), pick=None)
    toy.scene("c", *ACTIONS, picture=page(1), pick=9)
    build = toy.build(conflicting="quarantine")
    assert conflicts(build)["labels"] == 0
    assert build.excluded("selection_sft") == {
        "null_in_source": ["b__t0#d0|-|-|0"], "out_of_range": ["c__t0#d0|-|-|0"],
    }  # fmt: skip
