"""A publisher killed at a request, before the hub has it or after the hub did it, and run again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest
from action_reward_models.tests.faults.proxy import FaultProxy, Request
from action_reward_models.tests.faults.script import Fault, Rule
from action_reward_models.tests.hub_sync.faults.forks import Forks, Pool, Victim
from action_reward_models.tests.hub_sync.faults.hold import read

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Running


@dataclass(frozen=True)
class Scene:
    """Who publishes what to where. ``words`` are options of `arm push`."""

    name: str
    running: Running
    built: Path
    words: tuple[str, ...] = ()

    def clean(self, forks: Forks) -> list[Request]:
        """The requests of a publication that nothing disturbs."""
        repo = f"lab/{self.name}-clean"
        with FaultProxy(self.running.url) as proxy:
            done = forks.push(self.built, repo, proxy.url, self.running.token, *self.words)
        assert done.status == 0, done.errors
        self._check(repo)
        return proxy.requests

    def killed(self, forks: Forks, kind: str, number: int) -> bool:
        """Kill at that request, run again, and look: was it killed at all?"""
        repo, victim = f"lab/{self.name}-{kind.replace('_', '-')}-{number}", Victim()
        with FaultProxy(self.running.url, [Rule(Fault(kind), number=number)], victim.kill) as proxy:
            first = forks.push(
                self.built, repo, proxy.url, self.running.token, *self.words, started=victim.started
            )  # fmt: skip
        assert first.killed or first.status == 0, first.errors
        again = forks.push(self.built, repo, self.running.url, self.running.token, *self.words)
        assert again.status == 0, again.errors
        commit = self._check(repo)
        assert again.output
        assert again.output["published"]["commit"] == commit
        return first.killed

    def _check(self, repo: str) -> str:
        """The commit of the one complete tagged revision; the repository is deleted, so that the next one is new."""
        held = read(self.running.url, self.running.token, repo)
        commit = held.complete(self.built)
        assert held.pull_requests == len(self.words), "a pull request that was left over is used"
        hub = self.running.client()  # whose connection the hub may have closed meanwhile: it is asked again
        hub.call("deleting", lambda: hub.api.delete_repo(repo, repo_type="dataset", missing_ok=True))
        return commit


def all_killed(scenes: list[Scene], pool: Pool, cases: list[tuple[str, int]]) -> None:
    """Every one of the cases, as many at a time as there are scenes."""
    free: Queue[Scene] = Queue()
    for scene in scenes:
        free.put(scene)

    def run(case: tuple[str, int]) -> bool:
        scene = free.get()
        try:
            with pool.one() as forks:
                return scene.killed(forks, *case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error
        finally:
            free.put(scene)

    with ThreadPoolExecutor(len(scenes)) as threads:
        killed = list(threads.map(run, cases))
    assert all(killed), "the publisher meets fewer requests than it was to be killed at"


def position(requests: list[Request], method: str, part: str) -> int:
    """The number of the last request of that kind."""
    return max(request.number for request in requests if request.method == method and part in request.path)


@pytest.mark.slow  # one death, at a moment of chance, is in the quick tier
def test_killed_up_to_the_commit_and_at_the_tag(running: Running, built: Path, pools: Callable[[bool], Pool]) -> None:
    """At the commit and the tag before and after, and at some other requests; the slow tier has them all."""
    scene, pool = Scene("quick", running, built), pools(False)
    with pool.one() as forks:
        requests = scene.clean(forks)
    committed, tagged = position(requests, "POST", "/commit/"), position(requests, "POST", "/tag/")
    assert tagged == len(requests)
    reading = range(committed + 1, tagged, (tagged - committed) // 2)
    cases = [("stop_after" if number % 2 else "stop", number) for number in range(1, committed, 5)]
    cases += [(kind, number) for number in (committed, tagged) for kind in ("stop", "stop_after")]
    all_killed([scene] * pool.size, pool, [*cases, *(("stop", number) for number in reading)])


@pytest.mark.slow
def test_a_staged_publisher_killed_between_its_steps(
    running: Running, built: Path, pools: Callable[[bool], Pool]
) -> None:
    scene, pool = Scene("steps", running, built, ("--stage",)), pools(False)
    with pool.one() as forks:
        requests = scene.clean(forks)
    opened, merged = position(requests, "POST", "/commit/"), position(requests, "POST", "/merge")
    cases = [("stop_after", opened), ("stop", (opened + merged) // 2), ("stop_after", merged)]
    all_killed([scene] * pool.size, pool, [*cases, ("stop", position(requests, "POST", "/tag/"))])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("words", [(), ("--stage",)], ids=["straight", "staged"])
@pytest.mark.parametrize("xet", [False, True], ids=["lfs", "xet"])
def test_killed_at_every_request(
    new_hub: Callable[[], Running], built: Path, pools: Callable[[bool], Pool], xet: bool, words: tuple[str, ...]
) -> None:
    pool = pools(xet)
    scenes = [Scene(f"every{'-staged' * len(words)}", new_hub(), built, words) for _ in range(pool.size)]
    with pool.one() as forks:
        requests = scenes[0].clean(forks)
    assert len(requests) > 40
    assert any("/v1/xorbs/" in request.path for request in requests) == xet
    all_killed(scenes, pool, [(kind, r.number) for r in requests for kind in ("stop", "stop_after")])
