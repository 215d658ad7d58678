"""A person judges with keys alone; what was pressed is kept, taken back and exported as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from action_reward_models.tests.cards.gallery.browser import Context
from action_reward_models.tests.cards.gallery.made import Made, candidate
from action_reward_models.tests.cards.gallery.scenes import judged, label, records, row, said, scenes

Person = Callable[..., Context]
pytestmark = pytest.mark.browser


def test_twenty_items_without_a_mouse(person: Person) -> None:
    made = scenes(20)
    made.data["items"][13]["label_id"] = None  # nothing to relabel
    page = person().open(made.data)
    expected: dict[str, tuple[str, int | None, str]] = {}
    assert (page.current, judged(page)) == (row(0), 0)
    page.press("y")
    expected[row(0)] = ("keep", None, "")
    page.press("x")
    expected[row(1)] = ("drop", None, "")
    page.press("r")
    expected[row(2)] = ("relabel", None, "")
    page.press("4")  # shown fourth: candidate 3
    expected[label(3)] = ("relabel", 3, "")
    page.press("3")  # the teacher's own pick
    expected[row(4)] = ("keep", None, "")
    page.press("1")  # shown first: candidate 2
    expected[label(5)] = ("relabel", 2, "")
    assert (page.current, said(page), judged(page)) == (row(6), expected, 6)
    page.press("n")
    page.page.keyboard.type("Asks: jxyr1u? – „Ärger“ \U0001f600")  # letters that are keys elsewhere
    page.press("Enter")
    expected[row(6)] = ("note", None, "Asks: jxyr1u? – „Ärger“ \U0001f600")
    assert (page.current, said(page)) == (row(6), expected)
    page.press("j", "k", "ArrowRight", "ArrowLeft", "j")
    assert page.current == row(7)
    page.press("n")
    page.page.keyboard.type("seen")
    page.press("Escape", "x")  # a text goes with the verdict
    expected[row(7)] = ("drop", None, "seen")
    page.press("k", "n")
    page.page.keyboard.type(" twice")
    page.press("Enter", "y", "k", "x")
    expected[row(7)] = ("drop", None, "seen twice")
    assert (page.current, said(page)) == (row(8), expected)
    page.press("4", "k", "y")  # another verdict takes the place of a relabel
    expected[row(8)] = ("keep", None, "")
    page.press("y", "k", "y")  # the same again takes it back
    assert (page.current, page.verdict, said(page)) == (row(9), None, expected)
    page.press("j", "4", "k", "4", "j")  # so does the same pick
    assert (page.current, said(page)) == (row(11), expected)
    page.press("y", "x", "u")  # back on the item, as it was
    assert (page.current, page.verdict) == (row(12), None)
    expected[row(11)] = ("keep", None, "")
    page.press("j", "4")  # no label stands behind it
    assert (page.current, said(page)) == (row(13), expected)
    page.press("r", "9", "y", "j")  # there is no ninth candidate
    expected |= {row(13): ("relabel", None, ""), row(14): ("keep", None, "")}
    assert (page.current, said(page)) == (row(16), expected)
    page.press("/")
    page.page.keyboard.type("s19")
    page.press("Escape", "x", "c")
    expected[row(19)] = ("drop", None, "")
    assert (page.current, said(page)) == (row(19), expected)
    page.press("j", "g")
    assert page.current == row(9)  # the first that is not judged
    assert judged(page) == len(expected) == 13
    assert page.text("#progress").strip().startswith("13 of 20 ")
    page.sign("ann")
    exported = records(page.export())
    found = {one["item_id"]: (one["verdict"], one.get("selected_index"), one["note"]) for one in exported}
    assert found == expected
    assert [one["item_id"] for one in exported] == sorted(expected)
    assert {one["reviewer"] for one in exported} == {"ann"}
    assert all(("selected_index" in one) == (one["item_id"] in (label(3), label(5))) for one in exported)


def test_undo_goes_back_to_the_start(person: Person) -> None:
    """Verdicts and notes in the order in which they were given; a note as a whole."""
    page = person().open(scenes(4).data)
    page.press("y", "4", "n")
    page.page.keyboard.type("abc")
    page.press("Enter", "x", "k", "n")
    page.page.keyboard.type("def")
    page.press("Enter")
    whole = {row(0): ("keep", None, ""), label(1): ("relabel", 3, ""), row(2): ("drop", None, "abcdef")}
    assert said(page) == whole
    assert page.page.locator("#undo").is_enabled()
    page.press("u")
    assert said(page) == {**whole, row(2): ("drop", None, "abc")}
    assert page.page.locator("#note").input_value() == "abc"
    page.press("u")
    assert said(page) == {**whole, row(2): ("note", None, "abc")}
    page.press("u")
    assert said(page) == {key: whole[key] for key in (row(0), label(1))}
    assert page.current == row(2)
    page.press("u")
    assert (said(page), page.current) == ({row(0): whole[row(0)]}, row(1))
    page.page.locator("#undo").click()
    assert (said(page), page.current, judged(page)) == ({}, row(0), 0)
    assert page.page.locator("#undo").is_disabled()
    page.press("u", "u")
    assert said(page) == {}


def test_a_key_that_is_held_judges_one_item(person: Person) -> None:
    page = person().open(scenes(9).data)
    for key in "yx4":
        for _ in range(4):
            page.page.keyboard.down(key)
        page.page.keyboard.up(key)
    assert page.current == row(3)
    for _ in range(4):
        page.page.keyboard.down("j")
    page.page.keyboard.up("j")
    assert page.current == row(7)  # and moves over many


def test_keys_with_modifiers_are_the_browsers(person: Person) -> None:
    page = person().open(scenes(3).data)
    page.press("Control+x", "Alt+y", "Meta+r", "Control+4", "Shift+Y")
    assert (said(page), page.current) == ({}, row(0))


def test_a_relabel_is_seen_on_every_row_of_its_label(person: Person) -> None:
    made = scenes(2)
    state, set_, label_ = "s00", "s00#d0", label(0)
    for n, rejected in enumerate((0, 3)):
        made.item(f"pair {n}", "bt_pairs", state, set_, label_, rejected_index=rejected)
    page = person().open(made.data)
    page.show("pair 1")
    page.press("3")  # of a pair its two sides come first: 1, 3, then the others: 0, 2
    assert said(page) == {label_: ("relabel", 0, "")}
    marks = page.page.locator("#list .mark").evaluate_all("(nodes) => nodes.map((node) => node.classList[1])")
    assert [mark == "relabel" for mark in marks] == [True, False, True, True]
    assert judged(page) == 3
    page.show(row(0))
    pressed = page.page.locator("#judge [data-pick][aria-pressed=true]")
    assert pressed.get_attribute("data-pick") == "2"  # candidate 0 is shown second here
    assert page.page.locator(".candidate.picked").get_attribute("data-index") == "0"
    page.press("n")
    page.page.keyboard.type("why")
    page.press("Enter")
    assert said(page) == {label_: ("relabel", 0, "why")}
    page.show("pair 0")
    assert page.page.locator("#note").input_value() == "why"
    page.press("x")
    assert said(page) == {"pair 0": ("drop", None, "why")}


def test_a_pick_that_an_earlier_review_made_is_what_rows_follow(person: Person) -> None:
    made = scenes(3)
    earlier = {"verdict": "relabel", "note": "", "reviewer": "bob", "time": "2026-01-01T00:00:00Z"}
    for one in made.items:
        one["earlier"] = [{**earlier, "selected_index": 3}]
    page = person().open(made.data)
    page.press("4", "3", "2")  # what rows follow; the teacher's; a third one
    assert said(page) == {
        row(0): ("keep", None, ""), label(1): ("relabel", 1, ""), label(2): ("relabel", 0, ""),
    }  # fmt: skip


def test_the_same_action_as_the_pick_is_no_relabel(person: Person) -> None:
    made = scenes(2)
    for one in made.data["labels"].values():
        one["selected_index"] = 0
    page = person().open(made.data)
    page.press("1", "2")  # candidates 2 and 0
    assert said(page) == {row(0): ("keep", None, ""), row(1): ("keep", None, "")}


def test_a_label_without_a_pick_can_be_given_one(person: Person) -> None:
    made = Made()
    state = made.state("a")
    set_ = made.draw(state, candidate(0, "click(1, 1)"), candidate(1, "stop()"))
    label_ = made.label(set_, None)
    out = {"reason": "none_fit", "detail": "", "status": "dropped"}
    made.item(label_, "selection_sft", state, set_, label_, excluded=out)
    page = person().open(made.data)
    page.press("1")
    assert said(page) == {label_: ("relabel", 0, "")}
    page.press("2")
    assert said(page) == {label_: ("relabel", 1, "")}
    page.press("y")
    assert said(page) == {label_: ("keep", None, "")}


# -- with the mouse --------------------------------------------------------------------------------------------------


def test_a_click_that_ends_a_note_is_not_lost(person: Person) -> None:
    made = scenes(4)
    made.item("pair", "bt_pairs", "s00", "s00#d0", label(0), rejected_index=0)
    page = person().open(made.data)
    page.page.locator("#note").fill("one")
    page.page.locator("#judge [data-verdict=keep]").click()
    assert (said(page), page.current) == ({row(0): ("keep", None, "one")}, row(1))
    page.page.locator("#note").fill("two")
    page.page.locator("#judge [data-pick='4']").click()
    assert said(page)[label(1)] == ("relabel", 3, "two")
    page.show(row(0))
    page.page.locator("#note").press_sequentially("!")
    page.show("pair")  # of the same label
    assert page.current == "pair"
    page.page.locator("#note").fill("three")
    page.choose("table", "bt_pairs")
    assert page.listed == ["pair"]
    assert said(page)["pair"] == ("note", None, "three")


def test_a_note_is_kept_while_it_is_typed(person: Person) -> None:
    context = person()
    page = context.open(scenes(2).data)
    page.press("n")
    page.page.keyboard.type("half a wo")
    page.reload()
    assert said(page) == {row(0): ("note", None, "half a wo")}
    page.press("n", "Control+a", "Delete", "Enter")
    assert said(page) == {}


# -- what is kept ----------------------------------------------------------------------------------------------------
