"""From a build to its page, from keys pressed there to review.jsonl, and from that to the next build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.spec import PairSpec, PromptSpec
from action_reward_models.schemas.store import ID_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from action_reward_models.tests.cards.gallery.browser import Context, Gallery

    from tests.builders.conftest import Build, Toy
    from tests.cards.gallery.conftest import Page

pytestmark = pytest.mark.browser


def label(name: str) -> str:
    return f"{name}__t0#d0|-|-|0"


@pytest.fixture
def scenes(toy: Toy) -> Toy:
    """The teacher picks the first of three actions; of `q`, two answers to choose from are in quarantine as a pair."""
    for number, name in enumerate("abcd"):
        toy.scene(name, "click(1, 1)", "click(7, 7)", f'type(2, 2, "{name}")', picture=number, task=f"Do {name}.")
    toy.scene("q", 'stop("1")', 'stop("2")', "click(1, 1)", picture=9, task="Do q.")
    return toy


def build(toy: Toy, *more: Any) -> Build:
    made = toy.build(sources=(*toy.sources(), *more), pairs=PairSpec(PromptSpec("scalar/1"), 0))
    assert made.balanced()
    return made


def rows(made: Build) -> dict[tuple[str, str], dict[str, Any]]:
    tables = [table for table in made.digests if table in ID_FIELDS and table != "reviews"]
    return {(table, row[ID_FIELDS[table]]): row for table in tables for row in made.rows(table)}


def pick(page: Gallery, item_id: str, index: int) -> None:
    """Press the number under which the page shows a candidate of the item."""
    page.show(item_id)
    card = page.page.locator(f"#candidates .candidate[data-index='{index}'] .number")
    page.press(card.inner_text())


def test_what_was_judged_is_what_the_next_build_does(
    person: Callable[..., Context], scenes: Toy, shown: Callable[..., Page]
) -> None:
    before = build(scenes)
    page = person().open(*shown(before, items=1000))
    page.sign("ann")
    pick(page, f"{label('a')}|selection/1", 2)  # another answer, said at the selection row
    pick(page, f"{label('b')}|1|scalar/1", 1)  # and at a pair: its rejected side is right
    pick(page, f"{label('c')}|selection/1", 0)  # the teacher was right
    page.show(f"{label('c')}|2|scalar/1")
    page.press("x")
    page.show(f"{label('d')}|selection/1")
    page.press("r")
    page.show(f"{label('q')}|1")
    page.press("y")  # two different answers teach something here
    page.show(f"{label('q')}|selection/1")
    page.press("n")
    page.page.keyboard.type("Is the page still there?")
    page.press("Enter")
    path = scenes.folder / "review.jsonl"
    path.write_bytes(page.export())

    after = build(scenes, scenes.lay("reviews", "review", "review.jsonl", path.read_bytes().splitlines()))
    assert after.excluded("reviews") == {}
    assert after.identity["ledger"]["reviews"]["out"] == 7
    old, new = rows(before), rows(after)
    assert {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)} == {
        *((("selection_sft"), f"{label(name)}|selection/1") for name in "abd"),
        *(("bt_pairs", f"{label('a')}|{loser}|scalar/1") for loser in (0, 1, 2)),
        *(("bt_pairs", f"{label('b')}|{loser}|scalar/1") for loser in (0, 1, 2)),
        ("bt_pairs", f"{label('c')}|2|scalar/1"),
        ("bt_pairs", f"{label('q')}|1|scalar/1"),
    }
    for name, picked in (("a", 2), ("b", 1)):
        chosen = {row["chosen_index"] for row in after.rows("bt_pairs", label_id=label(name))}
        losers = {row["rejected_index"] for row in after.rows("bt_pairs", label_id=label(name))}
        assert (chosen, losers) == ({picked}, {0, 1, 2} - {picked})
        row = new["selection_sft", f"{label(name)}|selection/1"]
        reply = f'{{"selection": {row["order"].index(picked) + 1}}}'
        assert row["completion"][0]["content"][0]["text"] == reply
    assert after.excluded("selection_sft") == {"review_relabel": [label("d")]}
    assert ("bt_pairs", f"{label('c')}|2|scalar/1") not in new
    assert new["bt_pairs", f"{label('q')}|1|scalar/1"]["relation"] == "done_vs_done"
    notes = {row["item_id"]: row["note"] for row in after.rows("reviews", verdict="note")}
    assert notes == {f"{label('q')}|selection/1": "Is the page still there?"}

    again = person().open(*shown(after, items=1000))  # the page of the new build tells who said so
    again.show(f"{label('a')}|selection/1")
    assert "ann: relabel" in again.text("#panel")
    pick(again, f"{label('a')}|selection/1", 2)  # what the rows follow now
    assert again.verdict is None  # the next item came
    assert [note["verdict"] for note in again.notes.values()] == ["keep"]
