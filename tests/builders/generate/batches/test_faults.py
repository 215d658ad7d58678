"""Labels through batches of which everything goes wrong: each request has one outcome, and what is missing is asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from action_reward_models.builders.generate.batches.collect import Collected
from action_reward_models.builders.generate.batches.ledger import Ledger
from action_reward_models.builders.generate.log import SHARDS, AnswerLog
from action_reward_models.schemas.errors import ArmError
from action_reward_models.servers.endpoints import Server
from action_reward_models.tests.builders.generate.batches.scenes import (
    Questions,
    collected,
    outcomes,
    server_of,
    spent,
    states,
    submitted,
)
from action_reward_models.tests.servers.stand_in import BatchScript, Fault, Script, StandIn

ROWS = ("drop", "repeat", "repeat_other", "both", "unknown", "expired", "garbage", "no_choices", "400", "429", "500")
# Of one in twenty requests each. The ends of batches come in turn, so that of twenty batches one has each.
ENDS = ("completed", "expired", "cancelled", "failed", "no_output", "no_files")
FAULTS = (
    Fault("429", on="batches", numbers=(2,)),  # enqueued tokens
    Fault("500", on="batches", numbers=(4,)),
    Fault("500", on="batches", numbers=(6,), after=True),
    Fault("503", on="files", rate=0.05),
    Fault("drop", on="batches", numbers=(9,), after=True),
    Fault("truncate", on="content", rate=0.05),
    Fault("cut", on="content", rate=0.05),
    Fault("html", on="content", rate=0.05),
    Fault("drop", on="batch", rate=0.05),
    Fault("429", on="batch", rate=0.05, retry_after=0),
    Fault("html", on="batch", rate=0.05),
)


def everything() -> Script:
    """Of the first twenty batches, fifteen end well, the others each in another way."""
    ends = tuple(ENDS[i // 3] if i % 3 == 2 and i < 18 else "completed" for i in range(20))
    rows = dict.fromkeys(ROWS, 0.05)
    batch = BatchScript(polls=(0, 0, 0), rows=rows, ends=(*ends, "completed"), final_newline=False, blank_lines=True)
    return Script(batch=batch, faults=FAULTS)


def until_all_are_answered(work: Questions, stand_in: StandIn, size: int) -> Counter[str]:
    """Submit and collect in turn, as a user does; every time, all requests are accounted for."""
    server = server_of(stand_in, price=True, requests=size)
    seen: Counter[str] = Counter()
    for _ in range(12):
        before = outcomes(work)["answered"]
        asked_before = rows_asked(work)
        for _ in range(4):
            try:
                done = submitted(work, server)
            except ArmError:
                continue  # the service was gone; nothing is lost
            if not done.stopped:
                break
        open_now = states(work).get("asked", 0)
        assert open_now == work.total() - before  # only what is missing, and all of it
        found = collected_all(work, server)
        named = states(work)
        assert sum(named.values()) == work.total()
        assert "asked" not in named
        assert found.outcomes.total() == rows_asked(work) - asked_before  # of each batch, each request once
        in_log = outcomes(work)
        assert in_log.total() + named.get("not_asked", 0) >= work.total()
        assert in_log["answered"] == named["answered"]
        seen.update(found.outcomes)
        seen.update({f"odd {name}": names.count for name, names in vars(found.odd).items()})
        if named == {"answered": work.total()}:
            return seen
    raise AssertionError(f"not all were answered: {states(work)}")


def collected_all(work: Questions, server: Server) -> Collected:
    """Until nothing is open, however often the service is gone."""
    done = Collected()
    for _ in range(20):
        try:
            found = collected(work, server, looks=1)
        except ArmError:
            continue
        done.outcomes.update(found.outcomes)
        done.odd.extend(found.odd)
        if not found.open:
            return done
    raise AssertionError("batches stay open")


def rows_asked(work: Questions) -> int:
    """In batches that the service had."""
    return sum(batch.requests for batch in Ledger(work.folder).batches() if batch.batch_id)


def check(work: Questions, stand_in: StandIn, seen: Counter[str]) -> None:
    assert {name for name, count in seen.items() if count} >= {
        "answered", "rejected", "failed", "expired", "missing", "not_asked",
        "odd repeated", "odd conflicting", "odd unknown", "odd unreadable",
    }  # fmt: skip
    log = AnswerLog(work.folder)
    answers = {key: answer for shard in range(SHARDS) for key, answer in log.shard(shard).items()}
    assert set(answers) == work.keys()
    assert all(answer.outcome == "answered" and len(answer.choices) == 1 for answer in answers.values())
    # Every batch that the service made is known, so that none was paid for and forgotten.
    ledger = Ledger(work.folder)
    assert {batch["id"] for batch in stand_in.batches()} == {b.batch_id for b in ledger.batches() if b.batch_id}
    assert spent(work).reserved_usd == 0
    counts = stand_in.counts()
    assert all(counts[f"fault:{kind}"] for kind in ("429", "500", "503", "drop", "truncate", "cut", "html")), counts


def test_some_hundred_labels_through_every_fault(tmp_path: Path) -> None:
    work = Questions(tmp_path, 300)
    with StandIn(replace(everything(), faults=tuple(replace(f, rate=min(1, 4 * f.rate)) for f in FAULTS))) as stand_in:
        check(work, stand_in, until_all_are_answered(work, stand_in, 15))


@pytest.mark.slow
def test_ten_thousand_labels_through_every_fault(tmp_path: Path) -> None:
    """Must hold for 5 % of each fault: answered and named outcomes are what was asked, until all are answered."""
    work = Questions(tmp_path, 10_000)
    with StandIn(everything()) as stand_in:
        check(work, stand_in, until_all_are_answered(work, stand_in, 500))
