"""The first pair type that applies, in their order, whichever side comes first."""

import pytest
from action_reward_models.schemas.actions import PAIR_TYPES, pair_type, parse

TABLE = [
    ('stop("a")', "click(1, 2)", "termination_vs_continue"),
    ('click(1, 2); stop("a")', 'type("a")', "termination_vs_continue"),
    ('stop("a")', "no call", "termination_vs_continue"),
    ('stop("a")', 'stop("b")', "other"),
    ('click(1, 2); stop("a")', 'stop("b")', "multi_action"),
    ("click(1, 2); click(3, 4)", 'type("a")', "multi_action"),
    ("click(1, 2); click(3, 4)", "no call", "multi_action"),
    ('type("a")', "click(1, 2)", "typing_or_keys"),
    ('press("Tab")', 'goto("u")', "typing_or_keys"),
    ('goto("u")', "scroll(0, 1)", "navigation"),
    ("back()", "click(1, 2)", "navigation"),
    ("scroll(0, 1)", "wait(1)", "scroll"),
    ("scroll(0, 1)", "no call", "scroll"),
    ("wait(1)", "click(1, 2)", "wait"),
    ("click(1, 2)", "click(3, 4)", "click"),
    ("hover(1, 2)", "drag(1, 2, 3, 4)", "click"),
    ("double_click(1, 2)", "click(1, 2)", "click"),
    ("click(1, 2)", "zoom(2)", "other"),
    ("click(1, 2)", "no call", "other"),
    ("no call", "none here", "other"),
]


def test_the_table_is_whole() -> None:
    assert len(TABLE) == 20
    assert {row[2] for row in TABLE} == set(PAIR_TYPES)


@pytest.mark.parametrize(("a", "b", "expected"), TABLE)
def test_pair_type(a: str, b: str, expected: str) -> None:
    left, right = parse("function", a), parse("function", b)
    assert pair_type(left, right) == expected
    assert pair_type(right, left) == expected


def test_tabs_are_navigation() -> None:
    new, switch = (parse("openwebrl", f'<tool_call>{{"name": "{n}"}}</tool_call>') for n in ("new_tab", "switch_tab"))
    assert pair_type(new, switch) == "navigation"
