"""Responses and what they are split into; what holds for every split."""

import hashlib
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_reward_models.schemas.actions import DIALECTS, VERBS, Parsed, calls_from_json, convert, identity, parse
from action_reward_models.schemas.errors import UsageError

GROUPS = yaml.safe_load(Path(__file__).with_name("parses.yaml").read_text(encoding="utf-8"))
CASES = [(group["dialect"], case) for group in GROUPS for case in group["cases"]]


def plain(parsed: Parsed) -> list[list[Any]]:
    return [[call.verb, json.loads(json.dumps(call.arguments))] for call in parsed.calls]


def test_the_table_is_whole() -> None:
    assert len(CASES) == 107
    assert sum("error" in case for _, case in CASES) == 58
    assert {verb for _, case in CASES for verb, _ in case.get("calls", [])} == set(VERBS)


@pytest.mark.parametrize(("dialect", "case"), CASES)
def test_case(dialect: str, case: dict[str, Any]) -> None:
    parsed = parse(dialect, case["response"])

    assert plain(parsed) == case.get("calls", []), parsed.parse_error
    assert case["error"] in str(parsed.parse_error) if "error" in case else parsed.parse_error is None, parsed
    assert parsed.thought == case.get("thought", parsed.thought)
    assert parsed.action == case.get("action", parsed.action)
    assert all(line in case["response"] for line in parsed.action.split("\n"))


@pytest.mark.parametrize(("dialect", "case"), CASES)
def test_json_and_key_restore_the_calls(dialect: str, case: dict[str, Any]) -> None:
    parsed = parse(dialect, case["response"])

    assert calls_from_json(parsed.json) == parsed.calls
    assert len(parsed.key) == 32
    if parsed.parse_error is None:
        assert identity(parsed.calls) == (parsed.json, parsed.key)
        assert hashlib.sha256(parsed.json.encode()).hexdigest().startswith(parsed.key)
    else:
        assert parsed.json == "[]"
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert parse(dialect, case["response"] + "\n<|im_end|>\n") == parsed


def test_an_unreadable_response_never_equals_a_readable_one() -> None:
    read = parse("function", "click(1, 2)")

    assert parse("function", read.json).parse_error == "no action"
    assert parse("function", read.json).key != read.key


def test_hostile_nesting_and_length_are_outcomes() -> None:
    deep = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 100_000
    assert parse("openwebrl", deep).parse_error is not None
    assert parse("function", "f(" + "[" * 100_000).parse_error is not None
    assert "too long" in str(parse("function", f"f({'9' * 5000})").parse_error)
    long = f'<tool_call>{{"name": "f", "arguments": {{"a": {"9" * 5000}}}}}</tool_call>'
    assert "too long" in str(parse("openwebrl", long).parse_error)
    assert parse("function", "</think>" * 5_000).parse_error == "no action"
    assert parse("function", "half a pair: \ud83d").parse_error == "no action"


def from_a_stack(frames: int, call: Callable[[], Any]) -> Any:
    return from_a_stack(frames - 1, call) if frames else call()


def nestings(depth: int) -> dict[str, tuple[str, str]]:
    """One argument nested ``depth`` deep, in every way a dialect takes one."""
    lists, objects = "[" * depth + "]" * depth, '{"b":' * depth + "1" + "}" * depth
    call = '<tool_call>{"name": "f", "arguments": %s}</tool_call>'
    return {
        "lists": ("openwebrl", call % f'{{"a": {lists}}}'),
        "objects": ("openwebrl", call % f'{{"a": {objects}}}'),
        "second call": ("openwebrl", call % "{}" + call % f'{{"a": {lists}}}'),
        "as a text": ("openwebrl", call % json.dumps(f'{{"a": {objects}}}')),
        "function": ("function", f"f(a={lists})"),
    }


@pytest.mark.parametrize("frames", [0, 400, 750])
@pytest.mark.parametrize("depth", [21, 64, 65, 66, 67, 260, 600, 900, 5_000, 100_000])
def test_nesting_is_limited_whatever_the_stack_of_the_caller(depth: int, frames: int) -> None:
    for way, (dialect, response) in nestings(depth).items():
        DIALECTS[dialect]._known.clear()
        parsed = from_a_stack(frames, lambda d=dialect, r=response: parse(d, r))  # type: ignore[misc]
        if depth > 64:
            assert "nested too deeply" in parsed.parse_error, way
            continue
        assert parsed.parse_error is None, way
        assert from_a_stack(frames, lambda p=parsed: calls_from_json(p.json)) == parsed.calls, way  # type: ignore[misc]
        assert convert(parsed.calls, "pixel", "norm1000", 10, 10) == parsed.calls, way


def test_many_calls_take_linear_time() -> None:
    begin = time.process_time()
    assert len(parse("openwebrl", '<tool_call>{"name":"f"}' * 40_000).calls) == 40_000
    assert time.process_time() - begin < 5  # about 0.3 s; quadratic would be half a minute


def test_a_deep_id_of_a_call_is_as_deep_as_a_deep_argument() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}, "id": %s}</tool_call>'
    assert parse("openwebrl", call % '"a:b"').parse_error is None
    assert "nested too deeply" in str(parse("openwebrl", call % ("[" * 100 + "]" * 100)).parse_error)


@pytest.mark.parametrize("text", ["a" * 3_000, "é" * 3_000, '"\\' * 1_500])
def test_long_text_survives(text: str) -> None:
    parsed = parse("function", f"type({json.dumps(text)})")
    assert parsed.calls[0].arguments == {"text": text}
    parsed = parse("openwebrl", f'<tool_call>{{"name": "write", "arguments": {{"text": {json.dumps(text)}}}}}')
    assert parsed.calls[0].arguments == {"text": text}


def test_remembered_results_are_the_same_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("action_reward_models.schemas.actions.dialect._KEPT", 3)
    first = [parse("function", f"click({n}, 1)") for n in range(10)]
    assert [parse("function", f"click({n}, 1)") for n in range(10)] == first
    assert len(DIALECTS["function"]._known) <= 3


def test_an_unknown_dialect_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="function, openwebrl"):
        parse("pyautogui", "click(1, 2)")
