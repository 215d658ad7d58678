"""Tests see no login, cache or endpoint of the person who runs them; clients read these when they are imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from action_reward_models.tests import processes

for _name in [name for name in os.environ if name.startswith(("HF_", "HUGGING")) and name != "HF_HUB_DISABLE_XET"]:
    del os.environ[_name]
_HOME = tempfile.mkdtemp(prefix="arm-tests-home-")
os.environ |= {"HF_HOME": _HOME, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
os.environ["USE_TORCH"] = "0"  # `datasets` would import it in every process that loads anything, two seconds each


@pytest.fixture(scope="session", autouse=True)
def _clear_home() -> Iterator[None]:
    yield
    processes.close()
    shutil.rmtree(_HOME, ignore_errors=True)


# Few tests that take long: they are started first, so that in the end no core waits for another.
_LONG = ("test_docs", "test_hub_verbs", "test_plan", "test_guards", "test_killed", "test_loopback", "test_apply")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _LONG.index(item.path.stem) if item.path.stem in _LONG else len(_LONG))
