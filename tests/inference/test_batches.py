"""Batches hold every conversation once, and no more tokens than they may."""

from __future__ import annotations

import random

import pytest
from action_reward_models.inference.batches import batches, refuse_long
from action_reward_models.inference.processor import Encoded
from action_reward_models.schemas.errors import ArmError


def rows(*lengths: int) -> list[Encoded]:
    return [Encoded((1,) * length, length) for length in lengths]


@pytest.mark.parametrize("seed", range(5))
def test_every_row_is_in_one_batch_and_no_batch_is_too_large(seed: int) -> None:
    chance = random.Random(seed)
    lengths = [chance.randint(1, 120) for _ in range(chance.randint(1, 60))]
    made = list(batches(rows(*lengths), 100))
    assert sorted(place for batch in made for place in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= 100 for batch in made)
    firsts = [lengths[batch[0]] for batch in made]
    assert firsts == sorted(firsts, reverse=True)
    for batch in made[:-1]:  # nothing of the next one would have fitted
        assert (len(batch) + 1) * lengths[batch[0]] > 100


def test_what_will_be_written_counts() -> None:
    assert [len(batch) for batch in batches(rows(10, 10, 10, 10), 60)] == [4]
    assert [len(batch) for batch in batches(rows(10, 10, 10, 10), 60, added=20)] == [2, 2]


def test_no_row_is_no_batch() -> None:
    assert list(batches([], 100)) == []


def test_a_conversation_as_long_as_allowed_is_taken_and_a_longer_one_named() -> None:
    refuse_long(rows(3, 5), 5)
    with pytest.raises(ArmError, match="conversation 1 has 6 tokens, and this checkpoint takes 5"):
        refuse_long(rows(3, 6), 5)
