"""Filters and search list exactly what Python finds in the data, with the right numbers beside the values."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.tests.cards.gallery.browser import Context
from action_reward_models.tests.cards.gallery.made import Made, candidate, message

if TYPE_CHECKING:
    from action_reward_models.tests.builders.conftest import Build
    from action_reward_models.tests.cards.gallery.browser import Data, Gallery
    from action_reward_models.tests.cards.gallery.conftest import Page
    from playwright.sync_api import Browser

Person = Callable[..., Context]
Item = dict[str, Any]
pytestmark = pytest.mark.browser

FACETS = ("table", "split", "pair_type", "reason", "host", "verbs", "status", "tie")


@pytest.fixture
def mixed() -> Made:
    """Eighty items with values of every facet that do not follow from one another, some judged by an earlier review."""
    made, rng = Made(), random.Random(6)
    for number in range(80):
        host = rng.choice(["shop.example", "mail.example", "", None])
        state = made.state(f"s{number}", host=host)
        verbs = rng.sample(["click", "type", "stop", "scroll", "constructor"], 2)
        set_ = made.draw(state, *(candidate(n, f"{verb}({number})") for n, verb in enumerate(verbs)))
        label = made.label(set_, rng.choice([0, 1, None]), tie_indices=rng.choice([[], [1]]))
        reason = rng.choice([None, "identical", "done_vs_done"])
        out = reason and {"reason": reason, "detail": "", "status": rng.choice(["dropped", "quarantined"])}
        said = {
            "verdict": "keep",
            "selected_index": None,
            "note": "",
            "reviewer": "ann",
            "time": "2026-01-01T00:00:00Z",
        }
        made.item(
            f"i{number}", rng.choice(["selection_sft", "bt_pairs", "reserve"]), state, set_,
            rng.choice([label, label, None]), excluded=out, split=rng.choice(["train", "validation"]),
            facets={"pair_type": rng.choice([None, "click", "click vs type"])},
            earlier=[said] if number % 9 == 0 else [],
        )  # fmt: skip
    return made


def values(item: Item, facet: str) -> list[str]:
    value = item["facets"][facet]
    return [one for one in (value if isinstance(value, list) else [value]) if one is not None]


def having(items: Iterable[Item], **wanted: str) -> list[str]:
    """Ids of the items that have all these values, in the order of the data."""
    return [item["id"] for item in items if all(value in values(item, facet) for facet, value in wanted.items())]


def every_filter(page: Gallery, data: Data) -> int:
    """Choose each value of each filter alone; returns how many there were."""
    items, tried = data["items"], 0
    for facet in FACETS:
        counts = Counter(value for item in items for value in values(item, facet))
        if len(counts) < 2 and all(values(item, facet) for item in items):
            assert page.page.locator(f"#filter-{facet}").count() == 0  # no choice
            continue
        if not counts:
            continue
        assert page.options(facet) == counts
        for value, count in counts.items():
            page.choose(facet, value)
            assert page.listed == having(items, **{facet: value})
            assert len(page.listed) == count
            assert page.text("#count").startswith(f"{count} of ")
            assert page.current in page.listed
            tried += 1
        page.choose(facet, None)
        assert page.listed == [item["id"] for item in items]
    return tried


def test_each_value_lists_what_has_it(mixed: Made, person: Person) -> None:
    page = person().open(mixed.data)
    assert every_filter(page, mixed.data) == 3 + 2 + 2 + 2 + 3 + 5 + 2 + 2


def test_filters_of_a_real_build(many: Callable[..., Build], shown: Callable[..., Page], person: Person) -> None:
    data, pictures = shown(many(), items=400)
    assert {values(item, "table")[0] for item in data["items"]} >= {"bt_pairs", "reserve", "actor_sft"}
    assert every_filter(person().open(data, pictures), data) > 20


def test_filters_go_together_and_count_for_each_other(mixed: Made, person: Person) -> None:
    page = person().open(mixed.data)
    rng = random.Random(1)
    met = 0
    for _ in range(12):
        page.press("c")
        assert page.listed == [item["id"] for item in mixed.items]
        wanted: dict[str, str] = {}
        for facet in rng.sample(FACETS, 3):
            value = rng.choice(sorted({value for item in mixed.items for value in values(item, facet)}))
            wanted[facet] = value
            page.choose(facet, value)
        assert page.listed == having(mixed.items, **wanted)
        met += bool(page.listed)
        for facet in FACETS:  # beside a value: what would be listed if it were chosen
            others = {name: value for name, value in wanted.items() if name != facet}
            every = Counter({value: 0 for item in mixed.items for value in values(item, facet)})
            for item in mixed.items:
                if item["id"] in having([item], **others):
                    every.update(values(item, facet))
            assert page.options(facet) == every
    assert met > 3
    page.page.locator("#clear").click()
    assert page.listed == [item["id"] for item in mixed.items]
    assert page.page.locator("#clear").count() == 0


def test_what_is_judged_can_be_listed(mixed: Made, person: Person) -> None:
    page = person().open(mixed.data)
    ids = [item["id"] for item in mixed.items]
    before = [item["id"] for item in mixed.items if item["earlier"]]
    page.press("x", "y", "j", "x", "r", "n")
    page.page.keyboard.type("a word")
    page.press("Enter")
    said = {ids[0]: "drop", ids[1]: "keep", ids[3]: "drop", ids[4]: "relabel", ids[5]: "note"}
    assert {id_: note["verdict"] for id_, note in page.notes.items()} == said
    counts = Counter(said.values())
    earlier = [one for one in before if one not in said]
    not_yet = [one for one in ids if one not in said and one not in before]
    assert set(page.options("judged").values()) == {*counts.values(), len(earlier), len(not_yet)}
    for verdict in counts:
        page.choose("judged", verdict)
        assert page.listed == [one for one in ids if said.get(one) == verdict]
    for value in set(page.options("judged")) - set(counts):
        page.choose("judged", value)
        assert page.listed in (earlier, not_yet)
    page.press("c")
    page.choose("judged", "note")
    assert page.current == ids[5]
    page.press("u")  # nothing is a note any more: the filter still says what it asks for
    assert page.options("judged")["note"] == 0
    assert page.page.locator("#filter-judged").input_value() == "=note"
    page.press("c")
    assert page.listed == ids


def test_a_verdict_does_not_move_the_list(mixed: Made, person: Person) -> None:
    """Who judges what is not judged yet goes down a list that stands still until it is asked for again."""
    page = person().open(mixed.data)
    rest = next(value for value in page.options("judged") if value == "not yet")
    page.choose("judged", rest)
    before = page.listed
    page.page.locator("#item").focus()
    page.press("y", "x", "y")
    assert page.listed == before
    assert page.current == before[3]
    page.choose("judged", None)
    page.choose("judged", rest)
    assert page.listed == before[3:]


def tell() -> Made:
    """Items each of which has one text that no other has, in another field."""
    made = Made()

    def add(name: str, state: dict[str, Any], first: Item, reasoning: str = "", **more: Any) -> None:
        set_ = made.draw(made.state(name, **state), first, candidate(1, "stop()"))
        made.item(more.pop("id", name), "selection_sft", name, set_, made.label(set_, 0, reasoning=reasoning), **more)

    click = candidate(0, "click(1, 1)")
    add("s-task", {"task": "Buy Blue Running Shoes."}, click)
    add("s-id", {}, click, id="row-8F3")
    add("s-address", {"url": "https://SKI.example/lift?day=2"}, click)
    add("s-action", {}, candidate(0, 'type(3, 4, "Pancake")'))
    add("s-thought", {}, candidate(0, "click(1, 1)", thought="The kettle\nis below."))
    add("s-reasoning", {}, click, "Because zebras graze. ﬁne Ｗｉｄｅ Ärger STRASSE")
    out = {"reason": "weird_reason", "detail": "by 3 px", "status": "dropped"}
    add("s-reason", {}, click, excluded=out)
    add("s-response", {}, candidate(0, "", response="gibberish <answer>", parse_error="no action"))
    made.item("r", "bt_pairs", None, None, None, prompt=[message("user", "An asked owl")],
              replies=[["chosen", [message("assistant", "Ready-made yodel")]]])  # fmt: skip
    return made


@pytest.fixture
def told() -> Made:
    return tell()


@pytest.fixture(scope="module")
def searched(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    """One page for all searches."""
    context = Context(chromium, tmp_path_factory.mktemp("search"))
    yield context.open(tell().data)
    context.context.close()
    assert context.problems == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("shoes", ["s-task"]),
        ("BLUE shoes", ["s-task"]),
        ("shoes blue", ["s-task"]),
        ("  blue \t running  ", ["s-task"]),
        ("row-8f3", ["row-8F3"]),
        ("ski.example/lift", ["s-address"]),
        ("pancake", ["s-action"]),
        ('4, "pancake"', ["s-action"]),
        ("KETTLE below", ["s-thought"]),
        ("zebra", ["s-reasoning"]),
        ("weird", ["s-reason"]),
        ("gibberish", ["s-response"]),
        ("yodel", ["r"]),
        ("owl", ["r"]),
        ("fine", ["s-reasoning"]),  # a ligature in the text
        ("ﬁne", ["s-reasoning"]),  # and in the search
        ("wide", ["s-reasoning"]),  # wide letters
        (unicodedata.normalize("NFD", "ärger"), ["s-reasoning"]),
        ("shoes zebra", []),
        ("nothing-has-this", []),
        ("<b>", []),
        (".*", []),
    ],
)  # fmt: skip
def test_search(searched: Gallery, text: str, found: list[str]) -> None:
    searched.search(text)
    assert searched.listed == found
    searched.search("")
    assert len(searched.listed) == 9


def test_search_and_filter_go_together_and_nothing_found_is_said(told: Made, person: Person) -> None:
    page = person().open(told.data)
    page.search("example")
    everywhere = page.listed
    assert len(everywhere) == 8
    page.choose("reason", "weird_reason")
    assert page.listed == ["s-reason"]
    assert page.options("reason") == {"weird_reason": 1}
    page.search("no such words")
    assert page.listed == []
    assert page.options("reason") == {"weird_reason": 0}
    assert page.page.locator("#judge").count() == 0
    assert page.text("#item").strip() != ""
    page.page.locator("#search").blur()
    page.press("y", "x", "1", "j", "k", "n", "0", "o", "+", "m", "b", "h", "p", "i", "g")  # nothing is there to act on
    assert page.notes == {}
    page.press("c")
    assert len(page.listed) == 9
    assert page.page.locator("#search").input_value() == ""


def test_search_finds_notes_as_soon_as_they_are_written(told: Made, person: Person) -> None:
    page = person().open(told.data)
    page.press("j", "n")
    page.page.keyboard.type("Wrong Popup")
    page.press("Enter", "/")
    page.page.keyboard.type("popup")
    assert page.listed == [told.items[1]["id"]]
    page.press("Escape")
    assert page.listed == [told.items[1]["id"]]
    page.press("c")
    assert len(page.listed) == 9


def test_search_finds_what_an_earlier_review_said(told: Made, person: Person) -> None:
    said = {
        "verdict": "note",
        "selected_index": None,
        "note": "An Ostrich",
        "reviewer": "ann",
        "time": "2026-01-01T00:00:00Z",
    }
    told.data["items"][3]["earlier"] = [said]
    page = person().open(told.data)
    page.search("ostrich")
    assert page.listed == ["s-action"]
