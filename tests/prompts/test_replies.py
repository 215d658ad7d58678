"""The reply table case by case, an independent slow reader, and hostile sizes."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_reward_models.prompts.objects import verdicts
from action_reward_models.prompts.replies import REPLY_STATUSES, parse_selection
from action_reward_models.schemas.errors import ArmError

_TABLE = yaml.safe_load((Path(__file__).parent / "replies.yaml").read_text("utf-8"))


def test_the_table_is_whole_and_covers_every_status() -> None:
    assert len(_TABLE["cases"]) == _TABLE["count"]
    counts = Counter(case["status"] for case in _TABLE["cases"])
    assert set(counts) == set(REPLY_STATUSES)
    assert sum(bool(case.get("salvaged")) for case in _TABLE["cases"]) == 4


@pytest.mark.parametrize("case", _TABLE["cases"], ids=lambda case: repr(case["text"])[:60])
def test_reply(case: dict[str, Any]) -> None:
    reply = parse_selection(case["text"], case.get("n", 5), case.get("finish_reason"), case.get("refusal"))
    expected = (case["status"], case.get("selected"), case.get("salvaged", False))
    assert (reply.status, reply.selected, reply.salvaged) == expected
    assert (reply.selected is not None) == (reply.status == "ok")


def test_no_candidates_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ArmError, match="at least one"):
        parse_selection('{"selection": 1}', 0)


def _slow(text: str) -> list[int | None]:
    """Every object with a selection key, found by trying the standard decoder at every brace."""
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: pairs, strict=False)
    numbers: list[int | None] = []

    def walk(value: Any) -> None:
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            picks = [v for k, v in value if k == "selection"]
            if picks:
                numbers.append(picks[0] if type(picks[0]) is int and len(set(map(repr, picks))) == 1 else None)
            for key, item in value:
                if key != "selection":
                    walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    position = text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
            walk(value)
        except ValueError:
            end = position + 1
        position = text.find("{", end)
    return numbers


def test_the_fast_scanner_finds_what_a_slow_one_finds() -> None:
    tokens = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        '"selection"',
        '"a"',
        "1",
        "2",
        "null",
        '"',
        " ",
        "x",
        '{"selection":',
        "3}",
    ]
    rng = random.Random(7)
    compared = 0
    for _ in range(30_000):
        text = "".join(rng.choices(tokens, k=rng.randrange(3, 16)))
        found, cut = verdicts(text)
        if cut:  # the slow reader does not know what a cut is
            continue
        slow = Counter(_slow(text))
        assert Counter(v.number for v in found) == slow, text
        compared += bool(slow)
    assert compared > 500


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        '{"',
        '{"a":',
        '{"a":[',
        '{":',
        '{"a":{"b":1},',
        '"{"\\',
        '{"\\"',
        '\\{"',
        '{"x":"{',
        '{"1":[[[{"',
        "{\n\n\n\n",
        "9",
        "<think>",
        '<think>{"selection":1}</think>',
        '{"selection":1}',
        '{"selection":{"a":',
        '{"":"{\\"":',
        '{"selection":9',
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    begin = time.process_time()
    parse_selection(text, 5)
    parse_selection('{"selection": ' + text, 5)
    parse_selection(text + "x}", 5)
    assert time.process_time() - begin < 3  # about 0.3 s; quadratic would be minutes
