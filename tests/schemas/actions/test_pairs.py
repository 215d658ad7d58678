"""The table of action pairs: relation, symmetry, and identity as equality of keys."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from action_reward_models.schemas.actions import DIALECTS, RELATIONS, View, parse, relation

GROUPS = yaml.safe_load(Path(__file__).with_name("pairs.yaml").read_text(encoding="utf-8"))
ROWS = [(group["dialect"], group["view"], *row) for group in GROUPS for row in group["pairs"]]


def response(dialect: str, text: str) -> str:
    whole = dialect == "openwebrl" and text.startswith("{")
    return f"I see.\n</think>\n\n<tool_call>\n{text}\n</tool_call>" if whole else text


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 248
    assert {row[0] for row in ROWS} == set(DIALECTS)
    assert {row[5] for row in ROWS} == set(RELATIONS)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}: {row[2]}" for row in ROWS])
def test_pair(row: tuple[str, dict[str, Any], str, str, str, str]) -> None:
    dialect, view, why, a, b, expected = row
    left, right = parse(dialect, response(dialect, a)), parse(dialect, response(dialect, b))
    seen = View(**view)

    assert relation(left, right, seen) == expected, (why, left, right)
    assert relation(right, left, seen) == expected, why
    assert (left.key == right.key) == (expected == "identical"), why
    assert relation(left, left, seen) == relation(right, right, seen) == "identical", why
    if "unparsed" not in expected and left.parse_error is None:
        assert (left.json == right.json) == (expected == "identical"), why
