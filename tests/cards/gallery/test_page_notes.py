"""Notes outlive the page, are shared by the pages of a build, and come back from a file as they were."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from action_reward_models.tests.cards.gallery.browser import Context, Gallery
from action_reward_models.tests.cards.gallery.scenes import is_refused, judged, label, records, row, said, scenes

Person = Callable[..., Context]
pytestmark = pytest.mark.browser

NO_STORAGE = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("The operation is insecure.", "SecurityError"); } });"""
FULL_STORAGE = """Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };"""


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
