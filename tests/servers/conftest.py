"""The stand-in of a file of tests: one process, and for each test as if it had just begun."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from action_reward_models.tests.servers.stand_in import Script, StandIn


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    with StandIn() as server:
        yield server


@pytest.fixture
def server(stand_in: StandIn) -> StandIn:
    stand_in.change(Script())
    stand_in.reset()
    return stand_in
