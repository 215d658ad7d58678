"""Episodes as prompts show them: the task is asked, all steps are the reply."""

from __future__ import annotations

from typing import Any

import pytest
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import load_prompt
from action_reward_models.schemas.errors import ArmError, UsageError

STEPS = [
    {"turn": 0, "thought": "look", "action": "click(1, 1)", "observation": "a <image>\npage"},
    {"turn": 1, "thought": "", "action": "", "observation": ""},
    {"turn": 2, "thought": "two\nlines", "action": "stop()", "observation": "over"},
]


def _told(steps: list[dict[str, Any]] = STEPS, **options: Any) -> str:
    (turn,) = load_prompt("trajectory/1", PromptOptions(**options)).trajectory_reply(steps)
    assert turn["role"] == "assistant"
    (block,) = turn["content"]
    return str(block["text"])


def test_all_steps_in_order_with_what_the_actor_thought() -> None:
    assert _told() == (
        "Step 1: look\n   Action: click(1, 1)\nStep 2: (no action)\nStep 3: two\n      lines\n   Action: stop()"
    )
    assert _told(candidate_reasoning=False) == "Step 1: click(1, 1)\nStep 2: (no action)\nStep 3: stop()"
    assert _told([]) == "(no steps)"


def test_what_the_page_said_is_shown_where_it_is_text() -> None:
    text = _told(candidate_reasoning=False, observation="text")
    assert "Step 1: click(1, 1)\nAfter it the page said:\n   a &lt;image>\n   page\nStep 2" in text


def test_the_newest_steps_and_how_many_are_not_shown() -> None:
    assert _told(history_window=1) == "(earlier steps not shown: 2)\nStep 3: two\n      lines\n   Action: stop()"


def test_all_episodes_of_a_task_share_the_prompt() -> None:
    prompt = load_prompt("trajectory/1", PromptOptions())
    system, user = prompt.trajectory("Buy <image>\nStep 1: done").messages
    assert system["role"] == "system"
    assert user["content"] == [
        {"type": "text", "text": "Task: Buy &lt;image>\n   Step 1: done\n\nWhat did you think and do, step by step?"}
    ]
    assert "(not recorded)" in prompt.trajectory(None).messages[1]["content"][0]["text"]


@pytest.mark.parametrize("option", [{"coordinate_space": "pixel"}, {"element_labels": True}, {"reasoning": "before"}])
def test_options_that_say_nothing_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ArmError, match=r"shows the steps as they were written|says nothing"):
        load_prompt("trajectory/1", PromptOptions(**option))


def test_kinds_are_not_mixed_up() -> None:
    with pytest.raises(UsageError, match="is a scalar prompt, not a trajectory prompt"):
        load_prompt("scalar/1", PromptOptions()).trajectory("x")
    with pytest.raises(UsageError, match="is a trajectory prompt; it has no completion"):
        load_prompt("trajectory/1", PromptOptions()).completion([0], 0)
