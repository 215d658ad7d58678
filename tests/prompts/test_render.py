"""What a model is shown, word for word, and what cannot be shown."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import Message, load_prompt
from action_reward_models.prompts.view import Unrenderable
from action_reward_models.schemas.errors import ArmError, UsageError

Row = dict[str, Any]
_GOLDEN = Path(__file__).parent / "golden"
_COMBINATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "last_step": {"history_window": 1},
    "no_history": {"history_window": 0},
    "no_thoughts": {"candidate_reasoning": False},
    "labels": {"element_labels": True},
    "norm1000": {"coordinate_space": "norm1000"},
    "text": {"observation": "text"},
    "everything": {
        "history_window": 2, "element_labels": True, "coordinate_space": "norm1000", "reasoning": "before",
        "observation": "text", "candidate_reasoning": False,
    },
}  # fmt: skip


def _shown(messages: list[Message]) -> str:
    out = ""
    for message in messages:
        out += f"=== {message['role']}\n"
        for block in message["content"]:
            out += "[image]" if block["type"] == "image" else block["text"]
        out += "\n"
    return out


def _compare(name: str, text: str) -> None:
    file = _GOLDEN / name
    if not file.exists():
        file.write_text(text, "utf-8")
        pytest.fail(f"{name} was written: read it, then run again")
    assert text == file.read_text("utf-8")


@pytest.mark.parametrize("name", _COMBINATIONS)
def test_selection_golden(name: str, state: Row, candidates: list[Row]) -> None:
    prompt = load_prompt("selection/1", PromptOptions(**_COMBINATIONS[name]))
    rendered = prompt.selection(prompt.state(state, "function", "pixel"), candidates, [2, 0, 1, 3])
    reply = prompt.completion([2, 0, 1, 3], 1, "The search button is at the top.")
    _compare(f"selection-{name}.txt", _shown(rendered.messages + reply))


@pytest.mark.parametrize("name", _COMBINATIONS)
def test_scalar_golden(name: str, state: Row, candidates: list[Row]) -> None:
    options = {k: v for k, v in _COMBINATIONS[name].items() if k != "reasoning"}
    prompt = load_prompt("scalar/1", PromptOptions(**options))
    view = prompt.state(state, "function", "pixel")
    replies = [prompt.scalar_reply(view, candidate) for candidate in candidates]
    _compare(f"scalar-{name}.txt", _shown(prompt.scalar(view).messages + [m for reply in replies for m in reply]))


def test_golden_files_are_all_used() -> None:
    assert len(list(_GOLDEN.iterdir())) == 2 * len(_COMBINATIONS)


def test_blocks_hold_only_the_keys_they_need(state: Row, candidates: list[Row]) -> None:
    prompt = load_prompt("selection/1", PromptOptions())
    rendered = prompt.selection(prompt.state(state, "function", "pixel"), candidates, [0, 1])
    blocks = [block for message in rendered.messages for block in message["content"]]
    assert [sorted(block) for block in blocks] == [["text", "type"], ["text", "type"], ["type"], ["text", "type"]]
    assert rendered.images == (state["screenshot_sha256"],)


def test_text_pages_attach_no_image(state: Row, candidates: list[Row]) -> None:
    prompt = load_prompt("selection/1", PromptOptions(observation="text"))
    rendered = prompt.selection(prompt.state(state, "function", "pixel"), candidates, [0, 1])
    assert rendered.images == ()
    assert [len(message["content"]) for message in rendered.messages] == [1, 1]


def test_what_was_not_recorded_is_said(state: Row) -> None:
    state |= {"task": None, "url": None, "history": [], "width": None, "height": None}
    prompt = load_prompt("scalar/1", PromptOptions())
    text = _shown(prompt.scalar(prompt.state(state, "function", "pixel")).messages)
    assert "Task: (not recorded)\nPage address: (not recorded)\n\nSteps so far:\n(not recorded)\n" in text
    assert "(size not recorded)" in text
    text = _shown(prompt.scalar(prompt.state(state | {"turn": 0}, "function", None)).messages)
    assert "Steps so far:\n(none; this is the first step)\n" in text
    assert "in your own coordinates" in text


def test_openwebrl_actions_are_converted_and_back(state: Row, candidates: list[Row]) -> None:
    click = '{"name": "click", "arguments": {"point_2d": [500, 125]}}'
    state["history"] = [{"turn": 0, "thought": "", "action": f"{click}\n{click}", "observation": ""}]
    prompt = load_prompt("scalar/1", PromptOptions(coordinate_space="pixel"))
    view = prompt.state(state, "openwebrl", "norm1000")
    assert _shown(prompt.scalar(view).messages).count('{"point_2d": [640, 90]}') == 2
    candidates[0]["action_json"] = '[{"arguments":{"point":[1,999.5]},"name":"click","verb":"click"}]'
    text = _shown(prompt.scalar_reply(view, candidates[0]))
    assert text.endswith('Action: {"name": "click", "arguments": {"point_2d": [1.3, 719.6]}}\n')


@pytest.mark.parametrize(
    ("options", "missing", "reason"),
    [
        ({}, {"screenshot_sha256": None}, "no_screenshot"),
        ({"observation": "text"}, {"observation_text": None}, "no_observation_text"),
        ({"coordinate_space": "norm1000"}, {"width": None}, "no_size"),
    ],
)
def test_a_state_that_lacks_what_is_shown(options: Row, missing: Row, reason: str, state: Row) -> None:
    prompt = load_prompt("selection/1", PromptOptions(**options))
    with pytest.raises(Unrenderable) as caught:
        prompt.state(state | missing, "function", "pixel")
    assert caught.value.reason == reason


def test_spaces_are_declared(state: Row) -> None:
    prompt = load_prompt("selection/1", PromptOptions(coordinate_space="norm1000"))
    with pytest.raises(ArmError, match="not declared"):
        prompt.state(state, "function", None)
    with pytest.raises(UsageError, match="unknown coordinate space 'pixels'"):
        prompt.state(state, "function", "pixels")


@pytest.mark.parametrize("order", [[], [0, 0], [0, 4], [-1], [0, -4]])
def test_an_order_that_names_no_candidates(order: list[int], state: Row, candidates: list[Row]) -> None:
    prompt = load_prompt("selection/1", PromptOptions())
    view = prompt.state(state, "function", "pixel")
    with pytest.raises(ArmError, match="order"):
        prompt.selection(view, candidates, order)
    with pytest.raises(ArmError, match="stand at its place"):
        prompt.selection(view, candidates[1:], [0])


def test_a_dangling_element_is_told(state: Row, candidates: list[Row]) -> None:
    prompt = load_prompt("selection/1", PromptOptions(element_labels=True))
    candidates[0]["element_index"] = 7
    with pytest.raises(ArmError, match="element 7"):
        prompt.selection(prompt.state(state, "function", "pixel"), candidates, [0])


def test_a_prompt_takes_only_its_own_states(state: Row, candidates: list[Row]) -> None:
    ours, other = (
        load_prompt("selection/1", PromptOptions()),
        load_prompt("selection/1", PromptOptions(history_window=1)),
    )
    with pytest.raises(ArmError, match="was prepared for prompt"):
        ours.selection(other.state(state, "function", "pixel"), candidates, [0])
    with pytest.raises(UsageError, match="not a scalar prompt"):
        ours.scalar(ours.state(state, "function", "pixel"))


def test_completions() -> None:
    prompt = load_prompt("selection/1", PromptOptions())
    assert prompt.completion([3, 1], 1, "ignored")[0]["content"] == [{"type": "text", "text": '{"selection": 2}'}]
    with pytest.raises(ArmError, match="was not shown"):
        prompt.completion([3, 1], 0)
    before = load_prompt("selection/1", PromptOptions(reasoning="before"))
    assert before.completion([3, 1], 3, " <think> so\n")[0]["content"][0]["text"] == '&lt;think> so\n\n{"selection": 1}'
    for reasoning, reason in (
        (None, "no_reasoning"),
        ("  ", "no_reasoning"),
        ('{"selection": 2}', "reasoning_conflicts"),
    ):
        with pytest.raises(Unrenderable) as caught:
            before.completion([3, 1], 3, reasoning)
        assert caught.value.reason == reason
    with pytest.raises(UsageError, match="has no completion"):
        load_prompt("scalar/1", PromptOptions()).completion([0], 0)


def test_prompts_and_views_travel_to_workers(state: Row, candidates: list[Row]) -> None:
    prompt = load_prompt("selection/1", PromptOptions())
    view = prompt.state(state, "function", "pixel")
    prompt2, view2 = pickle.loads(pickle.dumps((prompt, view)))
    assert prompt2.selection(view2, candidates, [1, 0]) == prompt.selection(view, candidates, [1, 0])
