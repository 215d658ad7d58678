"""The text of an error and the order of its issues."""

from __future__ import annotations

import pytest
from action_reward_models.schemas.errors import ArmError, Issue, UsageError


def test_an_error_says_what_where_and_what_next() -> None:
    issues = [Issue("b.yaml", 0, "$", "is empty"), Issue("a.yaml", 12, "$.x[0]", "is 5, not a string")]
    error = ArmError("two problems", where="a.yaml:3 $.x", next_command="arm validate a.yaml", issues=iter(issues))
    assert str(error) == (
        "a.yaml:3 $.x: two problems\n"
        "  a.yaml:12 $.x[0] is 5, not a string\n"
        "  b.yaml $ is empty\n"
        "  next: arm validate a.yaml"
    )
    assert error.args == ("two problems",)
    assert error.issues == (issues[1], issues[0])


def test_the_parts_are_optional() -> None:
    assert str(ArmError("it broke")) == "it broke"
    assert str(ArmError("it broke", where="https://hub.example")) == "https://hub.example: it broke"
    assert str(ArmError("it broke", next_command="arm plan")) == "it broke\n  next: arm plan"
    error = ArmError("it broke")
    assert (error.where, error.next_command, error.issues) == (None, None, ())


def test_a_usage_error_is_an_arm_error() -> None:
    with pytest.raises(ArmError, match=r"\Ano such table\Z"):
        raise UsageError("no such table")


def test_issues_sort_by_file_then_line_then_path_then_message() -> None:
    ordered = [
        Issue("a", 0, "$.z", "z"),
        Issue("a", 2, "$", "b"),
        Issue("a", 2, "$.a", "a"),
        Issue("a", 2, "$.a", "b"),
        Issue("a", 10, "$", "a"),
        Issue("b", 1, "$", "a"),
    ]
    assert sorted([ordered[i] for i in (3, 0, 5, 1, 4, 2)]) == ordered
    assert len({*ordered, *ordered}) == len(ordered)


def test_digits_sort_as_numbers_however_many_there_are() -> None:
    """A path holds keys of whoever wrote the file, and Python reads no number of 5,000 digits."""
    ordered = [Issue("a", 0, f"$.x[{n}]", "m") for n in ("2", "10", "9" * 5000, "1" + "0" * 5000)]
    assert sorted([ordered[i] for i in (2, 3, 1, 0)]) == ordered


def test_line_zero_is_the_whole_file() -> None:
    assert str(Issue("f.jsonl", 0, "$", "is empty")) == "f.jsonl $ is empty"
    assert str(Issue("f.jsonl", 1, "$", "is empty")) == "f.jsonl:1 $ is empty"


def test_as_json_also_with_a_name_that_is_no_text() -> None:
    issue = Issue("a\udcff.jsonl", 3, "$.x", "is \ud800")
    error = ArmError("has 1 problem", where="a\udcff.jsonl", next_command="mv 'a\udcff.jsonl' b", issues=[issue])
    assert error.to_json() == {
        "error": "has 1 problem",
        "where": "a\\udcff.jsonl",
        "next": "mv 'a\\udcff.jsonl' b",
        "issues": [{"file": "a\\udcff.jsonl", "line": 3, "path": "$.x", "message": "is \\ud800"}],
    }
    assert ArmError("x").to_json() == {"error": "x", "where": None, "next": None, "issues": []}
