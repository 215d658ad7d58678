"""A whole run: what is asked, what is counted, when it stops."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from action_reward_models.builders.generate import run
from action_reward_models.builders.generate.log import SHARDS, AnswerLog, shard_of
from action_reward_models.builders.generate.run import REFUSALS, Ran
from action_reward_models.builders.generate.spend import Purse
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers import caller
from action_reward_models.servers.answers import Answer
from action_reward_models.servers.endpoints import Price
from action_reward_models.tests.builders.generate.toy import FastClock, ToyWork, served
from action_reward_models.tests.servers.stand_in import Script, StandIn
from action_reward_models.tests.servers.stand_in.script import Fault

PRICE = Price(1.0, 2.0)


def ran(work: ToyWork, server: StandIn, **options: object) -> Ran:
    given = {"in_flight": 4, "clock": FastClock(), **options}
    return run.run(work, served(server.url, prices={"stand-in": PRICE}), work.model, **given)  # type: ignore[arg-type]


def held(work: ToyWork) -> dict[str, Answer]:
    log = AnswerLog(work.folder)
    return {key: answer for shard in range(SHARDS) for key, answer in log.shard(shard).items()}


def test_everything_is_asked_once(server: StandIn, tmp_path: Path) -> None:
    work, told = ToyWork(tmp_path / "log", 20, 3), list[tuple[str, int, int]]()
    first = ran(work, server, progress=lambda *words: told.append(words))
    assert first == Ran(60, answered=60, sent=60)
    assert first.not_asked == 0
    assert told == [("asking", done, 60) for done in range(1, 61)]
    assert server.counts()["most_in_flight"] <= 4
    assert {request.key for request in work.requests()} == set(held(work))
    for request in work.requests():
        assert request.key in AnswerLog(work.folder).shard(shard_of(request.group))
    before = dict(server.counts())
    assert ran(work, server) == Ran(60, already=60)
    assert server.counts() == before, "nothing is sent, not even a look"


def test_what_failed_or_was_refused_is_asked_again(server: StandIn, tmp_path: Path) -> None:
    faults = Fault("500", contains="state/1 "), Fault("400", contains="state/2 ", message="too long")
    server.change(Script(faults=faults))
    work = ToyWork(tmp_path, 6)
    first = ran(work, server)
    assert (first.answered, first.rejected, first.failed, first.stop) == (8, 2, 2, None)
    assert first.sent == 8 + 2 + 2 * caller.TRIES
    assert Counter(answer.detail for answer in held(work).values()) == {
        "": 8, "400: too long": 2, f"500: this went wrong by script; {caller.TRIES} tries": 2,
    }  # fmt: skip
    server.change(Script())
    second = ran(work, server)
    assert (second.already, second.answered, second.sent) == (8, 4, 4)
    assert {answer.outcome for answer in held(work).values()} == {"answered"}


@pytest.mark.parametrize("faults", [("429", "drop"), ("503", "html"), ("cut", "truncate")])
def test_a_server_that_errs_now_and_then_loses_nothing(
    faults: tuple[str, str], server: StandIn, tmp_path: Path
) -> None:
    undisturbed, disturbed = ToyWork(tmp_path / "a", 20), ToyWork(tmp_path / "b", 20)
    ran(undisturbed, server)
    server.change(Script(faults=tuple(Fault(kind, rate=0.2) for kind in faults)))
    second = ran(disturbed, server)
    assert second.answered == 40
    assert second.sent > 40
    assert held(disturbed) == held(undisturbed)


def test_a_cap_ends_it_and_is_not_passed(server: StandIn, tmp_path: Path) -> None:
    """What is under way holds the most that it may cost, and is waited for before the cap counts as reached."""
    free, work = ToyWork(tmp_path / "free", 20), ToyWork(tmp_path / "capped", 20)
    ran(free, server)
    with Purse(free.folder, PRICE) as purse:
        whole = purse.spent_usd
        purse.reserve(next(work.requests()))
        bound, cap = purse.reserved_usd, whole * 0.7
    assert bound < cap < 4 * bound, "four at once have no room"
    capped = ran(work, server, cap_usd=cap)
    assert capped.stop == "cap"
    assert 0 < capped.answered < 40
    assert capped.not_asked == 40 - capped.answered
    with Purse(work.folder, PRICE) as purse:
        assert cap - bound < purse.spent_usd <= cap
        assert purse.reserved_usd == 0
    assert ran(work, server).answered == capped.not_asked


def test_a_limit_ends_it(server: StandIn, tmp_path: Path) -> None:
    work = ToyWork(tmp_path, 20)
    limited = ran(work, server, limit=7)
    assert (limited.answered, limited.not_asked, limited.stop) == (7, 33, "limit")
    assert server.counts()["chat"] == 7
    assert ran(work, server, limit=33) == Ran(40, 7, 33, sent=33)


def test_refusals_end_it_early(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault("400", message="no such parameter"),)))
    work = ToyWork(tmp_path, 100)
    refused = ran(work, server)
    assert refused.stop == "refused"
    assert REFUSALS <= refused.rejected < REFUSALS + 4
    assert Counter(answer.detail for answer in held(work).values()) == {"400: no such parameter": refused.rejected}
    assert refused.not_asked == 200 - refused.rejected


def test_refusals_between_successes_do_not(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault("400", rate=0.5),)))
    mixed = ran(ToyWork(tmp_path, 100), server)
    assert mixed.stop is None
    assert mixed.rejected > REFUSALS
    assert mixed.answered + mixed.rejected == 200


@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_one_refusal_of_key_or_address_is_enough(status: str, server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault(status),)))
    refused = ran(ToyWork(tmp_path, 100), server)
    assert refused.stop == "refused"
    assert server.counts()["chat"] <= 4


def test_a_server_that_only_fails_is_not_asked_for_ever(server: StandIn, tmp_path: Path) -> None:
    server.change(Script(faults=(Fault("500"),)))
    failed = ran(ToyWork(tmp_path, 40), server)
    assert failed.stop == "refused"
    assert failed.failed < 30


def test_what_another_process_asks_is_left_to_it(server: StandIn, tmp_path: Path) -> None:
    work = ToyWork(tmp_path, 20)
    theirs = shard_of("state/3")
    expected = sum(1 for request in work.requests(theirs))
    with AnswerLog(tmp_path).claim(theirs):
        mine = ran(work, server)
    assert (mine.stop, mine.not_asked, mine.answered) == ("elsewhere", expected, 40 - expected)
    assert ran(work, server).answered == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_under_way(number: int, server: StandIn, tmp_path: Path) -> None:
    server.change(Script(latency_s=0.02))
    work = ToyWork(tmp_path, 40)

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 10:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    stopped = ran(work, server, progress=interrupt)
    assert signal.getsignal(number) is before
    assert stopped.stop == "interrupt"
    assert 10 <= stopped.answered <= 18
    assert server.counts()["chat"] == stopped.answered == len(held(work))
    assert ran(work, server).answered == 80 - stopped.answered


def test_an_interrupt_does_not_wait_for_what_hangs(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GRACE_S", 0.05)
    server.change(Script(faults=(Fault("hang", contains="state/0 "),)))

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 38:
            os.kill(os.getpid(), signal.SIGINT)

    work = ToyWork(tmp_path, 20)
    stopped = ran(work, server, progress=interrupt)
    assert (stopped.stop, stopped.answered, stopped.not_asked) == ("interrupt", 38, 2)
    with Purse(tmp_path, PRICE) as purse:
        report = purse.report()
    assert (report.unsaid, report.reserved_usd) == (2, 0), "what hangs may be billed"
    server.disconnect()


def test_a_full_disk_is_an_error_and_the_log_stays_whole(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    work, write, calls = ToyWork(tmp_path, 20), os.write, [0]

    def full(handle: int, data: bytes) -> int:
        if b'"outcome"' not in bytes(data) and calls[0] < 5:
            return write(handle, data)
        calls[0] += 1
        if calls[0] > 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data)

    monkeypatch.setattr("action_reward_models.builders.generate.log.os.write", full)
    with pytest.raises(ArmError, match="the disk is full"):
        ran(work, server)
    monkeypatch.undo()
    assert len(held(work)) == 5
    assert ran(work, server).answered == 35


def test_a_damaged_log_stops_before_anything_is_sent(server: StandIn, tmp_path: Path) -> None:
    work = ToyWork(tmp_path, 1)
    ran(work, server)
    path = AnswerLog(tmp_path).path(shard_of("state/0"))
    path.write_bytes(b"oops\n" + path.read_bytes())
    server.reset()
    with pytest.raises(ArmError, match="damaged"):
        ran(work, server)
    assert server.counts()["chat"] == 0


def test_a_model_that_is_not_there_stops_before_anything_is_sent(server: StandIn, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no model 'other'"):
        ran(ToyWork(tmp_path, model="other"), server)
    assert server.counts()["chat"] == 0


def test_it_runs_where_a_loop_runs_already(server: StandIn, tmp_path: Path) -> None:
    async def cell() -> Ran:
        return ran(ToyWork(tmp_path), server)

    assert asyncio.run(cell()).answered == 8


def test_requests_are_made_as_they_are_taken(server: StandIn, tmp_path: Path) -> None:
    """None waits in memory for a place."""
    made, most = [0], [0]

    class Counting(ToyWork):
        def request(self, group: str, draw: int):  # type: ignore[no-untyped-def]
            made[0] += 1
            return super().request(group, draw)

    def progress(what: str, done: int, total: int) -> None:
        most[0] = max(most[0], made[0] - done)

    ran(Counting(tmp_path, 20, 10), server, progress=progress)
    assert made[0] == 200
    assert most[0] <= 4


# -- several processes -------------------------------------------------------------------------------------------------


def test_several_workers_share_the_work(server: StandIn, tmp_path: Path) -> None:
    work, told = ToyWork(tmp_path, 30), list[tuple[str, int, int]]()
    first = ran(work, server, limit=9)
    server.change(Script(latency_s=0.01))
    together = run.run_everywhere(
        work, served(server.url), "stand-in", workers=2, in_flight=4, progress=lambda *words: told.append(words)
    )
    assert (together.already, together.answered, together.sent) == (first.answered, 51, 51)
    assert (together.stop, together.not_asked) == (None, 0)
    assert server.counts()["chat"] == server.counts()["distinct:chat"] == 60
    assert all(what == "asking" and done <= total == 60 for what, done, total in told)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_shares_the_work(server: StandIn, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra [scale]: make test-all installs it")
    from action_reward_models.builders import cluster

    work = ToyWork(tmp_path, 100)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options) as local, cluster.connect(local.scheduler_address) as executor:
        done = run.run_everywhere(
            work, served(server.url), "stand-in", workers=executor.workers, executor=executor, in_flight=4, limit=150
        )
    assert (done.answered, done.not_asked, done.stop) == (150, 50, "limit")
    assert server.counts()["chat"] == 150
