"""Three hundred items with screenshots of 100 kB open in under three seconds, and one follows another at once."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.tests.cards.gallery.made import Made, candidate, message
from PIL import Image

if TYPE_CHECKING:
    from action_reward_models.tests.cards.gallery.browser import Context

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ITEMS, OPEN, NEXT = 300, 3000, 100  # ms
# When the first screenshot was painted, in ms from the start of the navigation.
PAINTED = """new MutationObserver(async (_, observer) => {
  const image = document.querySelector("#window img[src]");
  if (image === null) return;
  observer.disconnect();
  await image.decode();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
}).observe(document, { subtree: true, childList: true, attributes: true });"""
# How long each of so many key presses takes until the next item and its screenshot are painted, in ms.
MOVES = """async ([key, count]) => {
  const found = [];
  for (let n = 0; n < count; n += 1) {
    const start = performance.now();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    let image = null;
    while ((image = document.querySelector("#window img[src]")) === null) await null;
    await image.decode();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    found.push(performance.now() - start);
  }
  return found;
}"""


def noise(seed: int) -> bytes:
    """A PNG of 1280 x 720 and 100 kB that has no equal: a plain page with noise on a part of it."""
    image = Image.new("RGB", (1280, 720), (240, 240, (seed * 7) % 256))
    image.paste(Image.frombytes("RGB", (182, 182), random.Random(seed).randbytes(3 * 182 * 182)), (300, 200))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def large() -> Made:
    made = Made()
    text = "You are given a task and a page, and choose the best of the actions that were proposed. " * 40
    for number in range(ITEMS):
        past = [
            {"turn": n, "thought": text[:400], "action": "click(1, 1)", "observation": text[:900]} for n in range(8)
        ]
        elements = [{"index": n, "tag": "a", "text": f"link {n}", "box": [n * 20, n * 12, 80, 20]} for n in range(60)]
        state = made.state(f"s{number}", made.picture(noise(number)), history=past, elements=elements)
        several = (
            candidate(n, f"click({n * 200}, {n * 100})", (n * 200, n * 100), thought=text[:600]) for n in range(5)
        )
        set_ = made.draw(state, *several)
        made.item(
            f"row {number}", "selection_sft", state, set_, made.label(set_, number % 5, reasoning=text[:1500]),
            prompt=[message("system", text), message("user", text * 2, 1)],
            images=[made.data["states"][state]["screenshot"]],
            split="validation" if number % 9 == 0 else "train",
        )  # fmt: skip
    sizes = [picture["bytes"] for picture in made.data["pictures"].values()]
    assert len(sizes) == ITEMS
    assert 95_000 < min(sizes) <= max(sizes) < 110_000
    return made


def test_it_opens_and_moves_fast(
    large: Made, person: Callable[..., Context], record_property: Callable[[str, Any], None]
) -> None:
    opened, moves, searches = [], [], []
    for _ in range(3):  # the best one: this machine may have other things to do
        context = person(script=PAINTED)
        page = context.open(large.data, large.pictures)
        page.page.wait_for_function("() => window.painted")
        opened.append(page.page.evaluate("window.painted"))
        assert len(page.listed) == ITEMS
        moves.append(sorted(page.page.evaluate(MOVES, ["j", 20]) + page.page.evaluate(MOVES, ["y", 20])))
        assert page.current == "row 40"
        searches.append(
            page.page.evaluate("""() => {
          const box = document.querySelector("#search"), start = performance.now();
          box.value = "task s17";
          box.dispatchEvent(new Event("input"));
          return performance.now() - start;
        }""")
        )
        context.context.close()
    best = min(moves, key=lambda one: one[-3])
    told = {"open_ms": min(opened), "next_ms_median": best[20], "next_ms_p95": best[-3], "search_ms": min(searches)}
    record_property("speed", told)
    print(json.dumps(told))
    assert told["open_ms"] < OPEN
    assert told["next_ms_median"] < NEXT
    assert told["search_ms"] < 1000
