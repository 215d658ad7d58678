"""Options: round trip and messages."""

from __future__ import annotations

from typing import Any

import pytest
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.schemas.errors import ArmError


def test_round_trip() -> None:
    options = PromptOptions(history_window=0, element_labels=True, coordinate_space="norm1000", reasoning="before")
    assert PromptOptions.from_mapping(options.to_json()) == options
    assert PromptOptions.from_mapping({}) == PromptOptions()
    assert len(PromptOptions().to_json()) == 6


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"histroy_window": 3}, "$.histroy_window is not a prompt option; did you mean history_window?"),
        ({"zzz": 3}, "$.zzz is not a prompt option; known: history_window, "),
        ({"history_window": True}, "$.history_window is True; a whole number of turns, 0 or more"),
        ({"history_window": -1}, "$.history_window is -1; a whole number"),
        ({"history_window": "8"}, "$.history_window is '8'; a whole number"),
        ({"history_window": 8.0}, "$.history_window is 8.0; a whole number"),
        ({"candidate_reasoning": 1}, "$.candidate_reasoning is 1; true or false"),
        ({"element_labels": "no"}, "$.element_labels is 'no'; true or false"),
        ({"coordinate_space": "pixels"}, "$.coordinate_space is 'pixels'; one of source, pixel, norm1000"),
        ({"reasoning": None}, "$.reasoning is None; one of none, before"),
        ({"observation": ["text"]}, "$.observation is ['text']; one of screenshot, text"),
    ],
)
def test_a_wrong_option_is_named(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(ArmError) as caught:
        PromptOptions.from_mapping(mapping)
    assert message in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ArmError) as caught:
        PromptOptions.from_mapping({"reasonin": "none", "history_window": -1, "observation": "html"})
    assert len(caught.value.issues) == 3


def test_the_constructor_checks_too() -> None:
    with pytest.raises(ArmError, match="1 problem"):
        PromptOptions(history_window=-2)
