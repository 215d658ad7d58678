"""One state with its candidates, as plain rows."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROWS = yaml.safe_load((Path(__file__).parent / "states.yaml").read_text("utf-8"))


@pytest.fixture
def state() -> dict[str, Any]:
    return copy.deepcopy(_ROWS["state"])


@pytest.fixture
def candidates() -> list[dict[str, Any]]:
    return copy.deepcopy(_ROWS["candidates"])
