"""The smoke run that a person makes against the real Hub works, as far as the embedded one can tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Running

SCRIPT = Path(__file__).parents[1] / "smoke_hub.py"


@pytest.mark.slow
def test_the_smoke_run_publishes_verifies_pulls_and_deletes(running: Running, tmp_path: Path) -> None:
    before = {info.id for info in running.client().api.list_datasets()}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=running.env(tmp_path, HF_TOKEN=running.token), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("deleted the repository\nall of it worked\n")
    assert {info.id for info in running.client().api.list_datasets()} == before


def test_without_a_token_it_says_so(running: Running, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=running.env(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "publishing needs a token" in done.stderr
