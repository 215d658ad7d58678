"""Canonical JSON: one spelling whichever writer wrote it, and calls back from it."""

import json

import pytest
from action_reward_models.schemas.actions import Call, calls_from_json, identity, parse
from action_reward_models.schemas.errors import ArmError

VALUES = [0, -1, 2**53, 2**64, -(2**63) - 1, 0.1, 1e-7, -2.5e-300, 123456.789, "e-mail", "é", "😀", "\u2028", "\x7f"]
VALUES += ["\x00\x1f\b\t\n\f\r", '"\\/', "", True, None, [1, [2.5]], {"b": 1, "a": {"d": None, "c": []}}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_both_writers_agree(value: object) -> None:
    call = Call("f", "other", {"value": value, "e-": 1, "a": (1, 2.5)})
    plain = [{"name": "f", "verb": "other", "arguments": {"value": value, "e-": 1, "a": [1, 2.5]}}]

    text, _ = identity([call])
    assert text == json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert identity([Call("f", "other", {"value": value, "a": (1, 2.5)})])[0] == text.replace('"e-":1,', "")


def test_known_keys_do_not_move() -> None:
    # A published action_key: a change here is a new schema version.
    parsed = parse("function", 'type(206.0, -1.5, "Zed")')
    assert parsed.json == '[{"arguments":{"point":[206,-1.5],"text":"Zed"},"name":"type","verb":"type"}]'
    assert parsed.key == "560d693ee963a6167c25424a3f419f30"


def test_points_come_back_as_points_and_lists_as_lists() -> None:
    text = (
        '<tool_call>{"name": "f", "arguments": {"via_point_2d": [1, 2], "size": [3, 4], "point": [5, 6]}}</tool_call>'
    )
    (call,) = calls_from_json(parse("openwebrl", text).json)
    assert call.arguments == {"via_point_2d": (1, 2), "size": [3, 4], "point": (5, 6)}


@pytest.mark.parametrize("text", ["", "{}x", "[1]", '[{"name": "a"}]', '{"a": 1}', "null", "[" * 100_000])
def test_what_is_no_list_of_calls_is_refused(text: str) -> None:
    with pytest.raises(ArmError, match="not the canonical JSON"):
        calls_from_json(text)
