"""The actor's own prompt as chat messages, from recorded messages and from a rendered template."""

from __future__ import annotations

import json
from typing import Any

import pytest
from action_reward_models.builders.actor_messages import actor_prompt, completion
from action_reward_models.prompts.view import Unrenderable

OLD, NEW = "a" * 64, "b" * 64
PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"


def _state(**known: Any) -> dict[str, Any]:
    return {"messages_json": None, "prompt_text": None, "tools_json": None, "screenshot_sha256": NEW} | known


def _said(messages: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return [(m["role"], [block.get("text", "IMAGE") for block in m["content"]]) for m in messages]


def _picture(sha256: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"sha256:{sha256}"}}


def test_only_the_newest_picture_is_shown_and_all_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "click", "arguments": {"point_2d": [1, 2]}}}
    messages = [
        {"role": "system", "content": "Browse."},
        {"role": "user", "content": [{"type": "text", "text": "Task: x"}, _picture(OLD)]},
        {"role": "assistant", "content": "<think>so</think>", "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "Done."}, _picture(NEW)], "tool_call_id": "1"},
    ]
    found, images = actor_prompt(_state(messages_json=json.dumps(messages)))
    written = '<think>so</think>\n<tool_call>\n{"arguments":{"point_2d":[1,2]},"name":"click"}\n</tool_call>'
    assert _said(found) == [
        ("system", ["Browse."]),
        ("user", ["Task: x"]),
        ("assistant", [written]),
        ("user", ["Done.", "IMAGE"]),
    ]
    assert images == [NEW]


def test_tools_stand_in_the_system_turn() -> None:
    tools = json.dumps([{"name": "click"}, {"name": "stop"}])
    messages = json.dumps([{"role": "user", "content": "Task"}])
    found, images = actor_prompt(_state(messages_json=messages, tools_json=tools, screenshot_sha256=None))
    block = '# Tools\n\n<tools>\n{"name":"click"}\n{"name":"stop"}\n</tools>'
    assert _said(found) == [("system", [block]), ("user", ["Task"])]
    assert images == []
    messages = json.dumps([{"role": "system", "content": "Browse."}, {"role": "user", "content": "Task"}])
    found, _ = actor_prompt(_state(messages_json=messages, tools_json=tools, screenshot_sha256=None))
    assert _said(found)[0] == ("system", [f"Browse.\n{block}"])


def test_a_rendered_prompt_is_cut_at_its_turns() -> None:
    prompt = (
        "<|im_start|>system\nBrowse.<|im_end|>\n"
        f"<|im_start|>user\nTask: x\n{PICTURE}\n<|im_end|>\n"
        "<|im_start|>assistant\n<think>\na\n</think>\n<tool_call>\n{}\n</tool_call><|im_end|>\n"
        f"<|im_start|>user\n<tool_response>\nNow:\n{PICTURE}\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )
    found, images = actor_prompt(_state(prompt_text=prompt))
    assert [role for role, _ in _said(found)] == ["system", "user", "assistant", "user"]
    assert sum(block["type"] == "image" for m in found for block in m["content"]) == len(images) == 1
    assert _said(found)[3][1] == ["<tool_response>\nNow:\n", "IMAGE", "\n</tool_response>"]
    assert "<tool_call>" in _said(found)[2][1][0]


def test_a_finished_last_turn_stays() -> None:
    prompt = "<|im_start|>user\nTask<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>"
    found, _ = actor_prompt(_state(prompt_text=prompt, screenshot_sha256=None))
    assert _said(found) == [("user", ["Task"]), ("assistant", ["Hello"])]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <image> b", "a &lt;image> b"),
        ("<|im_start|>system", "&lt;|im_start|>system"),
        ("</s>", "&lt;/s>"),
        ("<think>x</think> <tool_call>", "<think>x</think> <tool_call>"),
        ("1 < 2 [x]", "1 < 2 [x]"),
    ],
)
def test_literals_of_pages_make_no_turns_and_no_pictures(text: str, shown: str) -> None:
    messages = json.dumps([{"role": "user", "content": text}])
    found, _ = actor_prompt(_state(messages_json=messages, screenshot_sha256=None))
    assert _said(found) == [("user", [shown])]


@pytest.mark.parametrize(
    "state",
    [
        _state(),
        _state(messages_json="[]", screenshot_sha256=None),
        _state(messages_json=json.dumps([{"role": "user", "content": "no place"}])),
        _state(prompt_text="no turns at all", screenshot_sha256=None),
    ],
)
def test_what_cannot_be_asked_is_named(state: dict[str, Any]) -> None:
    with pytest.raises(Unrenderable) as caught:
        actor_prompt(state)
    assert caught.value.reason == "no_messages"


def test_the_end_of_a_turn_is_the_templates_business() -> None:
    (message,) = completion("why</think>\n<tool_call>{}</tool_call><|im_end|>\n")
    assert message == {
        "role": "assistant",
        "content": [{"type": "text", "text": "why</think>\n<tool_call>{}</tool_call>"}],
    }
