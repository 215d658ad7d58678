"""Requests asked live and in batches, of one work: each is asked one way."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.builders.generate.log import SHARDS, AnswerLog
from action_reward_models.builders.generate.run import run, run_everywhere
from action_reward_models.tests.builders.generate.batches.scenes import (
    MODEL,
    Questions,
    collected,
    outcomes,
    server_of,
    states,
    submitted,
)
from action_reward_models.tests.servers.stand_in import BatchScript, Script, StandIn


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_batch_may_still_answer_is_not_asked_live(workers: int, tmp_path: Path) -> None:
    work = Questions(tmp_path, 10)
    with StandIn(Script(batch=BatchScript(ends=("expired",)))) as stand_in:
        server = server_of(stand_in)
        submitted(work, server, limit=6)
        ran = run(work, server, MODEL) if workers == 1 else run_everywhere(work, server, MODEL, workers=workers)
        assert (ran.answered, ran.in_batches, ran.not_asked, ran.stop) == (4, 6, 0, None)
        assert stand_in.counts()["chat"] == 4
        assert collected(work, server).outcomes == {"answered": 3, "expired": 3}
        ran = run(work, server, MODEL)
        assert (ran.already, ran.answered, ran.in_batches) == (7, 3, 0)
        assert stand_in.counts()["chat"] == 7
        assert submitted(work, server).asked == 0
    assert outcomes(work) == {"answered": 10}
    assert states(work) == {"answered": 3, "expired": 3}  # of requests that ever stood in a batch


def test_answers_of_both_ways_are_alike(tmp_path: Path) -> None:
    live, batch = Questions(tmp_path / "live", 5, n=2), Questions(tmp_path / "batch", 5, n=2)
    with StandIn() as stand_in:
        server = server_of(stand_in)
        run(live, server, MODEL)
        submitted(batch, server)
        collected(batch, server)
    kept = [
        {
            key: (answer.slot, answer.outcome, answer.choices, answer.model, answer.usage)
            for shard in range(SHARDS)
            for key, answer in AnswerLog(work.folder).shard(shard).items()
        }
        for work in (live, batch)
    ]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 5
