"""The example agents: the plain one in a real browser, and the one of BrowserGym with its words in our own mouth."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from action_reward_models.inference.choice import Choice
from action_reward_models.schemas.actions import parse
from action_reward_models.tests.inference import process
from action_reward_models.tests.tiny_vlm import cached

FOLDER = Path(__file__).parents[2] / "examples" / "agent"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
RESPONSES = ["<think>First.</think><action>click(1, 2)</action>", '<action>stop("it\'s done")</action>']


class Model:
    """Picks what it is told to, and keeps what it is asked."""

    def __init__(self, *picks: int | None) -> None:
        self.picks, self.asked = list(picks), list[Any]()

    def choose(self, state: Any, candidates: Any, how: Any) -> Choice:
        self.asked.append((state, candidates, how))
        picked = self.picks.pop(0)
        return Choice("x", "ok" if picked is not None else "tie", picked, None if picked is None else "model")


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example, on names of BrowserGym that do nothing: it pins another Playwright than the tests have."""
    names: dict[str, dict[str, Any]] = {
        "browsergym.core.action.highlevel": {"HighLevelActionSet": lambda **_: None},
        "browsergym.experiments.agent": {"Agent": object, "AgentInfo": SimpleNamespace},
    }
    for name, held in names.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
        vars(sys.modules[name]).update(held)
    module = "action_reward_models.examples.agent.in_browsergym"
    yield import_module(module)
    del sys.modules[module]


def observed(error: str = "") -> dict[str, Any]:
    return {"goal": "Buy milk", "url": "http://shop.test/", "screenshot": "a picture", "last_action_error": error}


def test_an_agent_of_browsergym_does_what_is_picked_and_remembers_it(agents: Any) -> None:
    model, responses = Model(0, None, 1), iter(RESPONSES * 10)
    agent = agents.PickingAgent(model, lambda _: next(responses))
    action, told = agent.get_action(observed())
    assert (action, told.think) == ("mouse_click(1, 2)", "First.")
    assert agent.get_action(observed("it moved"))[0] == "noop()"
    responses = iter(RESPONSES * 10)
    assert agent.get_action(observed())[0] == 'send_msg_to_user("it\'s done")'
    states = [state for state, _, _ in model.asked]
    assert states[0]["task"] == "Buy milk"
    assert [step["action"] for step in agent.history] == ["click(1, 2)", 'stop("it\'s done")']
    assert len(model.asked[0][1]) == agents.CANDIDATES
    assert {how.otherwise for _, _, how in model.asked} == {"none"}


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("click(3, 4)", "mouse_click(3, 4)"),
        ("double_click(3, 4)", "mouse_dblclick(3, 4)"),
        ('type(3, 4, "it\'s")', 'mouse_click(3, 4)\nkeyboard_type("it\'s")'),
        ('type("a")', "keyboard_type('a')"),
        ('press("Control+a")', "keyboard_press('Control+a')"),
        ("scroll(0, 300)", "scroll(0, 300)"),
        ('goto("http://a.test/")', "goto('http://a.test/')"),
        ("back()", "go_back()"),
        ("import os", "noop()"),
    ],
)
def test_actions_in_the_words_of_browsergym(agents: Any, action: str, said: str) -> None:
    assert agents.in_browsergym(parse("function", f"<action>{action}</action>").calls) == said


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("kind", ["scalar", "selection_arm"])
def test_the_plain_agent_runs_in_a_browser(tmp_path: Path, kind: str) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the PATH")
    base = process.base()
    env = {name: value for name, value in cached.environment().items() if name != "USE_TORCH"}
    process.run("made", tmp_path / "model", base, kind)
    command = [sys.executable, str(FOLDER / "plain.py"), str(tmp_path / "model"), "--base", str(base), "--steps", "3"]
    done = subprocess.run([*command, "--browser", browser], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0].startswith("0: ")
    assert lines[-1].startswith("reward ")
    if kind == "scalar":
        assert lines[0].startswith("0: candidate ")
