"""Reading the YAML at the head of a card."""

from __future__ import annotations

from action_reward_models.cards.blocks import read_head


def test_what_is_read_is_the_reader_s_own() -> None:
    """Reading is remembered; who changes what was read changes it for nobody else."""
    card = "---\ntags: [a]\nmore: {x: [1]}\n---\n"
    first = read_head(card)
    first["tags"].append("b")
    first["more"]["x"].clear()
    assert read_head(card) == {"tags": ["a"], "more": {"x": [1]}}
