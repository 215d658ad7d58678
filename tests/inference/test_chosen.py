"""Choices of real models: what they say of the prompt of training, however many are asked about at once."""

from __future__ import annotations

from typing import Any

import pytest
from action_reward_models.inference.choice import STATUSES
from action_reward_models.tests.inference import process
from action_reward_models.tests.inference.asked import prompt


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process found out; see `chosen`."""
    return process.run("chosen", tmp_path_factory.mktemp("chosen"), process.base())


def test_a_scalar_model_picks_the_best_of_what_it_scores(found: Any) -> None:
    *choices, long = found["scalar"]["choices"]
    assert [len(one["scores"]) for one in choices] == [5, 4, 3]
    for choice, plain in zip(choices, found["scalar"]["plain"], strict=True):
        assert choice["scores"] == pytest.approx(plain, abs=1e-5)
        assert max(plain) - min(plain) > 1e-3
        best = plain.index(max(plain))
        assert (choice["status"], choice["selected_index"], choice["chosen_by"]) == ("ok", best, "model")
    assert choices[0]["scores"][0] == choices[0]["scores"][4]  # one text, one score
    assert (long["status"], long["scores"]) == ("too_long", None)


def test_an_arm_says_in_any_batch_what_it_says_alone(found: Any) -> None:
    *choices, long = found["selection"]["choices"]
    replies = [vote["reply"] for one in choices for vote in one["votes"]]
    assert len(replies) == 9
    assert replies == found["selection"]["alone"]
    assert len(set(replies)) > 1
    assert {vote["status"] for one in choices for vote in one["votes"]} <= set(STATUSES)
    assert long["status"] == "too_long"
    assert [vote["reply"] for vote in long["votes"]] == [None] * len(long["votes"])


def test_a_scalar_model_settles_what_an_arm_leaves_open(found: Any) -> None:
    *settled, long = found["selection"]["settled"]
    for one, scored in zip(settled, found["scalar"]["choices"], strict=False):
        assert one["status"] in ("unparsed", "truncated")
        assert (one["chosen_by"], one["selected_index"]) == ("scalar", scored["selected_index"])
        assert one["scores"] == pytest.approx(scored["scores"], abs=1e-5)
    assert (long["status"], long["selected_index"], long["chosen_by"]) == ("too_long", None, None)
    assert "the scalar model picks none, either: too_long" in long["detail"]


def test_one_thread_at_a_time_has_something_written(found: Any) -> None:
    """A model keeps where it is in what it writes."""
    assert found["at_once"] == 1


def test_templates_that_know_no_blocks_show_the_text(found: Any) -> None:
    """Else every prompt would be empty, in training as in use."""
    assert found["texts"] == dict.fromkeys(("silent", "fails"), "user:Go.|assistant:stop|")


def test_a_chat_template_that_fails_is_an_outcome_with_a_name(found: Any) -> None:
    assert found["template"]["status"] == "unrenderable"
    assert "the chat template refuses the conversation: unsupported operand" in found["template"]["detail"]


def test_nothing_is_kept_of_pictures_that_were_shown_before(found: Any) -> None:
    assert found["remembered"] == 0


def test_checkpoints_open_as_what_they_are(found: Any) -> None:
    assert found["kinds"] == ["scalar", "selection_arm"]
    assert prompt().sha256 in found["other_prompt"]
    assert prompt(history_window=1).sha256 in found["other_prompt"]
    assert "the device 'gpu' cannot be used: Expected one of cpu, cuda" in found["no_device"]
    assert 'is named with its revision\n  next: revision="v1.0.0"' in found["no_folder"]
    assert "brings no prompt: say what it is to be asked with" in found["no_prompt"]
    assert found["supplied"]["status"] == "ok"  # the tiny base has learnt to reply
    assert found["supplied"]["chosen_by"] == "model"
