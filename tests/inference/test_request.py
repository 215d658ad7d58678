"""Requests: every way to write one, and what is wrong with one in words that help."""

from __future__ import annotations

import copy
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from action_reward_models.inference.choice import STATUSES
from action_reward_models.inference.rendering import Renderer, Shown
from action_reward_models.inference.request import Spoken, read, spoken_of
from action_reward_models.prompts.view import Unrenderable
from action_reward_models.schemas.actions import DIALECTS, parse
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.tests.inference.asked import asked, contract, png, prompt, state, url
from PIL import Image

PIXEL = [Spoken("function", "pixel")]


def test_a_request_becomes_rows_that_prompts_read() -> None:
    request = read(asked(state=state(url="http://a.test/", history=[{"action": "click(1, 2)"}])), PIXEL)
    assert request.n == 4
    assert [one["action"] for one in request.set_row["candidates"]] == [
        "click(3, 4)", "click(30, 40)", 'type(1, 2, "a")', "click(3, 4)",
    ]  # fmt: skip
    assert [one["thought"] for one in request.set_row["candidates"]] == ["it is red", "", "write first", ""]
    assert [one["parse_error"] for one in request.set_row["candidates"]] == [None] * 4
    assert request.set_row["distinct_actions"] == 3
    assert (request.state["turn"], request.state["history"][0]["turn"]) == (1, 0)
    assert (request.state["width"], request.state["height"]) == (6, 4)
    rendered = Renderer(prompt()).selection(request.state, request.set_row, [1, 0, 2])
    assert request.images(rendered.images) == [png()]
    shown = "".join(block.get("text", "") for block in rendered.messages[-1]["content"])
    assert "Click the red button" in shown
    assert "6 x 4" in shown
    with pytest.raises(ArmError, match="the picture 00 is not among those"):
        request.images(["00"])


def test_pictures_in_every_form_that_python_has(tmp_path: Path) -> None:
    path = tmp_path / "shot.png"
    path.write_bytes(png())
    drawn = Image.new("RGB", (6, 4), (9, 9, 9))
    array = np.full((4, 6, 3), 9, np.uint8)
    for given in (png(), bytearray(png()), path, url(png())):
        request = read(asked(state=state(screenshot=given)), PIXEL)
        assert list(request.pictures.values()) == [png()]
    pixels = set()
    for picture in (drawn, array, np.dstack([array, np.zeros((4, 6), np.uint8)]), drawn.convert("CMYK").convert("RGB")):
        (data,) = read(asked(state=state(screenshot=picture)), PIXEL).pictures.values()
        with Image.open(io.BytesIO(data)) as opened:
            pixels.add((opened.size, opened.convert("RGB").tobytes()))
    assert pixels == {((6, 4), drawn.tobytes())}
    assert read(asked(state=state(screenshot=Image.new("CMYK", (6, 4)))), PIXEL).state["width"] == 6


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        (b"nothing", "no known image format"),
        (Path("nowhere.png"), "nowhere.png cannot be read"),
        (3, "a path, a picture of PIL or an array"),
        (np.zeros((4, 6, 3)), r"uint8 is expected, not an array \(4, 6, 3\) of float64"),
        (np.zeros((4, 6), np.uint8), "an array"),
        (np.zeros((4, 6, 2), np.uint8), "an array"),
        (png(1, 300), "aspect ratio over 200"),
        ("shot.png", "does not match .* a Path names a file"),
        ("file:///etc/hostname", "does not match"),
        ("http://127.0.0.1:1/x.png", "does not match"),
        ("data:image/png;base64,%%", "base64"),
    ],
)
def test_pictures_that_are_none(picture: Any, said: str) -> None:
    """And no text is ever taken for a path or an address."""
    with pytest.raises(ArmError, match=said) as error:
        read(asked(state=state(screenshot=picture)), PIXEL, "in.jsonl", 7)
    assert "$.state.screenshot" in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"candidates": []}, r"\$.candidates is an empty list"),
        ({"candidates": ["a"] * 1001}, r"\$.candidates"),
        ({"candidates": ["a", {}]}, r"in.jsonl:7 \$.candidates\[1\] holds either `response`, or `action`"),
        ({"candidates": [{"thought": "a"}]}, r"\$.candidates\[0\] holds either"),
        ({"candidates": [{"response": "a", "action": "b"}]}, r"\$.candidates\[0\] holds either"),
        ({"candidates": [{"response": "a", "thought": "b"}]}, r"\$.candidates\[0\] holds either"),
        ({"candidates": [{"action": 3}]}, r"\$.candidates\[0\].action is 3, not a string"),
        ({"candidates": [{"actoin": "a"}]}, r"\$.candidates\[0\]"),
        ({"candidates": ["\ud800"]}, "U\\+D800"),
        ({"candidates": [{"action": "stop()", "thought": "\udc80"}]}, "U\\+DC80"),
        ({"state": {}}, r"\$.state.*task"),
        ({"state": {"task": "\ud800"}}, "U\\+D800"),
        ({"state": {"task": "a", "turn": True}}, r"\$.state.turn is true"),
        ({"state": {"task": "a", "turn": 1, "history": [{"action": "a"}] * 2}}, "turn 1 .* and 2 are given"),
        ({"state": {"task": "a", "screen": ""}}, r"\$.state.screen"),
        ({"state": {"task": "a", "image": np.zeros((4, 6, 3))}}, r"\$.state.image is of the type ndarray"),
        (
            {"state": {"task": "a", "history": [{"action": np.int64(3)}]}},
            r"\$.state.history\[0\].action is of the type",
        ),
        ({"state": "a"}, r"\$.state is"),
        ({"id": "a\nb"}, r"\$.id"),
        ({"id": ""}, r"\$.id"),
        ({"dialect": "functoin"}, "did you mean 'function'"),
        ({"dialect": "zzz"}, "known: "),
        ({"space": "inch"}, r"\$.space"),
        ({"dialect": "text"}, "trained on actions in function in pixel, and the request has text"),
        ({"space": "norm1000"}, "and the request has norm1000; its answers would mean nothing"),
        ({"more": 1}, r"\$.more"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ArmError, match=said):
        read(asked(**change), PIXEL, "in.jsonl", 7)


@pytest.mark.parametrize("data", [None, 3, "a", [], {}])
def test_what_is_no_request_at_all(data: Any) -> None:
    with pytest.raises(ArmError):
        read(data, PIXEL)


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(ArmError) as error:
        read({"state": {"task": 3}, "candidates": [{}, 4], "x": 1}, PIXEL)
    assert len(error.value.issues) == 4


def test_ways_to_write_actions() -> None:
    """Of the checkpoint's data, of the request, or of both where they agree; never guessed."""
    two = [*PIXEL, Spoken("text", None)]

    def way(data: dict[str, Any], spoken: Any) -> tuple[str, str | None]:
        row = read(data, spoken).set_row
        return row["dialect"], row["space"]

    assert way(asked(), PIXEL) == ("function", "pixel")
    assert way(asked(dialect="function", space="pixel"), PIXEL) == ("function", "pixel")
    assert way(asked(dialect="text"), two) == ("text", None)
    assert way(asked(space="pixel"), two) == ("function", "pixel")
    assert way(asked(dialect="function", space="norm1000"), None) == ("function", "norm1000")
    assert way(asked(dialect="function"), None) == ("function", None)
    with pytest.raises(UsageError, match="neither does the request"):
        read(asked(space="pixel"), None)
    with pytest.raises(UsageError, match="function in pixel, text in no declared space; say which these are"):
        read(asked(), two)
    assert spoken_of(contract()) == PIXEL
    silent: list[dict[str, Any]] = [{}, {"candidates": None}, {"candidates": {"spoken": []}}]
    assert [spoken_of(nothing) for nothing in silent] == [None] * 3


def test_an_id_is_of_the_content_and_a_state_is_never_taken_for_another() -> None:
    base = read(asked(), PIXEL)
    assert base.id == read(copy.deepcopy(asked()), PIXEL).id == base.set_row["set_id"]
    others = [
        asked(candidates=["click(1, 1)"]),
        asked(candidates=[*asked()["candidates"][:3], {"action": "click(3, 4)", "thought": "other"}]),
        asked(state=state(task="b")),
        asked(state=state(screenshot=url(png(shade=1)))),
        asked(state=state(turn=2)),
        asked(state=state(elements=[{"index": 0, "tag": "a", "text": "", "box": [0, 0, 4, 4]}])),
    ]
    ids = [read(other, PIXEL).id for other in others]
    assert len({base.id, *ids}) == 1 + len(others)
    # Two states under one id, which is the user's to choose: a renderer keeps what it saw of each.
    renderer = Renderer(prompt())
    shown = []
    for task in ("a", "b"):
        one = read(asked(id="same", state=state(task=task)), PIXEL)
        assert one.id == one.set_row["set_id"] == "same"
        shown.append(renderer.selection(one.state, one.set_row, [0, 1]).messages)
    assert shown[0] != shown[1]


@pytest.mark.parametrize("more", [{}, {"id": "mine"}])
@pytest.mark.parametrize("candidate", ["click(\ud800)", {"action": "stop()", "thought": "\udc00"}])
def test_half_a_surrogate_pair_is_no_text(candidate: Any, more: dict[str, str]) -> None:
    """A tokenizer would end all that is asked together with it."""
    with pytest.raises(ArmError, match="half a surrogate pair, U\\+D"):
        read(asked(candidates=[candidate, "stop()"], **more), PIXEL)


def test_numbers_as_json_may_write_them() -> None:
    two = read(asked(state=state(turn=2.0, history=[{"action": "stop()"}])), PIXEL)
    assert str(two.state["history"][0]["turn"]) == "1"


RESPONSES = {
    "function": ("<think>a</think>\n<action>click(1, 2)</action>", "<action>type(1, 2, '<action>')</action>"),
    "openwebrl": ('a\n<tool_call>{"name": "click", "arguments": {"point_2d": [1, 2]}}</tool_call>',),
    "molmoweb": ("THOUGHT: a\nACTION: click(1, 2)",),
    "molmoweb_json": ('{"thought": "a", "action": {"name": "mouse_click", "x": 1, "y": 2}}',),
    "desktop": ("```\npyautogui.click(1, 2)\n```",),
    "react": ("Thought: a\nAction: click[3]",),
}


@pytest.mark.parametrize("dialect", RESPONSES)
def test_earlier_turns_are_actions_and_no_whole_responses(dialect: str) -> None:
    """Training showed actions alone. A loop that keeps responses would ask otherwise, without anybody noticing."""
    for response in RESPONSES[dialect]:
        for earlier, wrong in ((parse(dialect, response).action, False), (response, True), ("cannot be read", False)):
            data = asked(dialect=dialect, state=state(history=[{"action": "x"}, {"action": earlier}]))
            if not wrong:
                assert read(data).state["history"][1]["action"] == earlier
                continue
            with pytest.raises(ArmError, match=r"in.jsonl:7 \$.state.history\[1\].action is a whole response") as error:
                read(data, None, "in.jsonl", 7)
            assert "parsed.thought" in str(error.value)


WORDS = (
    "click(3, 4)", "click(1e999, 4)", "drag(1,2,3,4)", "", "\x00", "\u2028", "<image>", "<|im_end|>", "1. a\n2. b",
    '{"selection": 2}', "<think>a</think><action>click(1,2)</action>", "<action>",
    '{"action":"click","coordinate":[3,4]}',
    '<tool_call>{"name": "click", "arguments": {"point_2d": [1, null]}}</tool_call>',
)  # fmt: skip


def test_whatever_is_sent_is_read_or_refused_in_words() -> None:
    """And what is read can be shown, or the reason why not has a name."""
    dice = random.Random(5)
    one = dice.choice
    renderers = [
        Renderer(prompt(kind, **options))
        for kind in ("selection", "scalar")
        for options in ({}, {"coordinate_space": "norm1000"}, {"element_labels": True}, {"observation": "text"})
    ]
    shown = refused = 0
    reasons: set[str] = set()
    for _ in range(600):
        said: dict[str, Any] = {"task": one(("a", None, "\ud800", "", 3) if dice.random() < 0.1 else WORDS)}
        for name, values in {
            "screenshot": (url(png()), url(png()), url(png()), url(png()), "data:image/png;base64,x", None),
            "observation_text": ("page", None, "\ud800"),
            "history": [[{"action": one(WORDS)} for _ in range(3)], [{}], None],
            "turn": (3, 0, -1, True, 2.0, 2**60),
            "elements": [[{"index": at, "tag": "a", "text": one(WORDS), "box": [0, 0, at, 9]} for at in (1, 0, 1)]],
        }.items():
            if dice.random() < 0.4:
                said[name] = one(values)
        candidates = [
            one([one(WORDS), {"action": one(WORDS), "thought": one(WORDS)}, {"response": one(WORDS)}])
            for _ in range(dice.randrange(5))
        ]
        data = {
            "state": said,
            "candidates": candidates,
            "dialect": one(list(DIALECTS)),
            "space": one(["pixel", "norm1000"]),
        }
        try:
            request = read(data)
        except ArmError:
            refused += 1
            continue
        for renderer in renderers:
            try:
                if renderer.prompt.kind == "scalar":
                    assert len(renderer.replies(request.state, request.set_row)) == request.n
                else:
                    renderer.selection(request.state, request.set_row, Shown().order(request.set_row))
                shown += 1
            except Unrenderable as error:
                reasons.add(error.reason)
    assert shown > 300
    assert refused > 80
    assert {"no_screenshot", "no_observation_text", "no_size"} == reasons <= {*STATUSES}
