"""Two publishers at once: one wins, the other is told both shas and what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.tests.faults.proxy import FaultProxy
from action_reward_models.tests.faults.script import Fault
from action_reward_models.tests.hub_sync.faults.forks import Ended, Pool
from action_reward_models.tests.hub_sync.faults.hold import Held

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Running


class Gate(FaultProxy):
    """Holds the first request whose address has ``part`` until the other publisher's gate has one as well."""

    def __init__(self, upstream: str, part: str, barrier: threading.Barrier) -> None:
        super().__init__(upstream)
        self._part, self._barrier, self._waited = part, barrier, False

    def arrive(self, method: str, path: str) -> tuple[int, Fault | None]:
        if self._part in path and not self._waited:
            self._waited = True
            with suppress(threading.BrokenBarrierError):
                self._barrier.wait(20)
        return super().arrive(method, path)


class Race:
    """Publishes two builds at once."""

    def __init__(self, running: Running, pool: Pool) -> None:
        self.running, self.pool = running, pool

    def run(self, repo: str, builds: tuple[Path, Path], part: str, *words: str) -> list[Ended]:
        """How both ended, after they met at the request that has ``part``."""
        barrier = threading.Barrier(2)

        def publish(built: Path) -> Ended:
            with Gate(self.running.url, part, barrier) as gate, self.pool.one() as forks:
                return forks.push(built, repo, gate.url, self.running.token, *words)

        with ThreadPoolExecutor(2) as threads:
            ended = list(threads.map(publish, builds))
        assert not barrier.broken, "both were there"
        return ended

    def again(self, repo: str, built: Path) -> Ended:
        with self.pool.one() as forks:
            return forks.push(built, repo, self.running.url, self.running.token)


@pytest.fixture
def race(running: Running, pools: Callable[[bool], Pool]) -> Race:
    return Race(running, pools(False))


Rounds = Callable[[range], None]


@pytest.fixture
def rounds(race: Race, hub: Hub, built: Path, other: Path, held: Callable[[str], Held]) -> Rounds:
    """Rounds in which both rest on the same head and send different rows as the same version."""

    def one(number: int) -> int:
        repo = f"lab/race-{number}"
        hub.api.create_repo(repo, repo_type="dataset")
        refs = hub.refs(repo)
        assert refs
        builds = (built, other)
        ended = race.run(repo, builds, ("/commit/", "/validate-yaml", "/preupload/")[number % 3])
        assert sorted(end.status for end in ended) == [0, 1], ended
        winner = [end.status for end in ended].index(0)
        won, lost = ended[winner].output, ended[1 - winner].output
        assert won
        assert lost
        commit = held(repo).complete(builds[winner])
        assert won["published"]["commit"] == commit
        assert refs.head in lost["error"]
        assert commit in lost["error"]
        assert lost["next"].startswith("arm push")
        again = race.again(repo, builds[1 - winner])
        assert again.status == 1
        assert again.output
        assert f"v1.0.0 is published at {commit} with other content" in again.output["error"]
        assert "raise the version" in again.output["next"]
        return winner

    def all_of(numbers: range) -> None:
        winners = {one(number) for number in numbers}
        assert len(numbers) < 20 or winners == {0, 1}, "a race that one side always wins is none"

    return all_of


def test_three_rounds(rounds: Rounds) -> None:
    rounds(range(3))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_rounds(rounds: Rounds) -> None:
    rounds(range(3, 50))


@pytest.mark.parametrize("part", ["/repos/create", pytest.param("/tree/", marks=pytest.mark.slow)])
def test_the_first_publication(race: Race, built: Path, other: Path, held: Callable[[str], Held], part: str) -> None:
    """Neither plan rests on a commit, since there was no repository."""
    repo, builds = f"lab/first-{part.strip('/').replace('/', '-')}", (built, other)
    ended = race.run(repo, builds, part)
    assert sorted(end.status for end in ended) == [0, 1], ended
    winner = [end.status for end in ended].index(0)
    lost = ended[1 - winner].output
    assert lost
    commit = held(repo).complete(builds[winner])
    assert commit in lost["error"]
    assert lost["next"].startswith("arm push")


def test_two_pull_requests_are_merged_at_once(
    race: Race, hub: Hub, built: Path, other: Path, held: Callable[[str], Held]
) -> None:
    """Both were read back and rest on the head; one merge conflicts, and nothing of it is on main."""
    repo, builds = "lab/staged-race", (built, other)
    hub.api.create_repo(repo, repo_type="dataset")
    refs = hub.refs(repo)
    assert refs
    ended = race.run(repo, builds, "/merge", "--stage")
    assert sorted(end.status for end in ended) == [0, 1], ended
    winner = [end.status for end in ended].index(0)
    lost = ended[1 - winner].output
    assert lost
    commit = held(repo).complete(builds[winner])
    assert refs.head in lost["error"]
    assert commit in lost["error"]
    assert lost["next"].startswith("arm push")


@pytest.mark.parametrize("part", [pytest.param("/repos/create", marks=pytest.mark.slow), "/commit/", "/tag/"])
def test_the_same_build_twice_at_once(race: Race, built: Path, held: Callable[[str], Held], part: str) -> None:
    """One commit, one tag, and both publishers are content."""
    repo = f"lab/same-{part.strip('/').replace('/', '-')}"
    ended = race.run(repo, (built, built), part)
    assert [end.status for end in ended] == [0, 0], ended
    commit = held(repo).complete(built)
    done = [end.output["published"] for end in ended if end.output]
    assert [one["commit"] for one in done] == [commit, commit]
    assert sum(one["tagged"] for one in done) == 1


@pytest.mark.slow
def test_the_same_build_twice_at_once_in_pull_requests(race: Race, built: Path, held: Callable[[str], Held]) -> None:
    """Both are merged, the second one changes nothing, and either commit may have the tag."""
    ended = race.run("lab/same-staged", (built, built), "/merge", "--stage")
    assert [end.status for end in ended] == [0, 0], ended
    found = held("lab/same-staged")
    commit = found.complete(built, commits=3)
    assert found.files[found.commits[0]] == found.files[found.commits[1]]
    assert [end.output["published"]["commit"] for end in ended if end.output] == [commit, commit]


def test_overtaken_between_commit_and_tag(
    race: Race, hub: Hub, built: Path, other: Path, held: Callable[[str], Held]
) -> None:
    """The tag goes to one of them only; the other is told both shas, and that the version is taken."""
    repo = "lab/overtaken"
    hub.api.create_repo(repo, repo_type="dataset")
    late: list[Ended] = []

    class Overtaking(FaultProxy):
        def arrive(self, method: str, path: str) -> tuple[int, Fault | None]:
            if "/tag/" in path and not late:
                late.append(race.again(repo, other))
            return super().arrive(method, path)

    with Overtaking(race.running.url) as proxy, race.pool.one() as forks:
        first = forks.push(built, repo, proxy.url, race.running.token)
    assert late[0].status == 0, "it published on top of a commit that had no tag yet"
    assert first.status == 1
    assert first.output
    commit = held(repo).complete(other, commits=3)
    below = held(repo).commits[1]
    assert commit in first.output["error"]
    assert below in first.output["error"]
    assert "raise the version" in first.output["next"]
