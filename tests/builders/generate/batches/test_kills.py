"""A process that is killed at any point asks nothing twice, loses no answer, and no money."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.generate.batches import collect, downloads
from action_reward_models.builders.generate.batches.drafts import Draft
from action_reward_models.builders.generate.batches.ledger import Ledger
from action_reward_models.builders.generate.batches.service import Service
from action_reward_models.builders.generate.log import SHARDS, AnswerLog, Claim
from action_reward_models.builders.generate.spend import Purse
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
from action_reward_models.tests.servers.stand_in import BatchScript, Script, StandIn

COUNT = 12


def killed(function: Callable[[], object], owner: Any, name: str, call: int, *, after: bool) -> None:
    """Run ``function`` in a process that is killed before or after the n-th call of ``owner.name``."""
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, f"{name} was not called {call} times"
        return
    try:
        real, calls = getattr(owner, name), 0

        def once(*words: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            value = real(*words, **named)
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return value

        setattr(owner, name, once)
        function()
    finally:
        sys.stderr.flush()
        os._exit(1)


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    with StandIn(Script(batch=BatchScript(polls=(0, 0, 0)))) as server:
        yield server


@pytest.fixture(scope="module")
def undisturbed(stand_in: StandIn, tmp_path_factory: pytest.TempPathFactory) -> float:
    """What it costs."""
    work = Questions(tmp_path_factory.mktemp("undisturbed"), COUNT)
    server = server_of(stand_in, price=True, requests=5)
    submitted(work, server)
    collected(work, server)
    return spent(work).spent_usd


def ended(work: Questions, server: Server, stand_in: StandIn, before: int, cost_usd: float) -> None:
    """Go on as a user does, and compare with what nothing disturbed."""
    submitted(work, server)
    collected(work, server)
    assert states(work) == outcomes(work) == {"answered": COUNT}
    made = stand_in.batches()[before:]
    assert len({batch["id"] for batch in made}) == 3
    ids = [line for batch in made for line in stand_in.file(batch["input_file_id"]).split("\n")[:-1]]
    assert len(ids) == COUNT, "each request was sent in one batch"
    assert spent(work).reserved_usd == 0
    assert spent(work).spent_usd == pytest.approx(cost_usd)
    log = AnswerLog(work.folder)
    assert {key for shard in range(SHARDS) for key in log.shard(shard)} == work.keys()
    assert not list((work.folder / "batches").rglob("*input*"))
    assert not list((work.folder / "batches").rglob("*.part"))


@pytest.mark.parametrize(
    ("owner", "name", "call", "after"),
    [
        (Draft, "add", 1, False),
        (Draft, "add", 7, True),
        (Draft, "plan", 2, False),
        (Draft, "plan", 2, True),
        (Service, "upload", 1, True),
        (Service, "upload", 2, False),
        (Service, "create", 1, False),
        (Service, "create", 1, True),
        (Service, "create", 3, True),
        (Ledger, "note", 1, True),
        (Ledger, "note", 2, False),
        (Ledger, "note", 2, True),
        (Purse, "reserve", 8, True),
    ],
)
def test_while_it_submits(
    owner: type, name: str, call: int, after: bool, stand_in: StandIn, undisturbed: float, tmp_path: Path
) -> None:
    work, server = Questions(tmp_path, COUNT), server_of(stand_in, price=True, requests=5)
    before = len(stand_in.batches())
    killed(lambda: submitted(work, server), owner, name, call, after=after)
    ended(work, server, stand_in, before, undisturbed)


@pytest.mark.parametrize(
    ("owner", "name", "call", "after"),
    [
        (Ledger, "note", 1, False),
        (downloads, "_fetch", 1, True),
        (collect, "download", 1, True),
        (collect, "download", 2, False),
        (Claim, "append", 1, False),
        (Claim, "append", 4, True),
        (Purse, "settle", 1, False),
        (Purse, "settle", 7, True),
        (Ledger, "decide", 1, False),
        (Ledger, "decide", 2, True),
        (Ledger, "note", 2, True),
    ],
)
def test_while_it_collects(
    owner: Any, name: str, call: int, after: bool, stand_in: StandIn, undisturbed: float, tmp_path: Path
) -> None:
    work, server = Questions(tmp_path, COUNT), server_of(stand_in, price=True, requests=5)
    before = len(stand_in.batches())
    submitted(work, server)
    killed(lambda: collected(work, server), owner, name, call, after=after)
    ended(work, server, stand_in, before, undisturbed)


def test_again_and_again(stand_in: StandIn, undisturbed: float, tmp_path: Path) -> None:
    work, server = Questions(tmp_path, COUNT), server_of(stand_in, price=True, requests=5)
    before = len(stand_in.batches())
    for after in (False, True):
        killed(lambda: submitted(work, server), Draft, "plan", 1, after=after)
        killed(lambda: submitted(work, server), Service, "create", 1, after=True)
        killed(lambda: collected(work, server), collect, "write_down", 1, after=after)
    ended(work, server, stand_in, before, undisturbed)


def test_four_processes_collect_at_once(stand_in: StandIn, undisturbed: float, tmp_path: Path) -> None:
    work, server = Questions(tmp_path, COUNT), server_of(stand_in, price=True, requests=5)
    before = len(stand_in.batches())
    submitted(work, server)
    children = []
    for _ in range(4):
        if child := os.fork():
            children.append(child)
            continue
        try:
            collected(work, server)
            os._exit(0)
        finally:
            os._exit(1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert sum(path.read_bytes().count(b"\n") for path in tmp_path.glob("shard-*.jsonl")) == COUNT
    ended(work, server, stand_in, before, undisturbed)
