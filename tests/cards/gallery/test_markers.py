"""Points of candidates in pixels of the screenshot, from any space and any call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.cards.gallery.markers import parsed, points, verbs
from action_reward_models.schemas.actions import parse

if TYPE_CHECKING:
    from tests.builders.conftest import Toy
    from tests.cards.gallery.conftest import Page


def found(dialect: str, response: str, space: str, size: tuple[int | None, int | None]) -> list[tuple[Any, ...]]:
    read = parse(dialect, response)
    assert read.parse_error is None
    return [(p["name"], p["x"], p["y"]) for p in points(read.calls, space, *size)]


CLICK = '<tool_call>{"name": "click", "arguments": {"point_2d": [250, 500]}}</tool_call>'


def test_thousandths_become_pixels_of_the_real_size() -> None:
    assert found("openwebrl", CLICK, "norm1000", (1280, 720)) == [("point", 320.0, 360.0)]
    assert found("openwebrl", CLICK, "norm1000", (333, 77)) == [("point", 83.25, 38.5)]
    assert found("openwebrl", CLICK, "pixel", (1280, 720)) == [("point", 250.0, 500.0)]


def test_no_size_no_place() -> None:
    assert found("openwebrl", CLICK, "norm1000", (None, None)) == []
    assert found("openwebrl", CLICK, "pixel", (None, None)) == [("point", 250.0, 500.0)]
    assert points(parse("openwebrl", CLICK).calls, "polar", 10, 10) == []


def test_every_call_and_both_ends_of_a_drag() -> None:
    two = "pyautogui.moveTo(5, 6)\npyautogui.dragTo(70.5, 80)\npyautogui.click(-3, 4)"
    read = parse("desktop", f"```python\n{two}\n```")
    assert read.parse_error is None
    assert {(p["x"], p["y"]) for p in points(read.calls, "pixel", 100, 100)} >= {(70.5, 80.0), (-3.0, 4.0)}
    drag = [one for one in read.calls if one.verb == "drag"]
    assert verbs(read.calls) == list(dict.fromkeys(call.verb for call in read.calls))
    for call in drag:
        assert {p["name"] for p in points([call], "pixel", 100, 100)} == {"start_point", "end_point"}
    assert drag


def test_points_that_lie_deeper() -> None:
    stroke = '[{"at_point_2d": [100, 200]}, {"at_point_2d": [1, 2]}]'
    tool = f'<tool_call>{{"name": "paint", "arguments": {{"stroke": {stroke}}}}}</tool_call>'
    assert found("openwebrl", tool, "norm1000", (500, 500)) == [("at_point_2d", 50.0, 100.0), ("at_point_2d", 0.5, 1.0)]


@pytest.mark.parametrize("text", ["[]", "[1]", "{", '[{"name": 1}]', "[" * 5000])
def test_damaged_calls_are_none(text: str) -> None:
    candidate = {"thought": "", "action": "", "action_key": "k", "parse_error": None, "action_json": text}
    assert parsed(candidate).calls == ()


def test_a_build_in_thousandths(toy: Toy, shown: Callable[..., Page]) -> None:
    toy.dialect, toy.space = "openwebrl", "norm1000"
    toy.scene("a", CLICK, '<tool_call>{"name": "done", "arguments": {"message": "x"}}</tool_call>',
              picture=toy.png(3, 40))  # fmt: skip
    data, _ = shown(toy.build())
    first, second = data["sets"]["a__t0#d0"]["candidates"]
    assert first["points"] == [{"name": "point", "x": 10.0, "y": 20.0}]
    assert (second["points"], second["verbs"]) == ([], ["stop"])
