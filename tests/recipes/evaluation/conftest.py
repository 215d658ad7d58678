from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.tests.recipes import tiny


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of the bundled example."""
    return tiny.dataset(tmp_path_factory.mktemp("miniwob"))
