"""The publisher, the hub, or both are killed for good while they are at work; nothing is torn."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.tests.faults.proxy import FaultProxy
from action_reward_models.tests.faults.script import Fault, Rule
from action_reward_models.tests.hub_sync.faults.forks import Pool, Victim
from action_reward_models.tests.hub_sync.faults.hold import read

REQUESTS = 36  # up to here every publication has some, and the commit is among them


class Mortal:
    """A hub that is killed and started again, on the same folder and port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = serve.start(folder, 0)
        self.url: str = self._started["url"]
        self.token = (folder / "token").read_text("utf-8").strip()

    def die(self) -> None:
        """Killed, and back when this returns."""
        os.kill(self._started["pid"], signal.SIGKILL)
        self._started = serve.start(self.folder, self._started["port"])
        assert self._started["url"] == self.url

    def check(self) -> int:
        """Is the storage whole? Every file that a repository was granted is there and is what its name says."""
        (database,) = self.folder.glob("*.sqlite")
        with closing(sqlite3.connect(database)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            granted = db.execute("SELECT DISTINCT sha256, size FROM objects").fetchall()
        for sha256, size in granted:
            data = (self.folder / "objects" / sha256[:2] / sha256[2:4] / sha256).read_bytes()
            assert (hashlib.sha256(data).hexdigest(), len(data)) == (sha256, size)
        return len(granted)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Mortal]:
    hub = Mortal(tmp_path / "hub")
    yield hub
    serve.stop(hub.folder)  # a failed test leaves it running


def one_death(mortal: Mortal, pool: Pool, built: Path, seed: int) -> str:
    """Publish, kill, publish again; returns who was killed."""
    draw = random.Random(seed)
    who, kind = draw.choice(["client", "hub", "both"]), draw.choice(["stop", "stop_during", "stop_after"])
    number, delay, words = draw.randint(1, REQUESTS), draw.uniform(0, 0.02), draw.choice([(), ("--stage",)])
    repo, victim = f"lab/death-{seed}", Victim()

    def kill(_number: int) -> None:
        if kind == "stop_during":
            time.sleep(delay)  # into the work of the hub, not to wait for anything
        if who != "hub":
            victim.kill()
        if who != "client":
            mortal.die()

    with FaultProxy(mortal.url, [Rule(Fault(kind), number=number)], kill) as proxy, pool.one() as forks:
        first = forks.push(built, repo, proxy.url, mortal.token, *words, started=victim.started)
        again = forks.push(built, repo, mortal.url, mortal.token, *words)
    story = f"seed {seed}: {who} {kind} at {number} {words}\n{first}\n{again}"
    assert first.killed == (who != "hub"), story
    assert "Traceback" not in first.errors, story
    assert again.status == 0, story
    try:
        read(mortal.url, mortal.token, repo).complete(built)
    except AssertionError as error:
        raise AssertionError(story) from error
    assert mortal.check()
    return who


def test_one_death(mortal: Mortal, built: Path, pools: Callable[[bool], Pool]) -> None:
    one_death(mortal, pools(False), built, 5)
    assert serve.stop(mortal.folder)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifteen_deaths(mortal: Mortal, built: Path, pools: Callable[[bool], Pool]) -> None:
    died = [one_death(mortal, pools(bool(seed % 2)), built, seed) for seed in range(100, 115)]
    assert set(died) == {"client", "hub", "both"}
    assert serve.stop(mortal.folder)
