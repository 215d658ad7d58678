"""The smallest recorded element under the first point of an action."""

import pytest
from action_reward_models.schemas.actions import View, element_index, parse

ELEMENTS = [
    {"index": 7, "tag": "form", "text": "", "box": [0, 0, 200, 100]},
    {"index": 3, "tag": "button", "text": "OK", "box": [20.5, 20, 60, 20]},
    {"index": 9, "tag": "span", "text": "OK", "box": [20.5, 20, 60, 20]},
]


@pytest.mark.parametrize(
    ("action", "index"),
    [
        ("click(30, 30)", 3),
        ("click(20.5, 20)", 3),
        ("click(20, 20)", 7),
        ("click(80.5, 30)", 7),
        ("click(199.9, 99)", 7),
        ("click(200, 99)", None),
        ("click(-1, 5)", None),
        ('press("Tab"); hover(30, 30); click(1, 1)', 3),
        ("drag(1, 1, 30, 30)", 7),
        ('type("a")', None),
        ("scroll(30, 30)", None),
        ("zoom(via_point_2d=[30, 30])", 3),
        ("no call", None),
    ],
)
def test_pixels(action: str, index: int | None) -> None:
    assert element_index(parse("function", action).calls, View("pixel", 400, 200, ELEMENTS)) == index


def test_thousandths_need_a_size() -> None:
    calls = parse("function", "click(75, 150)").calls
    assert element_index(calls, View("norm1000", 400, 200, ELEMENTS)) == 3
    assert element_index(calls, View("norm1000", None, 200, ELEMENTS)) is None
    assert element_index(calls, View("norm1000", 400, 200)) is None
