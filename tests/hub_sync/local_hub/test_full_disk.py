"""A full disk is an answer that no client tries again; what else goes wrong is a failure."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.local_hub.app import create_app
from action_reward_models.hub_sync.local_hub.store import Store
from starlette.testclient import TestClient


@pytest.fixture
def create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], Any]:
    """Asks a hub whose next write fails to create a repository."""
    store = Store(tmp_path / "hub")
    token = store.add_user("ann")
    client = TestClient(create_app(store), base_url="http://127.0.0.1", raise_server_exceptions=False)

    def ask(error: Exception) -> Any:
        def fails() -> None:
            raise error

        monkeypatch.setattr(store.database, "write", fails)
        headers = {"Authorization": f"Bearer {token}"}
        return client.post("/api/repos/create", json={"name": "x", "type": "dataset"}, headers=headers)

    return ask


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        sqlite3.OperationalError("database or disk is full"),
    ],
)
def test_a_full_disk_is_named(create: Callable[[Exception], Any], error: Exception) -> None:
    answer = create(error)
    assert answer.status_code == 507
    assert "disk of the hub is full" in answer.json()["error"]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), sqlite3.OperationalError("no such table")])
def test_any_other_failure_is_one(create: Callable[[Exception], Any], error: Exception) -> None:
    assert create(error).status_code == 500
