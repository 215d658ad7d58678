"""A publisher behind a script of random faults: it ends well or says why, and the next one ends well."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.tests.faults.proxy import FaultProxy
from action_reward_models.tests.faults.script import random_script
from action_reward_models.tests.hub_sync.faults.forks import Pool
from action_reward_models.tests.hub_sync.faults.hold import Held

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Running

LONGEST_S = 60  # of one publication; the client itself waits up to 8 s between its tries


@pytest.fixture
def scripted(
    running: Running, built: Path, held: Callable[[str], Held], pools: Callable[[bool], Pool]
) -> Callable[[Sequence[int]], None]:
    """Runs the scripts of some seeds, several at a time; odd seeds use Xet."""

    def run(seed: int) -> int:
        repo, rules = f"lab/script-{seed}", random_script(seed, requests=50)
        with pools(bool(seed % 2)).one() as forks:
            started = time.monotonic()
            with FaultProxy(running.url, rules) as proxy:
                first = forks.push(built, repo, proxy.url, running.token)
            took = time.monotonic() - started
            again = forks.push(built, repo, running.url, running.token)
        story = f"seed {seed}: {rules}\n{first}\n{again}"
        assert took < LONGEST_S, story
        assert first.status in (0, 1), story
        assert "Traceback" not in first.errors, story
        assert first.output, story
        if first.status:
            assert first.output["error"], story
            assert first.output["where"], story
            assert first.output["next"], story
        assert again.status == 0, story
        try:
            held(repo).complete(built)
        except AssertionError as error:
            raise AssertionError(story) from error
        return first.status

    def run_all(seeds: Sequence[int]) -> None:
        pools(False), pools(True)
        with ThreadPoolExecutor(pools(True).size) as threads:
            failed = sum(threads.map(run, seeds))
        assert failed <= len(seeds) / 4, "most faults pass without a person"

    return run_all


def test_a_few_scripts(scripted: Callable[[Sequence[int]], None]) -> None:
    scripted(range(4))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_scripts(scripted: Callable[[Sequence[int]], None]) -> None:
    scripted(range(4, 100))
