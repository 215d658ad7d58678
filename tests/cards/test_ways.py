"""How rows came about, in sentences: where pairs come from, what bounds them, what the actor learns from."""

from __future__ import annotations

from typing import Any

import pytest
from action_reward_models.cards.dataset import render
from action_reward_models.cards.pairs import how

PICKS = "The picked candidate of each usable label is compared with every other candidate of its set"


def _ready(manifest: dict[str, Any]) -> None:
    source = manifest["identity"]["sources"][0]
    manifest["identity"]["sources"].append({**source, "kind": "bt_pairs", "format": "table"})


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"max_pairs_per_set": 2}, [f"{PICKS}, and at most 2 pairs per set are kept."]),
        ({"max_pairs_per_set": 1}, [f"{PICKS}, and at most 1 pair per set is kept."]),
        ({"max_pairs_per_set": 0}, [f"{PICKS}."]),
        ({"max_pairs_per_set": 0, "max_pairs_per_state": 1}, [f"{PICKS}. At most 1 pair per state is kept."]),
        (
            {"max_pairs_per_set": 3, "origins": ["scores"], "scores": {"min_gap": 0.2, "choose": "random"}},
            ["the scores differ by more than `0.2`; a hash says which are kept, and at most 3 pairs per set are kept."],
        ),
        (
            {"max_pairs_per_set": 3, "origins": ["selection", "scores"], "scores": {"budget": "selection"}},
            [
                f"{PICKS}, and at most 3 pairs per set are kept. Of two scored",
                "more than `0.05`; of a set, as many are kept as its picked candidate gives.",
            ],
        ),
        (
            {"max_pairs_per_set": 0, "negatives": {"corrupted": 2, "cross_task": 1}},
            [
                "up to 2 rejected sides made by spoiling the chosen action.",
                "up to 1 rejected side chosen in another task.",
            ],
        ),
        (
            {"max_pairs_per_set": 0, "trajectories": {"min_gap": 0.5, "max_pairs_per_task": 4}},
            ["outcomes differ by at least `0.5`, and at most 4 pairs per task are kept."],
        ),
    ],
)  # fmt: skip
def test_pairs(manifest: dict[str, Any], rule: dict[str, Any], says: list[str]) -> None:
    manifest["identity"]["parameters"]["bt_pairs"] = rule
    said = how(manifest)
    assert all(words in said for words in says), said
    assert ("picked candidate of each" in said) == ("selection" in rule.get("origins", ["selection"]))
    assert said in render(manifest)


def test_ready_made_pairs(manifest: dict[str, Any]) -> None:
    _ready(manifest)
    assert how(manifest).endswith("Other pairs came ready-made and follow the same rules.")
    manifest["identity"]["parameters"]["bt_pairs"] = None
    card = render(manifest)
    assert "These pairs came ready-made." in card
    assert "The picked candidate of each usable label" not in card
    assert "**Ready-made rows** in `bt_pairs`." in card
    assert "Rows of `bt_pairs` that came ready-made follow the hash of their task" in card
    assert "Both come from the same labels" not in card


def test_where_preferences_and_gaps_come_from(manifest: dict[str, Any]) -> None:
    assert "Why the one is preferred" not in render(manifest)
    manifest["identity"]["statistics"] |= {
        "label_source": {"selection": 100, "scores": 80, "outcome": 3},
        "negative_source": {"sampled": 180, "cross_task": 3},
        "margins": {"0.5": 80, "0.9": 3},
    }
    card = render(manifest)
    assert "| `outcome` | the one episode of the task ended better than the other | 3 | 1.6 % |" in card
    assert "| `cross_task` | an action chosen in another task | 3 | 1.6 % |" in card
    assert "| 0.9 | 3 | 3.6 % |" in card


def test_limits_of_tokens_and_labels(manifest: dict[str, Any]) -> None:
    assert "Rows longer than" not in render(manifest)
    parameters = manifest["identity"]["parameters"]
    parameters["tokens"] = {"name": "org/vlm@main", "sha256": "a" * 64, "max_tokens": 8192}
    parameters["labels"]["conflicting"] = "quarantine"
    card = render(manifest)
    assert "Rows longer than 8,192 tokens, as `org/vlm@main`" in card
    assert "Labels that contradict others" in card


@pytest.mark.parametrize(
    ("actor", "says", "not_said"),
    [
        (
            {"selected_by": "scores", "quality_floor": 0.7, "random_control": False},
            "the candidate with the highest score of each set, in the actor's own messages, if its score is at least "
            "`0.7`.",
            "random_control",
        ),
        (
            {"selected_by": "teacher", "quality_floor": None, "random_control": True},
            "the picked candidate of each usable label, in the actor's own messages. Beside each stands one that",
            "if its score",
        ),
    ],
)  # fmt: skip
def test_the_actor(manifest: dict[str, Any], actor: dict[str, Any], says: str, not_said: str) -> None:
    manifest["identity"]["parameters"]["actor_sft"] = actor
    assert "## Responses for the actor" not in render(manifest), "no such table"
    tables = manifest["identity"]["tables"]
    tables["actor_sft"] = {**tables["selection_sft"], "schema": "actor_sft/1"}
    section = render(manifest).partition("## Responses for the actor")[2].partition("\n## ")[0]
    assert says in section
    assert not_said not in section
