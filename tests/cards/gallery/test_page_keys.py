"""A person judges with keys alone; what was pressed is kept, shared, taken back, exported and loaded as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from action_reward_models.schemas.jsonl import JsonError, loads
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests.cards.gallery.browser import Context, Gallery
from action_reward_models.tests.cards.gallery.made import Made, candidate

Person = Callable[..., Context]
Note = dict[str, Any]
pytestmark = pytest.mark.browser

TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NO_STORAGE = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("The operation is insecure.", "SecurityError"); } });"""
FULL_STORAGE = """Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };"""
ACTIONS = ("click(1, 1)", "click(9, 9)", "click(1, 1)", "stop()")  # the first and the third are the same


def scenes(count: int, **more: Any) -> Made:
    """Selection rows that show their candidates in the order 2, 0, 1, 3; the teacher picked 1, shown third."""
    made = Made(**more)
    for number in range(count):
        candidates = [candidate(n, action, same_as=0 if n == 2 else None) for n, action in enumerate(ACTIONS)]
        made.scene(f"s{number:02}", *candidates, pick=1)
        made.data["items"][-1]["order"] = [2, 0, 1, 3]
    return made


def row(number: int) -> str:
    return f"row of s{number:02}"


def label(number: int) -> str:
    return f"s{number:02}#d0|teacher|-|0"


def said(page: Gallery) -> dict[str, tuple[str, int | None, str]]:
    return {id_: (note["verdict"], note["selected_index"], note["note"]) for id_, note in page.notes.items()}


def records(exported: bytes) -> list[Note]:
    """The lines of a file, each of which is a review."""
    assert exported.endswith(b"\n")
    found = [json.loads(line) for line in exported.splitlines()]
    for one in found:
        assert for_schema("review/1").problems(one) == []
        assert TIME.fullmatch(one["time"])
    return found


def is_refused(line: bytes) -> bool:
    """Whether a build would take exception to a line."""
    try:
        return for_schema("review/1").problems(loads(line)) != []
    except JsonError:
        return True


def judged(page: Gallery) -> float:
    return float(page.page.locator("#progress progress").evaluate("(bar) => bar.value"))


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


def test_notes_outlive_the_page_and_are_shared_by_pages_of_the_build(person: Person) -> None:
    context = person()
    made = scenes(5)
    page = context.open(made.data)
    page.sign("ann")
    page.press("y", "4", "n")
    page.page.keyboard.type("kept")
    page.press("Enter", "j")
    before = page.notes
    page.reload()
    assert page.notes == before
    assert page.current == row(3)  # the address says where one was
    assert judged(page) == 3
    assert page.page.locator("#alias input").input_value() == "ann"
    page.press("k")
    assert (page.verdict, page.page.locator("#note").input_value()) == (None, "kept")
    other = scenes(4)  # another sample of the same build
    other.data["items"].reverse()
    second = context.open(other.data)
    assert second.notes == before
    second.show(row(0))
    assert second.verdict == "keep"
    second.show(row(3))
    second.press("x")
    page.page.bring_to_front()
    assert judged(page) == 4  # without a reload
    page.show(row(3))
    assert page.verdict == "drop"
    page.press("x")
    assert row(3) not in second.notes
    foreign = context.open(scenes(5, digest="cd" * 32).data)
    assert (foreign.notes, judged(foreign)) == ({}, 0)


@pytest.mark.parametrize("kept", ["", "null", "[1, 2]", "{", '{"row of s00": null, "row of s01": {"verdict": "sing"}}'])
def test_damaged_storage_is_no_hindrance(person: Person, kept: str) -> None:
    context = person()
    made = scenes(2)
    page = context.open(made.data)
    page.page.evaluate("([key, kept]) => localStorage.setItem(key, kept)", ["arm-review:" + "ab" * 32, kept])
    page.page.reload()
    assert judged(page) == 0
    page.press("y")
    assert said(page) == {row(0): ("keep", None, "")}


@pytest.mark.parametrize("script", [NO_STORAGE, FULL_STORAGE], ids=["blocked", "full"])
def test_a_browser_that_keeps_nothing_says_so_and_exports(person: Person, script: str) -> None:
    page = person(script=script).open(scenes(3).data)
    assert page.page.locator("#progress.unkept").count() == 1
    assert len(page.text("#progress")) > len("0 of 3 judged") + 10
    page.press("y", "4")
    page.sign("ann")
    assert judged(page) == 2
    assert [one["item_id"] for one in records(page.export())] == sorted([row(0), label(1)])


# -- files -----------------------------------------------------------------------------------------------------------


def test_an_export_needs_a_name(person: Person) -> None:
    page = person().open(scenes(2).data)
    page.press("e")
    assert page.toast != ""  # nothing to export
    page.press("y", "e")
    assert page.page.evaluate("document.activeElement.closest('#alias') !== null")
    page.page.keyboard.type("  ann  ")
    page.press("Enter")
    (one,) = records(page.export())
    assert one["reviewer"] == "ann"


def test_who_said_it_stays_with_it(person: Person) -> None:
    page = person().open(scenes(3).data)
    page.sign("ann")
    page.press("y")
    page.sign("bob")
    page.press("y")
    assert [one["reviewer"] for one in records(page.export())] == ["ann", "bob"]


def test_what_was_exported_can_be_loaded(person: Person) -> None:
    made = scenes(5)
    page = person().open(made.data)
    page.sign("ann")
    page.press("y", "4", "x", "r", "n")
    page.page.keyboard.type("„text“ \u2028 </script>\\")
    page.press("Enter")
    before, exported = page.notes, page.export()
    fresh = person().open(made.data)
    assert fresh.notes == {}
    fresh.press("y", "u")
    fresh.load(exported)
    assert fresh.notes == before
    assert judged(fresh) == 5
    assert fresh.verdict == "keep"  # of the item in sight
    fresh.press("u")
    assert fresh.notes == before
    fresh.sign("eve")
    assert fresh.export() == exported
    page.load(exported)
    assert page.notes == before


GOOD = {"item_id": row(0), "verdict": "drop", "note": "", "reviewer": "ann", "time": "2026-01-01T00:00:00Z"}
BAD: list[Any] = [
    5, None, "text", [GOOD], {},
    {**GOOD, "verdict": "sing"}, {**GOOD, "verdict": ["drop"]},
    {**GOOD, "time": "yesterday"}, {**GOOD, "time": ["2026-01-01T00:00:00Z"]}, {**GOOD, "time": None},
    {**GOOD, "item_id": 7}, {**GOOD, "item_id": ""}, {**GOOD, "item_id": "a\nb"}, {**GOOD, "item_id": "a" * 4097},
    {**GOOD, "reviewer": ""}, {**GOOD, "reviewer": None}, {**GOOD, "note": 4}, {**GOOD, "note": "\ud800"},
    {**GOOD, "verdict": "note"}, {**GOOD, "selected_index": 1},
    {**GOOD, "verdict": "relabel", "selected_index": -1}, {**GOOD, "verdict": "relabel", "selected_index": 1.5},
    {**GOOD, "verdict": "relabel", "selected_index": "1"}, {**GOOD, "verdict": "relabel", "selected_index": 2**53},
    {**GOOD, "more": 1},
    {key: value for key, value in GOOD.items() if key != "note"},
    {key: value for key, value in GOOD.items() if key != "reviewer"},
]  # fmt: skip


@pytest.fixture(scope="module")
def loading(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    context = Context(chromium, tmp_path_factory.mktemp("load"))
    yield context.open(scenes(3).data)
    context.context.close()
    assert context.problems == []


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: json.dumps(bad)[:60])
def test_a_line_that_is_no_review_is_named_and_changes_nothing(loading: Gallery, bad: Any) -> None:
    line = json.dumps(bad).encode()
    assert is_refused(line)
    before = loading.notes
    word = loading.load(b"\n" + line + b"\n\n")
    assert re.search(r"\b2\b", word)
    assert loading.notes == before


def test_good_lines_between_bad_ones_are_taken(person: Person) -> None:
    page = person().open(scenes(3).data)
    waits = {**GOOD, "item_id": row(1), "verdict": "relabel", "selected_index": None}
    elsewhere = {**GOOD, "item_id": "elsewhere"}
    lines = [json.dumps(GOOD), "{", "[]", json.dumps(waits), json.dumps(elsewhere), "{]", '{"item_id": "x", "verdict"']
    word = page.load("\r\n".join(lines).encode())
    assert "2, 3, 6, 7" in word
    assert set(page.notes) == {row(0), row(1), "elsewhere"}
    page.sign("bob")
    assert {one["item_id"] for one in records(page.export())} == {row(0), row(1), "elsewhere"}


def test_of_two_notes_the_newer_stands(person: Person) -> None:
    page = person().open(scenes(2).data)
    newer, older = {**GOOD, "time": "2026-02-01T00:00:00Z", "verdict": "keep"}, GOOD
    page.load(f"{json.dumps(newer)}\n{json.dumps(older)}".encode())
    assert said(page) == {row(0): ("keep", None, "")}
    page.press("r")  # now
    page.load(f"{json.dumps(newer)}\n".encode())
    assert said(page) == {row(0): ("relabel", None, "")}
