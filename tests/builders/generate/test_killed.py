"""Runs killed again and again, and started again as two at once: nothing is lost, and little is asked twice."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.builders.generate import sets
from action_reward_models.builders.generate.log import SHARDS, AnswerLog
from action_reward_models.builders.generate.run import run
from action_reward_models.builders.generate.sampling import SampleWork
from action_reward_models.builders.generate.spec import Draws, SampleSpec
from action_reward_models.builders.generate.work import Work
from action_reward_models.tests import processes
from action_reward_models.tests.builders.generate.toy import ToyWork, served
from action_reward_models.tests.servers.stand_in import Script, StandIn

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

KNOWN = (
    "openai.resources.chat.completions", "httpx2", *(
        f"action_reward_models.{name}"
        for name in (
            "builders.generate.run", "builders.generate.sampling", "servers.transport",
            "tests.builders.generate.toy",
        )
    ),
)  # fmt: skip
# The stand-in answers equal bodies equally, so that a run does not show in its answers.
CODE = """
import sys
from pathlib import Path
from action_reward_models.builders.generate.run import run
from action_reward_models.builders.generate.sampling import SampleWork
from action_reward_models.builders.generate.spec import Draws, SampleSpec
from action_reward_models.tests.builders.generate.toy import ToyWork, served
url, in_flight, work = sys.argv[1:]
done = run(eval(work, globals() | {"PosixPath": Path}), served(url), "stand-in", in_flight=int(in_flight))
sys.exit(0 if done.stop in (None, "elsewhere") else 3)
"""


@dataclass(frozen=True)
class Killing:
    """Two processes at once, killed ``kills`` times, and then left alone."""

    work: Work
    server: StandIn
    kills: int
    in_flight: int

    def start(self) -> list[processes.Forked]:
        words = ["-c", self.server.url, str(self.in_flight), repr(self.work)]
        with Path(os.devnull).open("r+") as null:
            streams, cwd = (null.fileno(), null.fileno(), 2), Path(self.work.folder).parent
            return [
                processes.server(KNOWN).fork(CODE, words, env=dict(os.environ), cwd=cwd, streams=streams)
                for _ in range(2)
            ]

    def to_the_end(self) -> int:
        """How many requests the server received."""
        needed = self.work.total()
        for kill in range(self.kills):
            both = self.start()
            target = needed * (kill + 1) // (self.kills + 1)
            while self.server.counts()["chat"] < target:
                pass
            for one in both:
                one.kill()
            ends = [one.wait() for one in both]
            assert any(ends), "it was over before it was killed"
        assert [one.wait() for one in self.start()] == [0, 0]
        return self.server.counts()["chat"]


def lines(work: Work) -> list[str]:
    """Of the whole log, sorted. A line twice is a request asked and answered twice."""
    log = AnswerLog(work.folder)
    paths = [log.path(shard) for shard in range(SHARDS)]
    return sorted(line for path in paths if path.exists() for line in path.read_text("utf-8").split("\n") if line)


def test_killed_three_times_with_two_processes_at_once(tmp_path: Path) -> None:
    work, undisturbed = ToyWork(tmp_path / "log", 60, 5), ToyWork(tmp_path / "undisturbed", 60, 5)
    with StandIn(Script(latency_s=0.05)) as server:
        received = Killing(work, server, kills=3, in_flight=8).to_the_end()
        assert work.total() <= received <= work.total() + 3 * 2 * 8
        server.change(Script())
        run(undisturbed, served(server.url), "stand-in", in_flight=32)
    assert lines(work) == lines(undisturbed)
    assert len(lines(work)) == 300


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_forty_thousand_candidates_killed_ten_times(toy: Toy) -> None:
    """500 states x 16 draws x 5 candidates: the file of sets is that of a run that nothing disturbed."""
    for number in range(500):
        toy.page(f"page/{number}#..", picture=number)
    basis = toy.build(tables=("states",)).folder
    spec = SampleSpec("actor", "stand-in", (Draws(0.7, 12), Draws(1.0, 4)), 64, n=5)
    work = SampleWork(basis, spec, toy.folder / "disturbed" / "candidates.jsonl")
    undisturbed = replace(work, path=toy.folder / "undisturbed" / "candidates.jsonl")
    work.folder.mkdir(parents=True)
    assert work.total() == 500 * 16 * 5
    with StandIn(Script(latency_s=0.2), keep=10) as server:
        received = Killing(work, server, kills=10, in_flight=64).to_the_end()
        assert work.total() <= received <= work.total() + 10 * 2 * 64
        server.change(Script())
        run(undisturbed, served(server.url), "stand-in", in_flight=64)
    written = sets.write(work)
    assert sets.write(undisturbed) == written
    assert work.path.read_bytes() == undisturbed.path.read_bytes()
    assert len(work.path.read_bytes().splitlines()) == 500 * 16
