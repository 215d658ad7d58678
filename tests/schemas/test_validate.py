"""What the examples cannot hold: values JSON has no text for, and the words of a message."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.schemas.errors import Issue
from action_reward_models.schemas.validate import compile_schema, describe, for_schema, json_path, nearest

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(schema: str, name: str) -> Any:
    return json.loads((EXAMPLES / schema / "good" / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("schema", "name", "path", "allowed"),
    [
        ("candidate_set", "all_recorded", ["candidates", 1, "logprob"], "a number or null"),
        ("candidate_set", "all_recorded", ["sampling", "temperature"], "a number or null"),
        ("state", "screenshot", ["elements", 0, "box", 2], "a number"),
        ("state", "screenshot", ["episode_outcome"], "a number or null"),
        ("bt_pair", "scores", ["margin"], "a number or null"),
        ("pointwise_score", "candidate", ["score"], "a number"),
        ("actor_sft", "argmax", ["quality"], "a number or null"),
        ("eval_prediction", "scores", ["scores", 0], "a number or null"),
        ("eval_report", "whole", ["baselines", 0, "value"], "a number"),
        ("eval_report", "whole", ["interval_low"], "a number or null"),
    ],
)
def test_nan_and_infinities_stop_here_before_anything_is_digested(
    schema: str, name: str, path: list[str | int], allowed: str
) -> None:
    for value, shown in ((float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")):
        record = node = example(schema, name)
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value
        assert not for_schema(f"{schema}/1").is_valid(record)
        assert for_schema(f"{schema}/1").problems(record) == [(json_path(path), f"is {shown}, not {allowed}")]


def test_half_a_surrogate_pair_is_a_problem_and_no_crash() -> None:
    record = example("state", "screenshot")
    record["state_id"] = "a\ud83d"
    record["history"][1]["thought"] = "\udc00"
    record["turn"] = -1  # not looked at: the validator gives up at the id
    validator = for_schema("state/1")
    assert not validator.is_valid(record)
    assert validator.problems(record) == [
        ("$.history[1].thought", "holds half of a surrogate pair, which is not text"),
        ("$.state_id", "holds half of a surrogate pair, which is not text"),
    ]
    named = example("state", "screenshot") | {"\ud83d": 1}
    assert not validator.is_valid(named)
    where, said = "$['\\ud83d']", "has a name that holds half of a surrogate pair, which is not text"
    assert validator.problems(named) == [(where, said)]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def from_a_stack(frames: int, call: Callable[[], Any]) -> Any:
    return from_a_stack(frames - 1, call) if frames else call()


@pytest.mark.parametrize("frames", [0, 800])
def test_a_deeply_nested_value_is_a_problem_and_no_crash(frames: int) -> None:
    validator, label = for_schema("first_release_label/1"), example("first_release_label", "picked")

    def problems(depth: int) -> list[tuple[str, str]]:
        return from_a_stack(frames, lambda: validator.problems(label | {"selection": nested(depth)}))  # type: ignore[no-any-return]

    assert problems(250) == [("$.selection", f"is {'[' * 79}…, not an integer or null")]
    for depth in (256, 260, 900, 5_000):
        assert problems(depth) == [("$", "is nested too deeply")]
        assert not validator.is_valid(label | {"selection": nested(depth)})
    broken = validator.problems({"state_id": "\ud800", "selection": nested(5_000)})
    assert broken in (
        [("$", "is nested too deeply")],
        [("$.state_id", "holds half of a surrogate pair, which is not text")],
    )


def test_other_errors_of_the_validator_are_not_hidden() -> None:
    with pytest.raises(ValueError, match="Unsupported type"):
        for_schema("first_release_label/1").problems({"state_id": object()})


def test_whole_surrogate_pairs_and_all_other_text_are_fine() -> None:
    record = example("state", "screenshot")
    record["task"] = "\U0001f600\x00\u2028\ufeff\uffff\U0010ffff"
    assert for_schema("state/1").problems(record) == []


def test_two_spellings_of_an_integer_and_a_number_are_valid() -> None:
    record = example("candidate_set", "all_recorded")
    record["n"], record["draw"], record["sampling"]["temperature"] = 3.0, -0.0, 1
    assert for_schema("candidate_set/1").problems(record) == []


def test_one_problem_hides_none_of_the_others() -> None:
    record = example("candidate_set", "all_recorded")
    record["candidates"] = [copy.deepcopy(record["candidates"][0]) for _ in range(200)]
    for candidate in record["candidates"]:
        candidate["index"], candidate["extra"] = "0", 1
        del candidate["action"]
    assert len(for_schema("candidate_set/1").problems(record)) == 600


def test_a_hostile_field_name_costs_no_time() -> None:
    record = example("state", "screenshot") | {"x" * 2_000_000: 0, "screenshot" * 100_000: 0}
    start = time.process_time()
    problems = for_schema("state/1").problems(record)
    assert time.process_time() - start < 2
    assert [len(path) for path, _ in problems] == [85, 85]  # $['…'] around 80 characters


def test_issues_name_file_and_line_and_are_sorted() -> None:
    label = example("first_release_label", "picked")
    rows = [("b.jsonl", 1, {}), ("a.jsonl", 10, label | {"selection": "1"}), ("a.jsonl", 9, label), ("a.jsonl", 2, 5)]
    assert for_schema("first_release_label/1").issues(rows) == [
        Issue("a.jsonl", 2, "$", "is 5, not an object"),
        Issue("a.jsonl", 10, "$.selection", 'is "1", not an integer or null'),
        Issue("b.jsonl", 1, "$", "lacks the field 'selection'"),
        Issue("b.jsonl", 1, "$", "lacks the field 'state_id'"),
    ]


@pytest.mark.parametrize(
    ("keyword", "schema", "value", "message"),
    [
        ("const", {"const": 1}, 2, "is 2, must be 1"),
        ("const", {"const": "a"}, None, 'is null, must be "a"'),
        ("enum", {"enum": ["a", None]}, True, "is true, not one of a, null"),
        ("exclusiveMinimum", {"exclusiveMinimum": 0}, 0, "is 0, below the least allowed 0"),
        ("exclusiveMaximum", {"exclusiveMaximum": 1}, 1, "is 1, above the largest allowed 1"),
        ("minLength", {"minLength": 3}, "ab", "is shorter than 3 characters"),
        ("maxLength", {"maxLength": 3}, "\x9b31m\u202e", 'is longer than 3 characters: "\\u009b31m\\u202e"'),
        ("minItems", {"minItems": 2}, [], "is an empty list"),
        ("minItems", {"minItems": 3}, [1], "has 1 item, fewer than 3"),
        ("maxItems", {"maxItems": 1}, [1, 2], "has 2 items, more than 1"),
        ("pattern", {"pattern": "^a$"}, "b" * 500, f'is "{"b" * 78}…, does not match ^a$'),
        ("uniqueItems", {"uniqueItems": True}, [1, 1], "is [1, 1], which uniqueItems does not allow"),
        (
            "type",
            {"type": ["object", "array", "number", "null"]},
            "",
            'is "", not an object or a list or a number or null',
        ),
        ("type", {"type": "string"}, list(range(21)), "is a list of 21, not a string"),
        ("type", {"type": "string"}, {str(i): i for i in range(21)}, "is an object of 21, not a string"),
        ("type", {"type": "string"}, 2.5e300, "is 2.5e+300, not a string"),
    ],
)
def test_wording(keyword: str, schema: dict[str, Any], value: Any, message: str) -> None:
    assert describe(keyword, schema, value, ["x"]) == [("$.x", message)]


def test_json_path() -> None:
    assert json_path([]) == "$"
    assert json_path(["candidates", 3, "index"]) == "$.candidates[3].index"
    assert json_path(["a b", "c.d", "", "it's", "é", "1"]) == "$['a b']['c.d']['']" + '["it\'s"].é' + "['1']"
    assert json_path(["a\x1b[31m\u2028"]) == "$['a\\x1b[31m\\u2028']"


def test_nearest() -> None:
    assert nearest("temprature", ["top_p", "temperature"]) == "temperature"
    assert nearest("colour", ["top_p", "temperature"]) is None
    assert nearest("x" * 81, ["x" * 80]) is None
    assert nearest("", ["a"]) is None
    assert nearest("a", []) is None


def test_a_single_allowed_type_is_enough_said() -> None:
    schema = {"type": ["string", "null"], "if": {}, "then": {"type": "string"}, "enum": ["a", "b"]}
    assert compile_schema(schema).problems(5) == [("$", "is 5, not one of a, b")]
    del schema["enum"]
    assert compile_schema(schema).problems(5) == [("$", "is 5, not a string")]
