"""What people do with a Hub, by each client line, with Xet on and off, in a namespace with only loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from action_reward_models.tests.clients.conftest import QUIET, Place
from action_reward_models.tests.clients.sealed import Sealed
from action_reward_models.tests.clients.test_loopback import LINES, VIEWER

FLOWS = Path(__file__).parent / "flows.py"
COUNT = 10


@pytest.mark.timeout(900)  # the older line is installed first
@pytest.mark.parametrize(("line", "xet"), LINES)
def test_flows(sealed: Sealed, tmp_path: Path, line: str, xet: str) -> None:
    place = Place(sealed, tmp_path, line, xet)
    served = place.arm("hub", "serve", "--background", "--dir", "hub", "--port", "0", "--json")
    assert served.code == 0, served.err
    env = {"HF_ENDPOINT": json.loads(served.out)["url"], "HF_TOKEN": (tmp_path / "hub" / "token").read_text("utf-8")}
    (tmp_path / "work").mkdir()
    ran = place.run(str(place.python), "-P", str(FLOWS), str(tmp_path / "work"), seconds=300, **env, **QUIET)
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert not [f"{entry['flow']}: {entry['error']}" for entry in told if entry["error"]]
    assert (ran.code, len(told)) == (0, COUNT), ran.err
    assert set(ran.attempts) <= {VIEWER}
