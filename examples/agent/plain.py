"""An agent in plain Python: at every step a policy proposes five actions, and a reward model picks the one to do.

    pip install "action-reward-models[inference]" playwright
    python plain.py your-name/tiny-scalar@v1.0.0 [--steps 10] [--seed 0] [--browser /usr/bin/chromium]

It drives a real browser on shop.html, beside this file. The policy here clicks whatever button it happens to like;
put your own in the place of `propose`. Nothing that a policy writes is ever run: it is parsed, and what is known is
carried out.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

from action_reward_models.inference import How, open_model
from action_reward_models.schemas.actions import parse

PAGE = Path(__file__).with_name("shop.html")
TASK = "Buy milk, and nothing else."
CANDIDATES = 5


def propose(page: Any, chance: random.Random) -> str:
    """One response of the policy, in the words of the checkpoint's data (dialect `function`, points in pixels)."""
    button = chance.choice(page.locator("button").all())
    box = button.bounding_box()
    x, y = (
        round(box[start] + box[size] * chance.uniform(0.1, 0.9)) for start, size in (("x", "width"), ("y", "height"))
    )
    return f"<think>{button.inner_text()}</think>\n<action>click({x}, {y})</action>"


def act(page: Any, response: str) -> None:
    """Carry out the calls of a response; whatever else it says is never run."""
    for call in parse("function", response).calls:
        given = call.arguments
        if "point" in given:
            page.mouse.click(*given["point"])
        if call.verb == "type":
            page.keyboard.type(given["text"])


def episode(page: Any, model: Any, steps: int, chance: random.Random) -> float:
    """Act until the page gives a reward. Returns it, or 0 when the steps are used up."""
    page.goto(PAGE.as_uri())
    history: list[dict[str, str]] = []
    for step in range(steps):
        state = {"task": TASK, "url": page.url, "history": history, "screenshot": page.screenshot()}
        candidates = [propose(page, chance) for _ in range(CANDIDATES)]
        choice = model.choose(state, candidates, How(otherwise="none"))
        if choice.selected_index is None:  # say so and look again: the first candidate would be no answer
            print(f"{step}: no pick, {choice.status} {choice.detail}".rstrip())
            continue
        response = candidates[choice.selected_index]
        act(page, response)
        parsed = parse("function", response)
        said = page.locator("#said").inner_text()
        print(f"{step}: candidate {choice.selected_index}, {parsed.action}; {parsed.thought}; page: {said}")
        history.append({"action": parsed.action, "thought": parsed.thought, "observation": said})
        if reward := page.evaluate("document.body.dataset.reward"):
            return float(reward)
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="owner/name@revision, or a folder; of either kind")
    parser.add_argument("--base", type=Path, help="folder of its base model, where the Hub has none")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--browser", help="a Chromium; without one, Playwright's own")
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    name, _, revision = given.model.partition("@")
    model = open_model(name, revision=revision or None, base=given.base)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=given.browser)
        page = browser.new_page(viewport={"width": 320, "height": 420})
        chance = random.Random(given.seed)  # noqa: S311 - a policy, no secret
        print("reward", episode(page, model, given.steps, chance))
        browser.close()


if __name__ == "__main__":
    main()
