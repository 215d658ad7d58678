"""A BrowserGym agent: at every step a policy proposes five actions, and a reward model picks the one to do.

    pip install "action-reward-models[inference]" browsergym-experiments browsergym-miniwob miniwob
    playwright install chromium
    python in_browsergym.py your-name/tiny-scalar@v1.0.0 [--task miniwob.click-button] [--seed 0] [--steps 10]

`PickingAgent` goes into BrowserGym's experiments like any other agent. The policy here clicks whatever
it happens to like among what can be clicked; give it yours. The checkpoint's actions are calls such as click(120, 80),
in pixels of the screenshot (dialect `function`); `in_browsergym` says them in BrowserGym's words.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from action_reward_models.inference import How, open_model
from action_reward_models.schemas.actions import Call, parse
from browsergym.core.action.highlevel import HighLevelActionSet
from browsergym.experiments.agent import Agent, AgentInfo

CANDIDATES = 5
NOTHING = "noop()"


class PickingAgent(Agent):
    """policy: one response for an observation, another one each time it is asked."""

    action_set = HighLevelActionSet(subsets=["chat", "nav", "coord", "bid"], multiaction=True)

    def __init__(self, model: Any, policy: Callable[[dict[str, Any]], str]) -> None:
        self.model, self.policy = model, policy
        self.history: list[dict[str, str]] = []

    def obs_preprocessor(self, obs: dict[str, Any]) -> dict[str, Any]:
        """The observation without what the agent does not read."""
        return {name: value for name, value in obs.items() if name not in ("dom_object", "axtree_object")}

    def get_action(self, obs: dict[str, Any]) -> tuple[str, AgentInfo]:
        if self.history:
            self.history[-1]["observation"] = obs["last_action_error"]
        state = {"task": obs["goal"], "url": obs["url"], "history": self.history, "screenshot": obs["screenshot"]}
        candidates = [self.policy(obs) for _ in range(CANDIDATES)]
        choice = self.model.choose(state, candidates, How(otherwise="none"))
        told = AgentInfo(extra_info={"candidates": candidates, "choice": choice.to_json()})
        if choice.selected_index is None:  # the first candidate would be no answer
            return NOTHING, told
        picked = parse("function", candidates[choice.selected_index])
        told.think = picked.thought
        self.history.append({"action": picked.action, "thought": picked.thought})
        return in_browsergym(picked.calls), told


def in_browsergym(calls: tuple[Call, ...]) -> str:
    """Calls in the words of BrowserGym's action set; what it has no word for does nothing."""
    lines = []
    for call in calls:
        given = call.arguments
        point = ", ".join(map(str, given.get("point", ())))
        if call.verb == "type":
            lines += [f"mouse_click({point})"] if point else []
            lines.append(f"keyboard_type({given['text']!r})")
        else:
            lines.append({
                "click": f"mouse_click({point})",
                "double_click": f"mouse_dblclick({point})",
                "hover": f"mouse_move({point})",
                "press": f"keyboard_press({'+'.join(given.get('keys', ()))!r})",
                "scroll": f"scroll({given.get('dx', 0)}, {given.get('dy', 0)})",
                "goto": f"goto({given.get('url')!r})",
                "back": "go_back()",
                "stop": f"send_msg_to_user({given.get('answer', '')!r})",
            }.get(call.verb, NOTHING))  # fmt: skip
    return "\n".join(lines) or NOTHING


def clicks(chance: random.Random) -> Callable[[dict[str, Any]], str]:
    """A policy that clicks what can be clicked, as BrowserGym tells it: boxes are x, y, width, height in pixels."""

    def policy(obs: dict[str, Any]) -> str:
        boxes = [one["bbox"] for one in obs["extra_element_properties"].values() if one["clickable"] and one["bbox"]]
        left, top, width, height = chance.choice(
            boxes or [(0, 0, obs["screenshot"].shape[1], obs["screenshot"].shape[0])]
        )
        x, y = round(left + width * chance.uniform(0.1, 0.9)), round(top + height * chance.uniform(0.1, 0.9))
        return f"<action>click({x}, {y})</action>"

    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="owner/name@revision, or a folder; of either kind")
    parser.add_argument("--base", type=Path, help="folder of its base model, where the Hub has none")
    parser.add_argument("--task", default="miniwob.click-button")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    import gymnasium
    import miniwob

    os.environ.setdefault("MINIWOB_URL", (Path(miniwob.__file__).parent / "html" / "miniwob").as_uri() + "/")
    import browsergym.miniwob  # registers its tasks

    assert browsergym.miniwob
    name, _, revision = given.model.partition("@")
    model = open_model(name, revision=revision or None, base=given.base)
    agent = PickingAgent(model, clicks(random.Random(given.seed)))  # noqa: S311 - a policy, no secret
    env = gymnasium.make(f"browsergym/{given.task}", headless=True, action_mapping=agent.action_set.to_python_code)
    obs, _ = env.reset(seed=given.seed)
    print(obs["goal"])
    reward = 0.0
    for step in range(given.steps):
        action, told = agent.get_action(agent.obs_preprocessor(obs))
        obs, reward, ended, cut, _ = env.step(action)
        choice = told.extra_info["choice"]
        print(f"{step}: candidate {choice['selected_index']} ({choice['status']}), {action!r}, reward {reward}")
        if ended or cut:
            break
    env.close()
    print("reward", reward)


if __name__ == "__main__":
    main()
