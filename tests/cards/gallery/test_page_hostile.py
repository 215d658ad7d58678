"""Whatever records hold stays text: nothing of it becomes an element, runs, or is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.tests.cards.gallery.made import Made, candidate, message

if TYPE_CHECKING:
    from action_reward_models.tests.builders.conftest import Toy
    from action_reward_models.tests.cards.gallery.browser import Context, Gallery
    from action_reward_models.tests.cards.gallery.conftest import Page

Person = Callable[..., "Context"]
pytestmark = pytest.mark.browser

TEXTS = {
    "script": "<script>document.title='owned'</script>",
    "end": "</script><script>document.title='owned'</script>",
    "escaped end": "<\\/script><!--<script>",
    "comment": "<!-- --!> <!--> ]]> <![CDATA[ <?php ?>",
    "image": "<img src=x onerror=\"document.title='owned'\">",
    "svg": "<svg onload=\"document.title='owned'\"><style>@import url(//evil.example)</style>",
    "frame": "<iframe srcdoc='<script>parent.document.title=1</script>'></iframe><base href=//evil.example>",
    "link": "<a href='javascript:document.title=1'>x</a>",
    "address": "javascript:document.title='owned'",
    "attribute": "\" onmouseover=\"document.title='owned'\" x='",
    "quotes": "' onfocus=document.title=1 autofocus '",
    "form": "<form action=//evil.example><input autofocus onfocus=document.title=1></form>",
    "entities": "&lt;script&gt; &amp;amp; &#60;b&#62;",
    "templates": "{{constructor.constructor('document.title=1')()}} ${document.title=1} <%= 1 %> [[policy]] [[title]]",
    "page": "/* style */ <!-- data --> [[generator]]",
    "proto": "__proto__",
    "constructor": "constructor",
    "bidi": "safe \u202eevil\u202c \u2066x\u2069 \u200bzero\u200d\ufeff",
    "controls": "nul \x00 bell \x07 escape \x1b[31m delete \x7f c1 \x85 carriage \r return",
    "separators": "line \u2028 and \u2029 end",
    "tags": "seen" + "".join(chr(0xE0000 + ord(c)) for c in "unseen"),
    "long word": "W" * 5000,
    "wide": "中文 עברית العربية \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301\u0301\u0301 ﷽",
    "zalgo": "Z" + "\u0300" * 300,
    "literals": "<image><|im_end|><|vision_start|>\n<tool_call>{}</tool_call>",
    "empty": "",
    "spaces": "   \n\t ",
    "large": "0123456789 <b>" * 7500,  # more than 100 kB
}
TEXTS["all"] = " ".join(text for name, text in TEXTS.items() if name not in ("large", "long word"))
QUICK = ("all", "end", "proto", "empty")
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# Elements that the page has none of, or a number of that records do not change.
COUNTED = "script, img, a, iframe, object, embed, form, style, link, base, meta, svg, video, b, input, textarea"


def some(names: Iterable[str]) -> list[Any]:
    """Names of texts as parameters; the slow tier has each text alone."""
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


def seen(text: str) -> str:
    """How the page shows a text: what could not be seen, or would reorder it, by its number."""
    return UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def hostile(text: str) -> Made:
    """An item of each kind with the text in every field that is free; ids cannot be empty."""
    made = Made()
    named = text or "-"
    elements = [{"index": 0, "tag": text, "text": text, "box": [0, 0, 1, 1]}]
    past = [{"turn": 0, "thought": text, "action": text, "observation": text}]
    picture = made.picture(_pixel())
    said = {"verdict": "note", "selected_index": None, "note": text, "reviewer": named, "time": "2026-01-01T00:00:00Z"}
    facts = [[text, text], ["margin", text]]
    facets = {"host": text, "pair_type": text, "verbs": [text, named + " "], "table": text, "status": text}
    out = {"reason": named, "detail": text, "status": "quarantined"}
    for number, table in enumerate((named, "bt_pairs")):
        name = f"{named}{'|' * number}"
        state = made.state(name, picture if number else None, task=text, url=text, host=text, episode_id=named,
                           episode_outcome=named, history=past, observation_text=text, elements=elements)  # fmt: skip
        set_ = f"{name}#"
        one = candidate(0, text, (0.5, 0.5), thought=text, response=text, verbs=[text], finish_reason=text)
        made.data["sets"][set_] = {
            "draw": 0, "actor": text, "temperature": 1.0,
            "candidates": [one, {**one, "index": 1, "parse_error": text, "action": "", "same_as": 0}],
        }  # fmt: skip
        label = f"{name}|"
        told = {"order": [1, 0], "repeat": 0, "prompt_id": named, "teacher": text, "reasoning": text, "reply": text}
        made.data["labels"][label] = {"status": "ok", "selected_index": 0, "tie_indices": [1], **told}
        replies = [[title, [message(text, text)]] for title in ("chosen", "rejected")]
        made.item(f"{name}.", table, state, set_, label, facets=facets, facts=facts, earlier=[said], replies=replies,
                  excluded=out if number else None, prompt=[message("user", text, 1)], prompt_id=text,
                  prompt_sha256=text, rendered_sha256=text, images=[picture] if number else [], rejected_index=1,
                  split=text)  # fmt: skip
    made.item(f"{named}...", "bt_pairs", None, None, None, prompt=[message(text, text)], replies=replies, facts=facts)
    made.data |= {"title": text, "subtitle": text, "dataset": text, "version": text}
    made.data["strata"] = [{"table": text, "split": text, "kind": text, "shown": 1, "of": 2}]
    made.data["left_out"] = {text: 1}
    return made


def _pixel() -> Any:
    from PIL import Image

    return Image.new("RGB", (8, 8))


def counted(page: Gallery) -> dict[str, int]:
    found: dict[str, int] = page.page.evaluate(
        "(names) => Object.fromEntries(names.map((name) => [name, document.querySelectorAll(name).length]))",
        COUNTED.split(", "),
    )
    return found


def walk(page: Gallery) -> list[dict[str, int]]:
    """Open everything that can be opened on every item; returns the counts of elements on each."""
    found = []
    for number in range(3):
        for details in page.page.locator("details").all():
            details.evaluate("(node) => { node.open = true; }")
        page.page.locator("#item").hover()
        found.append(counted(page))
        if number < 2:
            page.press("j")
    page.press("k", "k")
    return found


@pytest.fixture(scope="module")
def harmless(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, int]]:
    """Counts of a page of plain texts."""
    from action_reward_models.tests.cards.gallery.browser import Context

    context = Context(chromium, tmp_path_factory.mktemp("harmless"))
    found = walk(context.open(*_page("plain")))
    context.context.close()
    return found


def _page(text: str) -> tuple[Any, dict[str, bytes]]:
    made = hostile(text)
    return made.data, made.pictures


@pytest.mark.parametrize("name", some(TEXTS))
def test_texts_stay_texts(person: Person, harmless: list[dict[str, int]], name: str) -> None:
    text = TEXTS[name]
    data, pictures = _page(text)
    page = person().open(data, pictures)
    page.sign(f"{text[:60]}x")
    shown = seen(text)
    assert page.text("#title") == shown
    if name not in ("controls", "page", "all"):  # a browser's own rules for titles
        collapsed = re.sub("[ \t\n\f\r]+", " ", text)
        assert page.page.title() == f"{collapsed} – review".strip()
    assert shown in page.text("#help")
    for number in range(2):
        wanted = {
            "#task": bool(text), ".url": bool(text), "#rationale": True, "#section-prompt .message": True,
            "#section-row dl": True, ".banner.earlier": True, "#section-history": True, "#section-prompt h5": True,
        }  # fmt: skip
        for selector, there in wanted.items():
            if there:
                texts = page.page.locator(selector).all_text_contents()
                assert any(shown in one for one in texts), selector
        cards = page.page.locator(".candidate").all_text_contents()
        assert [shown in one for one in cards] == [True, True]
        if number:
            assert shown in page.text(".banner.out")
            assert page.page.locator(".marker").count() == 2
        else:
            assert shown in page.text("#viewer") or not text
        page.press("j")
    assert any(shown in one for one in page.page.locator("#item pre").all_text_contents())
    page.press("k", "k")
    if text.strip():
        listed = page.page.locator("#list .task").all_text_contents()
        assert listed[:2] == [shown, shown]
    assert walk(page) == harmless
    # Filters, search, notes and keys still work on it.
    ids = [item["id"] for item in data["items"]]
    page.choose("host", text)
    assert page.listed == ids[:2]
    page.press("c")
    if text.split() and name != "large":
        page.search(text)
        assert page.listed == ids
        page.press("Escape", "c")
    page.page.locator("#note").fill(text)
    page.page.locator("#judge [data-verdict=drop]").click()
    page.press("y", "x", "k", "k", "k")
    assert set(page.notes) == set(ids)
    kept = page.notes[ids[0]]["note"]
    assert kept == re.sub(r"[\r\n]", " ", text)  # one line
    exported = page.export()
    assert {json.loads(line)["item_id"] for line in exported.splitlines()} == set(ids)
    assert page.page.title() != "owned"
    page.reload()
    assert set(page.notes) == set(ids)
    assert page.current == ids[0]
    assert walk(page) == harmless
    assert page.page.evaluate("[document.title === 'owned', document.documentElement.scrollWidth]") == [False, 1280]
    assert page.page.evaluate("Object.prototype.verdict ?? Object.prototype.task ?? null") is None


@pytest.mark.parametrize("name", some(["end", "bidi", "controls", "large", "proto", "long word"]))
def test_a_file_of_notes_stays_text(person: Person, harmless: list[dict[str, int]], name: str) -> None:
    data, pictures = _page("plain")
    page = person().open(data, pictures)
    page.sign("ann")
    text = TEXTS[name]
    time = "2026-01-01T00:00:00Z"
    notes = [
        {"item_id": one, "verdict": "relabel", "note": text, "reviewer": text, "time": time}
        for one in (data["items"][0]["id"], "__proto__", "constructor", UNSEEN.sub("", text)[:4096])
    ]
    word = page.load("\n".join(map(json.dumps, [*notes, {"item_id": text, "verdict": text}])).encode())
    assert re.search(r"\b5\b", word)
    assert page.notes[data["items"][0]["id"]]["note"] == text
    assert set(page.notes) >= {"__proto__", "constructor"}
    assert walk(page) == harmless
    again = [json.loads(line) for line in page.export().splitlines()]
    assert {one["item_id"] for one in again} == {one["item_id"] for one in notes}
    assert {(one["note"], one["reviewer"]) for one in again} == {(text, text)}


@pytest.mark.parametrize("name", some(["end", "attribute", "templates", "separators", "long word"]))
def test_records_of_a_build_stay_text(
    toy: Toy, shown: Callable[..., Page], person: Person, harmless: list[dict[str, int]], name: str
) -> None:
    """From a source's record to the page."""
    text = TEXTS[name]
    quoted = json.dumps(text)
    toy.episode(
        f"{text[:40]}",
        toy.message("user", f"Task: {text}", 1),
        toy.message("assistant", toy.response("click(1, 1)", text)),
        toy.message("user", text, 2),
        toy.message("assistant", toy.response("stop()")),
        metadata={"elements": [[{"tag": text, "text": text, "box": [0, 0, 4, 4]}]] * 2, "intent": text, "url": text},
    )
    set_id = toy.draw(f"{text[:40]}__t1", f"stop({quoted})", toy.response(f"type(1, 2, {quoted})", text), text)
    toy.label(set_id, 1, reasoning=text)
    constants = {"candidate_sets": {"actor": text}, "teacher_labels": {"teacher": text[:3000]}}
    build = toy.build(sources=[replace(one, constants=constants.get(one.kind, {})) for one in toy.sources()])
    data, pictures = shown(build)
    page = person().open(data, pictures)
    for item in data["items"]:
        page.show(item["id"])
        page.press("b")
        if item["set_id"] is not None:
            everything = page.text("#item")
            assert everything.count(seen(text)) >= 4
        now = counted(page)
        assert {key: now[key] for key in ("a", "iframe", "svg", "b", "style", "form")} == {
            key: harmless[0][key] for key in ("a", "iframe", "svg", "b", "style", "form")
        }
        assert now["script"] == 2 + len(pictures)
        assert now["img"] <= 1
    assert page.page.title() != "owned"
