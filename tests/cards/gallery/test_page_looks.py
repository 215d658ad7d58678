"""It can be read and reached: contrast in light and dark, names of controls, focus, screens from phone to desktop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.tests.cards.gallery.made import Made, candidate, message
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable

    from action_reward_models.tests.cards.gallery.browser import Context, Gallery

pytestmark = pytest.mark.browser

# [contrast, text] of every text that is shown, by WCAG 2: against the first opaque colour below it.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const mixed = (over, under, share) => over.slice(0, 3).map((c, n) => c * share + under[n] * (1 - share));
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return [colour, at];
    }
    throw new Error("nothing behind");
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const shown = node.checkVisibility({ opacityProperty: true }) && !node.closest("script, :disabled");
    if (!shown || !texts.currentNode.data.trim()) continue;
    let [under, ground] = behind(node);
    let colour = rgba(getComputedStyle(node).color);
    // What is faint lets through what lies below its ground.
    for (let at = node; at; at = at.parentElement) {
      const share = Number(getComputedStyle(at).opacity);
      if (share === 1) continue;
      const [below] = behind(at.parentElement);
      if (at === ground || at.contains(ground)) under = mixed(under, below, share);
      colour = mixed(colour, below, share);
    }
    const [a, b] = [light(colour), light(under)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), texts.currentNode.data.trim().slice(0, 60)]);
  }
  return found;
}"""


@pytest.fixture
def page() -> Made:
    """A selection, a pair in quarantine with candidates beside it, a failed label, an earlier review."""
    made = Made()
    picture = made.picture(Image.new("RGB", (1280, 720), "white"))
    actions = [f"click({n * 100}, 300)" for n in range(9)]
    shown = [candidate(n, a, (n * 100, 300), thought="Because it is so. " * 9) for n, a in enumerate(actions)]
    history = [
        {"turn": n, "thought": "So far.", "action": f"click({n}, 1)", "observation": "A page."} for n in range(6)
    ]
    elements = [{"index": 0, "tag": "button", "text": "Go", "box": [90, 290, 40, 30]}]
    made.state("a", picture, history=history, elements=elements, url="https://shop.example/" + "a" * 300)
    set_id, prompt = made.draw("a", *shown), [message("user", "word " * 200, 1)]
    label = made.label(set_id, 1, tie_indices=[2])
    hashes = {"prompt_id": "selection/1", "prompt_sha256": "a" * 64, "rendered_sha256": "b" * 64}
    made.item("a sft", "selection_sft", "a", set_id, label, prompt=prompt, images=[picture], **hashes,
              replies=[["completion", [message("assistant", "2")]]])  # fmt: skip
    earlier = {
        "verdict": "relabel",
        "selected_index": 3,
        "note": "No.",
        "reviewer": "ann",
        "time": "2026-01-01T00:00:00Z",
    }
    excluded = {"reason": "scroll_amount", "detail": "600 and 700", "status": "quarantined"}
    made.item("a pair", "bt_pairs", "a", set_id, label, chosen_index=1, rejected_index=0, excluded=excluded,
              earlier=[earlier], facets={"pair_type": "scroll"})  # fmt: skip
    made.scene("b", candidate(0, "garbage", parse_error="no call"), candidate(1, "stop()"), pick=None)
    made.data["strata"] = [{"table": "bt_pairs", "split": "train", "kind": "scroll", "shown": 1, "of": 2000}]
    return made


def unreadable(gallery: Gallery) -> list[tuple[float, str]]:
    contrasts: list[tuple[float, str]] = gallery.page.evaluate(CONTRASTS)
    assert len(contrasts) > 60
    return [(round(ratio, 2), text) for ratio, text in contrasts if ratio < 4.5]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(person: Callable[..., Context], page: Made, scheme: str) -> None:
    gallery = person(color_scheme=scheme).open(page.data, page.pictures)
    gallery.painted()
    gallery.press("p", "i", "x", "3")  # sections open; one item dropped, the next given another pick
    gallery.sign("ann")
    seen = []
    for _ in page.items:
        gallery.page.locator("#toast").evaluate("(node) => { node.style.transition = 'none'; }")  # whole or not there
        seen.append(unreadable(gallery))
        gallery.press("k")
    gallery.press("?")
    assert [*seen, unreadable(gallery)] == [[]] * (len(page.items) + 1)


def test_light_and_dark_can_be_chosen(person: Callable[..., Context], page: Made) -> None:
    gallery = person(color_scheme="dark").open(page.data, page.pictures)
    back = "getComputedStyle(document.body).backgroundColor"
    grounds = [gallery.page.evaluate(back)]
    for _ in range(3):
        gallery.press("t")
        grounds.append(gallery.page.evaluate(back))
    system, light, dark, again = grounds
    assert system == dark == again != light


def test_every_control_has_a_name_and_shows_focus(person: Callable[..., Context], page: Made) -> None:
    gallery = person().open(page.data, page.pictures)
    controls = gallery.page.locator("button:visible, input:visible, select:visible")
    snapshot = gallery.page.locator("body").aria_snapshot()
    assert controls.count() > 25
    for role in ("button", "textbox", "searchbox", "combobox"):
        assert f'- {role} "' in snapshot
        assert f"- {role}\n" not in snapshot
        assert f"- {role}:" not in snapshot
    gallery.page.locator("#search").focus()
    seen = set()
    for _ in range(25):
        gallery.press("Tab")
        style = gallery.page.evaluate(
            "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])(getComputedStyle(document.activeElement))"
        )
        seen.add(tuple(style))
    assert seen == {("solid", "2px")}


@pytest.mark.parametrize("size", [(1920, 1080), (1280, 720), (1024, 768), (390, 844)])
def test_it_fits_the_screen(person: Callable[..., Context], page: Made, size: tuple[int, int]) -> None:
    viewport = dict(zip(("width", "height"), size, strict=True))
    gallery = person(viewport=viewport).open(page.data, page.pictures)
    gallery.painted()
    for _ in page.items:
        wide: list[Any] = gallery.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]
        bar = gallery.page.locator("#judge").bounding_box()
        assert bar is not None
        assert bar["x"] >= 0
        assert bar["x"] + bar["width"] <= size[0]
        assert bar["y"] + bar["height"] <= size[1] + 1
        if gallery.page.locator("#window").count():
            window = gallery.page.locator("#window").bounding_box()
            assert window is not None
            assert window["height"] >= 120
        gallery.press("j")
