"""Conversion covers every point, keeps fractions and negatives, and touches nothing else."""

import pytest
from action_reward_models.schemas.actions import Call, calls_from_json, convert, identity, parse
from action_reward_models.schemas.errors import ArmError

SIZES = [(1280, 720), (1366, 768), (320, 420), (1, 1), (1333, 777)]
POINTS = [(0, 0), (206, 162), (-3, 1500), (0.1, -0.25), (1365, 767), (33.333, 66.667)]


def click(point: tuple[float, float]) -> Call:
    return Call("click", "click", {"point": point})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("source", "target"), [("pixel", "norm1000"), ("norm1000", "pixel")])
def test_there_and_back(source: str, target: str, point: tuple[float, float], size: tuple[int, int]) -> None:
    there = convert([click(point)], source, target, *size)
    assert convert(there, target, source, *size) == (click(point),)
    assert identity(convert(there, target, source, *size)) == identity([click(point)])


@pytest.mark.parametrize(
    ("point", "there"),
    [((640, 360), (500, 500)), ((1, 1), (0.78125, 1000 / 720)), ((-64, 7.2), (-50, 10)), ((2560, 0), (2000, 0))],
)
def test_known_points(point: tuple[float, float], there: tuple[float, float]) -> None:
    (moved,) = convert([click(point)], "pixel", "norm1000", 1280, 720)
    assert moved.arguments["point"] == pytest.approx(there, abs=1e-12)
    assert [type(value) for value in moved.arguments["point"]] == [
        int if value == int(value) else float for value in there
    ]


def test_every_call_with_a_point_and_nothing_else() -> None:
    calls = (
        Call("write", "type", {"point": (128, 72), "text": "click(128, 72)"}),
        Call("drag", "drag", {"start_point": (128, 72), "end_point": (256, 144)}),
        Call("scroll", "scroll", {"direction": "down", "amount": 128, "point": (128, 72)}),
        Call("scroll", "scroll", {"dx": 128, "dy": 72}),
        Call("goto_url", "goto", {"url": "https://a.example/?point=128,72"}),
        Call("swipe", "other", {"via_point_2d": (128, 72), "size": [128, 72], "path": [{"point_2d": [128, 72]}]}),
    )
    moved = convert(calls, "pixel", "norm1000", 1280, 720)
    assert [call.arguments for call in moved] == [
        {"point": (100, 100), "text": "click(128, 72)"},
        {"start_point": (100, 100), "end_point": (200, 200)},
        {"direction": "down", "amount": 128, "point": (100, 100)},
        {"dx": 128, "dy": 72},
        {"url": "https://a.example/?point=128,72"},
        {"via_point_2d": (100, 100), "size": [128, 72], "path": [{"point_2d": [100, 100]}]},
    ]
    assert calls_from_json(identity(moved)[0]) == moved


@pytest.mark.parametrize("number", ["9" * 400, "-9007199254740992", "1e16"])
@pytest.mark.parametrize(
    "value", ['{"point_2d": [%s, 1]}', '[[{"to_point_2d": [1, %s]}]]', '{"b": {"point_2d": [1, %s]}}']
)
def test_a_point_below_an_argument_is_on_a_screen_or_the_call_is_unreadable(value: str, number: str) -> None:
    call = '{"name": "f", "arguments": {"a": %s}}'
    parsed = parse("openwebrl", f"<tool_call>{call % (value % number)}</tool_call>")
    assert parsed.parse_error == "call 1: f: a holds a point that is out of range"
    stored = f'[{{"name": "f", "verb": "other", "arguments": {{"a": {value % number}}}}}]'
    with pytest.raises(ArmError, match="holds a point that is out of range"):
        calls_from_json(stored)
    (read,) = parse("openwebrl", f"<tool_call>{call % (value % '2.50')}</tool_call>").calls
    assert convert([read], "pixel", "norm1000", 10, 10) != (read,)


def test_other_numbers_below_an_argument_may_be_long() -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {{"a": {{"size": [{"9" * 400}, 1]}}}}}}</tool_call>'
    parsed = parse("openwebrl", text)
    assert calls_from_json(parsed.json) == parsed.calls == convert(parsed.calls, "pixel", "norm1000", 10, 10)


def test_one_space_is_no_conversion_and_needs_no_size() -> None:
    calls = parse("function", "click(1.5, 2)").calls
    assert convert(calls, "pixel", "pixel", None, None) == calls


@pytest.mark.parametrize("size", [(None, 720), (1280, None), (0, 720), (1280, -1)])
def test_a_missing_size_is_an_error(size: tuple[int | None, int | None]) -> None:
    with pytest.raises(ArmError, match="needs the screenshot's width and height"):
        convert([click((1, 2))], "pixel", "norm1000", *size)


def test_an_unknown_space_is_an_error() -> None:
    with pytest.raises(ArmError, match="unknown coordinate space 'percent'"):
        convert([], "percent", "pixel", 1, 1)
