"""The JSON of a plan speaks of errors as every verb does."""

from __future__ import annotations

from action_reward_models.hub_sync.forms import CHECKPOINT
from action_reward_models.registry.plan import Step
from action_reward_models.schemas.errors import ArmError, Issue


def test_a_refusal_is_the_same_json_as_an_error() -> None:
    error = ArmError.of("data/sets.jsonl", [Issue("data/sets.jsonl", 3, "$.x", "is no number")], "mend it")
    step = Step("base", "1.0.0", "lab/base", "refused", refusals=(error,))
    model = Step("arm", "1.0.0", "lab/arm", "refused", refusals=(error,), form=CHECKPOINT)
    assert step.to_json()["refusals"] == model.to_json()["refusals"] == [error.to_json()]
    assert [step.to_json()["kind"], model.to_json()["kind"]] == ["dataset", "checkpoint"]
