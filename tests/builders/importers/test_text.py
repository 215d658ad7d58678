"""Facts in the text of a conversation: what is found, and that no page can make the search for it endless."""

from __future__ import annotations

import pytest
from action_reward_models.builders.importers.text import framed_task, listed_tools, requested_task
from action_reward_models.schemas.actions.dialect import without_end_of_turn

MANY = 300_000  # quadratic in these, a search takes hours


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Task: Buy.\n\nStep 1. URL: a\n\n\n Active tab: b \n\nNow.", "Buy.\n\nNow."),
        ("\n\n URL: a\n\n\n\n  URL: b\n\n\nBuy.\nURL: c", "Buy."),
        ("Buy.\nURL\n: a\n\nStep\n3\n", "Buy."),
        ("See URL: a", "See URL: a"),
        ("Step 1 then", "Step 1 then"),
        ("\u2028URL: a\nBuy.\x85\n", "Buy."),
        ("URL: a", None),
    ],
)
def test_lines_that_frame_a_task_go(text: str, task: str | None) -> None:
    assert framed_task(text) == task


def test_the_last_request_counts() -> None:
    text = "<user_request>a</user_request> <user_request> <user_request>b </user_request> <user_request>c"
    assert requested_task(text) == "<user_request>b"
    assert requested_task("<user_request> </user_request>") is None
    assert requested_task("</user_request><user_request>") is None


def test_tools_stand_on_lines_of_their_own() -> None:
    assert listed_tools('<tools>\n{"a": 1}\n\n[]\n</tools>') == '[{"a":1},[]]'
    assert listed_tools("<tools>\n</tools>") is None
    assert listed_tools("<tools>\nno JSON\n</tools>") is None


@pytest.mark.parametrize("part", ["\n", " \n", "Step 1\n\n", "<user_request>", "<tools>\n", "<|im_end|>\n"])
def test_repeated_text_takes_linear_time(part: str) -> None:
    text = f"{part * MANY}x"
    framed_task(text)
    assert requested_task(text) is None
    assert listed_tools(text) is None
    assert without_end_of_turn(f"x\n{part * MANY}") == (
        "x" if part.isspace() or part.startswith("<|") else f"x\n{part * MANY}".strip()
    )
