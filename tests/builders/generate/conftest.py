"""The stand-in of the tests of servers, for those of what is asked of them."""

from __future__ import annotations

from action_reward_models.tests.servers.conftest import server, stand_in

__all__ = ["server", "stand_in"]
