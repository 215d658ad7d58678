"""Orders in which candidates are shown."""

from __future__ import annotations

import random

from action_reward_models.inference.orders import several


def test_orders_are_different_and_follow_from_the_set() -> None:
    for n in range(2, 6):
        first = random.Random(n).sample(range(n), n)
        for most in (1, 2, 4, 24, 119):
            orders = list(several("s", first, most))
            assert orders[0] == first
            assert len(orders) == min(most, [1, 1, 2, 6, 24, 120][n])
            assert len({tuple(order) for order in orders}) == len(orders)
            assert all(sorted(order) == list(range(n)) for order in orders)
            assert orders == list(several("s", first, most + 1))[: len(orders)]
    assert list(several("s", range(5), 3)) != list(several("t", range(5), 3))
