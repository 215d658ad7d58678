"""The publisher and the embedded hub of the tests of publishing."""

from __future__ import annotations

from action_reward_models.tests.hub_sync.conftest import hub, new_publisher, publisher, read_back_quickly, running
from action_reward_models.tests.registry.lineage_world import world

__all__ = ["hub", "new_publisher", "publisher", "read_back_quickly", "running", "world"]
