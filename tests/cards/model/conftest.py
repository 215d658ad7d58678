"""Manifests of two checkpoints: a scalar model from its base, and a selection ARM trained further from its parent."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from action_reward_models import __version__

_HERE = Path(__file__).parent
_MANIFESTS = {kind: json.loads((_HERE / f"{kind}.json").read_text("utf-8")) for kind in ("scalar", "selection")}


def of(kind: str) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(_MANIFESTS[kind])
    made["environment"]["action_reward_models"] = __version__
    return made


@pytest.fixture
def scalar() -> dict[str, Any]:
    return of("scalar")


@pytest.fixture
def selection() -> dict[str, Any]:
    return of("selection")


@pytest.fixture(params=["scalar", "selection"])
def manifest(request: pytest.FixtureRequest) -> dict[str, Any]:
    return of(request.param)
