"""The stand-in of the tests of servers, for a model behind one."""

from __future__ import annotations

from action_reward_models.tests.servers.conftest import server, stand_in

__all__ = ["server", "stand_in"]
