"""``1.0`` is an integer to JSON Schema and no index to Python: such records are named, never tripped over."""

from __future__ import annotations

import pytest
from action_reward_models.schemas.integers import floats
from action_reward_models.schemas.validate import for_schema


@pytest.mark.parametrize(
    ("name", "record", "found"),
    [
        ("first_release_label/1", {"state_id": "a#d0", "selection": 1.0, "reasoning": ""}, {"$.selection": "write 1"}),
        ("first_release_label/1", {"state_id": "a#d0", "selection": None, "reasoning": ""}, {}),
        (
            "molmoweb_candidates/1",
            {
                "state_id": 3.0,
                "candidates": [
                    {"cand_idx": 1, "raw": "a", "action_str": "b", "thought": "c"},
                    {"cand_idx": 2.0, "raw": "a", "action_str": "b", "thought": "c"},
                ],
            },
            {"$.state_id": "write 3", "$.candidates[1].cand_idx": "write 2"},
        ),
        ("molmoweb_rewards/1", {"state_id": 1, "cands": [{"action_str": "a", "score": 1.0}]}, {}),
        ("molmoweb_rewards/1", {"state_id": 1e15, "cands": [{"action_str": "a"}]}, {"$.state_id": f"write {10**15}"}),
    ],
)
def test_floats_where_integers_belong(name: str, record: dict[str, object], found: dict[str, str]) -> None:
    assert for_schema(name).problems(record) == []
    told = {where: message.rpartition(": ")[2] for where, message in floats(name, record)}
    assert told == found
