"""How far batches are, and stopping them."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_reward_models.builders.generate.batches.ledger import Ledger
from action_reward_models.builders.generate.batches.status import cancel, known_status, status
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.tests.builders.generate.batches.scenes import (
    Questions,
    Waits,
    collected,
    outcomes,
    server_of,
    spent,
    states,
    submitted,
)
from action_reward_models.tests.servers.stand_in import BatchScript, Fault, Script, StandIn


def test_status_asks_about_open_batches_and_changes_nothing_else(tmp_path: Path) -> None:
    work = Questions(tmp_path, 6)
    with StandIn(Script(batch=BatchScript(polls=(1, 1, 1)))) as stand_in:
        server = server_of(stand_in, requests=3)
        assert status(work, server).batches == ()
        assert stand_in.counts()["batch"] == 0
        submitted(work, server)
        said = []
        for _ in range(5):
            found = status(work, server, sleep=Waits())
            said.append([standing.batch.status for standing in found.batches])
        assert said == [[word] * 2 for word in ("validating", "in_progress", "finalizing", "completed", "completed")]
        assert (found.to_collect, found.requests) == (2, {"asked": 6})
        standing = found.batches[0]
        assert (standing.batch.completed, standing.batch.failed, standing.expires_in_s) == (3, 0, None)
        assert 0 <= standing.age_s < 60
        assert stand_in.counts()["content"] == 0
        collected(work, server)
        looks = stand_in.counts()["batch"]
        assert status(work, server).requests == {"answered": 6}
        assert stand_in.counts()["batch"] == looks  # of what has ended nothing is asked


def test_the_time_that_is_left_is_told(tmp_path: Path) -> None:
    work = Questions(tmp_path, 1)
    with StandIn() as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        (standing,) = status(work, server).batches
    assert standing.expires_in_s == pytest.approx(86_400, abs=60)
    assert known_status(work).batches[0].batch == standing.batch  # without asking


def test_one_that_the_service_does_not_know_is_told(tmp_path: Path) -> None:
    work = Questions(tmp_path, 1)
    with StandIn() as first:
        submitted(work, server_of(first))
    with StandIn() as other:
        (standing,) = status(work, server_of(other), sleep=Waits()).batches
        assert standing.problem.startswith("404")
        with pytest.raises(ArmError, match="404"):  # all of them: perhaps it is the wrong service
            cancel(work, server_of(other), sleep=Waits())
        done = cancel(work, server_of(other), [1], sleep=Waits())
    assert (done.lost, done.batches) == ((1,), ())
    assert outcomes(work) == states(work) == {"missing": 1}


def test_a_service_that_is_gone_is_told(tmp_path: Path) -> None:
    work = Questions(tmp_path, 1)
    with StandIn() as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
    waits = Waits()
    with pytest.raises(ArmError, match="no answer in 4 tries"):
        status(work, server, sleep=waits)
    assert len(waits) == 3
    assert waits[0] < waits[2] < 60


def test_what_a_server_asks_to_wait_is_waited_up_to_a_minute(tmp_path: Path) -> None:
    work, waits = Questions(tmp_path, 1), Waits()
    faults = (
        Fault("429", on="batch", numbers=(1,), retry_after=7),
        Fault("503", on="batch", numbers=(2,), retry_after=10_000),
        Fault("503", on="batch", numbers=(3,), retry_after=5, retry_date=True),
    )
    with StandIn(Script(faults=faults)) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        status(work, server, sleep=waits)
    assert waits[:2] == [7.0, 60.0]
    assert 3 <= waits[2] <= 6


def test_cancelled_batches_are_collected_as_far_as_they_came(tmp_path: Path) -> None:
    work = Questions(tmp_path, 8)
    with StandIn(Script(batch=BatchScript(polls=(0, 9, 0), done=0.25))) as stand_in:
        server = server_of(stand_in, requests=4, price=True)
        submitted(work, server)
        with pytest.raises(UsageError, match="no batch 7 is open at 'teacher'; open: 1, 2"):
            cancel(work, server, [7])
        done = cancel(work, server, [2])
        assert [(s.batch.number, s.batch.status) for s in done.batches] == [(2, "cancelling")]
        assert submitted(work, server).asked == 0  # it may still answer
        found = collected(work, server, looks=1)
        assert (found.batches, found.outcomes) == ([2], {"answered": 1, "expired": 3})
        assert [s.batch.number for s in cancel(work, server).batches] == [1]
        collected(work, server)
        assert states(work) == {"answered": 2, "expired": 6}
        assert spent(work).reserved_usd == 0
        assert cancel(work, server).batches == ()


def test_one_that_ended_meanwhile_is_no_error(tmp_path: Path) -> None:
    work = Questions(tmp_path, 2)
    with StandIn(Script(batch=BatchScript(polls=(0, 0, 0)))) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        status(work, server)
        assert [s.batch.status for s in cancel(work, server, sleep=Waits()).batches] == ["completed"]
        assert collected(work, server).outcomes == {"answered": 2}


@pytest.mark.parametrize("listed", [True, False])
def test_one_that_was_never_created_is_not_asked(listed: bool, tmp_path: Path) -> None:
    """Where the service has no list, whoever names the batch says so."""
    work = Questions(tmp_path, 2)
    faults = (Fault("500", on="batches"), *(() if listed else (Fault("404", on="batches_list"),)))
    with StandIn(Script(faults=faults)) as stand_in:
        server = server_of(stand_in, price=True)
        with pytest.raises(ArmError):
            submitted(work, server)
        if not listed:
            with pytest.raises(ArmError, match="does not say so"):
                cancel(work, server)
        assert cancel(work, server, [1]).never_created == (1,)
        stand_in.change(Script())
        assert submitted(work, server).batches == [2]
        assert Ledger(tmp_path).batch(1).stage == "refused"
        assert spent(work).batch_usd > 0
        collected(work, server)
        assert spent(work).reserved_usd == 0
