"""render -> parse gives the same calls, in a call's own dialect and, by verb, in another."""

from pathlib import Path

import pytest
import yaml
from action_reward_models.schemas.actions import DIALECTS, Call, parse
from action_reward_models.schemas.errors import ArmError

GROUPS = yaml.safe_load(Path(__file__).with_name("parses.yaml").read_text(encoding="utf-8"))
READABLE = [(group["dialect"], case["response"]) for group in GROUPS for case in group["cases"] if "calls" in case]


def test_the_table_is_whole() -> None:
    assert len(READABLE) == 49


@pytest.mark.parametrize(("dialect", "response"), READABLE)
def test_round_trip(dialect: str, response: str) -> None:
    calls = parse(dialect, response).calls
    text = DIALECTS[dialect].render(calls)

    assert parse(dialect, text).calls == calls
    assert parse(dialect, f"<think>so</think>\n{text}<|im_end|>").calls == calls


def test_the_text_of_each_dialect() -> None:
    calls = parse("function", 'type(1, 2, "a \\"b\\""); stop("é")').calls

    assert DIALECTS["function"].render(calls) == '<action>type(1, 2, "a \\"b\\"")\nstop("é")</action>'
    assert DIALECTS["openwebrl"].render(calls) == (
        '<tool_call>\n{"name": "write", "arguments": {"point_2d": [1, 2], "text": "a \\"b\\""}}\n</tool_call>\n'
        '<tool_call>\n{"name": "done", "arguments": {"message": "é"}}\n</tool_call>'
    )


@pytest.mark.parametrize(
    "response",
    ["click(1, 2)", "drag(1, 2, 3, 4)", 'press("Tab")', "wait(2)", 'goto("u")', "back()", 'stop("a")', 'type("a")'],
)
def test_across_dialects(response: str) -> None:
    calls = parse("function", response).calls
    there = parse("openwebrl", DIALECTS["openwebrl"].render(calls)).calls

    assert [(call.verb, call.arguments) for call in there] == [(call.verb, call.arguments) for call in calls]
    assert parse("function", DIALECTS["function"].render(there)).calls == calls
    assert parse("react", DIALECTS["react"].render(there)).calls == calls


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        ("function", Call("scroll", "scroll", {"direction": "down"})),
        ("function", Call("press_keys", "press", {"keys": ["Control", "a"]})),
        ("function", Call("new_tab", "new_tab", {})),
        ("function", Call("f", "other", {"a": {"b": 1}})),
        ("openwebrl", Call("scroll", "scroll", {"dx": 0, "dy": 5})),
        ("openwebrl", Call("click", "other", {})),
        ("react", Call("text", "other", {"text": "search[a"})),
        ("react", Call("text", "other", {"text": "look\nThought: no"})),
        ("react", Call("find", "other", {"argument": "a] b["})),
        ("react", Call("new_tab", "new_tab", {})),
        ("text", Call("click", "click", {"point": (1, 2)})),
    ],
    ids=repr,
)
def test_what_a_dialect_cannot_say_is_an_error(dialect: str, call: Call) -> None:
    with pytest.raises(ArmError, match="has no words for"):
        DIALECTS[dialect].render([call])
