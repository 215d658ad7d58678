"""Live requests: what has no answer is asked, and every answer is in the log before its place is taken by another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from ...servers.answers import Answer
from ...servers.caller import Caller, Clock, Notice, Said
from ...servers.clients import check_key
from ...servers.endpoints import Server
from ...servers.probe import probe
from ...servers.requests import Request
from ..executors import LostWorkersError, results
from .batches.ledger import Ledger
from .log import SHARDS, AnswerLog, Claim
from .spend import Purse
from .watching import Signals, Watch
from .work import Work

REFUSALS = 20  # so many in a row, without one success, and nothing more is sent
GRACE_S = 10.0  # that requests under way have after an interrupt

Progress = Callable[[str, int, int], None]  # ("asking", requests with an outcome, all requests)
# Why requests were not asked. elsewhere: other processes hold their shards, and are asking them.
Stop = Literal["cap", "limit", "interrupt", "refused", "elsewhere"]


@dataclass(frozen=True)
class Ran:
    """What one run did. Counts are requests, but for ``sent``, which counts every try.

    already: answered before. in_batches: not asked, because an open batch may still answer them. not_asked: none of
    that, and not asked now; ``stop`` says why. The servers' words stand in the log.
    """

    total: int
    already: int = 0
    answered: int = 0
    rejected: int = 0
    failed: int = 0
    sent: int = 0
    stop: Stop | None = None
    in_batches: int = 0

    @property
    def not_asked(self) -> int:
        known = self.already + self.in_batches + self.answered + self.rejected + self.failed
        return max(0, self.total - known)


def run(
    work: Work, server: Server, model: str, *, in_flight: int | None = None, cap_usd: float | None = None,
    limit: int | None = None, progress: Progress = lambda *_: None, notice: Notice = lambda words: None,
    clock: Clock | None = None,
) -> Ran:  # fmt: skip
    """Ask everything of ``work`` that has no answer and that no other process is asking.

    in_flight: most requests at once for each URL; None: as the server says. limit: of requests asked by this call.
    cap_usd: of all that was ever spent on this work. notice: is told, now and then, why something is sent again. SIGINT
    and SIGTERM end it in order: nothing new is sent, what comes back soon is kept. Raises UsageError for a model, key
    or price that is not there, and ArmError for a server that does not answer and a log or purse that cannot be
    written; what was answered until then is in the log.
    """
    check_key(server)
    in_flight = in_flight or server.in_flight
    run = _Run(work, server, model, in_flight, cap_usd, limit, progress, notice, clock or Clock())
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run.to_the_end())
    with ThreadPoolExecutor(1) as aside:  # this thread has a loop that runs, as in a notebook
        return aside.submit(asyncio.run, run.to_the_end()).result()


def run_everywhere(
    work: Work, server: Server, model: str, *, workers: int = 1, executor: Executor | None = None,
    in_flight: int | None = None, cap_usd: float | None = None, limit: int | None = None,
    progress: Progress = lambda *_: None,
) -> Ran:  # fmt: skip
    """``run`` in several local processes, or as ``workers`` tasks of an executor; ``in_flight`` is of each of them."""
    if workers == 1 and executor is None:
        return run(work, server, model, in_flight=in_flight, cap_usd=cap_usd, limit=limit, progress=progress)
    check_key(server)
    shares = [None if limit is None else limit // workers + (i < limit % workers) for i in range(workers)]
    task = partial(_share, work, server, model, in_flight, cap_usd)
    done: list[Ran] = []
    with Watch(work, progress):
        try:
            done += [ran for _, ran in results(task, shares, workers, executor)]
        except LostWorkersError as error:
            message = "a worker ended without a word; every answer that it had is kept"
            raise LostWorkersError(message, next_command="run the same command again") from error
    return _together(work, done)


def _share(
    work: Work, server: Server, model: str, in_flight: int | None, cap_usd: float | None, limit: int | None
) -> Ran:
    return run(work, server, model, in_flight=in_flight, cap_usd=cap_usd, limit=limit)


def _together(work: Work, done: list[Ran]) -> Ran:
    """The account of several runs that shared one work."""
    # What one of them answered, another may have found answered, so that their own counts of it do not add up.
    log, ledger = AnswerLog(work.folder), Ledger(work.folder)
    answers = in_batches = 0
    for shard in range(SHARDS):
        outcomes, pending = log.outcomes(shard), ledger.open_keys(shard)
        for request in work.requests(shard) if outcomes or pending else ():
            answers += (is_answered := outcomes.get(request.key) == "answered")
            in_batches += request.key in pending and not is_answered
    answered = sum(ran.answered for ran in done)
    stops = {ran.stop for ran in done}
    order: tuple[Stop, ...] = ("refused", "cap", "interrupt", "limit", "elsewhere")
    ran = Ran(
        done[0].total, max(0, answers - answered), answered, sum(ran.rejected for ran in done),
        sum(ran.failed for ran in done), sum(ran.sent for ran in done), in_batches=in_batches,
    )  # fmt: skip
    return replace(ran, stop=next((stop for stop in order if stop in stops), None)) if ran.not_asked else ran


@dataclass
class _Shard:
    """A claimed shard; it is let go when all of its requests that were taken have an outcome."""

    claim: Claim
    held: ExitStack
    under_way: int = 0
    taken_whole: bool = False

    def let_go_if_done(self) -> None:
        if self.taken_whole and not self.under_way:
            self.held.close()


@dataclass
class _Run:
    work: Work
    server: Server
    model: str
    in_flight: int
    cap_usd: float | None
    limit: int | None
    progress: Progress
    notice: Notice
    clock: Clock
    counts: Counter[str] = field(default_factory=Counter)
    stop: Stop | None = None
    error: BaseException | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    unlucky: int = 0  # refusals and failures since the last success

    async def to_the_end(self) -> Ran:
        self.total = self.work.total()
        price = self.server.prices.get(self.model)
        with ExitStack() as stack:
            purse = stack.enter_context(Purse(self.work.folder, price, self.cap_usd, model=self.model))
            self.claims = stack.enter_context(ExitStack())
            async with Caller(self.server, self.model, purse, self.in_flight, self.clock, self.notice) as self.caller:
                await self._ask_all()
        if self.error is not None:
            raise self.error
        count = self.counts
        ran = Ran(
            self.total, count["already"], count["answered"], count["rejected"], count["failed"], count["sent"],
            in_batches=count["in_batches"],
        )  # fmt: skip
        return replace(ran, stop=self.stop or "elsewhere") if ran.not_asked else ran

    async def _ask_all(self) -> None:
        todo = self._missing()
        first = next(todo, None)
        if first is None:
            return
        self.waiting = [first]
        with Signals(self._interrupted):
            await probe(self.caller)
            self.tasks = [asyncio.create_task(self._work(todo)) for _ in range(self.caller.capacity)]
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _work(self, todo: Iterator[tuple[_Shard, Request]]) -> None:
        """One request after the other, until there is none or a reason to stop."""
        try:
            while self.stop is None and self.error is None:
                if self.limit is not None and self.counts["asked"] >= self.limit:
                    self.stop = "limit"
                    return
                item = self.waiting.pop() if self.waiting else next(todo, None)
                if item is None:
                    return
                self.counts["asked"] += 1
                shard, request = item
                try:
                    self._note(shard.claim, await self.caller.ask(request))
                finally:
                    shard.under_way -= 1
                    shard.let_go_if_done()
        except Exception as error:  # what one of them meets, all would meet; it is raised when the others are back
            self._fail(error)

    def _note(self, claim: Claim, said: Said) -> None:
        self.counts["sent"] += said.sent
        if said.capped:
            self.stop = self.stop or "cap"
        if (answer := said.answer) is None:
            return
        claim.append(answer)
        self.counts[answer.outcome] += 1
        self._judge(answer, said.hopeless)
        done = sum(self.counts[name] for name in ("already", "answered", "rejected", "failed"))
        self.progress("asking", done, self.total)

    def _judge(self, answer: Answer, hopeless: bool) -> None:
        """Stop where the next request would fare no better."""
        if answer.outcome == "answered":
            self.unlucky = 0
            return
        self.unlucky += 1
        enough = REFUSALS if answer.outcome == "rejected" else max(REFUSALS, self.caller.capacity)
        if hopeless or self.unlucky >= enough:
            self.stop = self.stop or "refused"

    def _missing(self) -> Iterator[tuple[_Shard, Request]]:
        """What has no answer, of every shard that nobody else holds; those that somebody held are looked at again."""
        log, ledger, left = AnswerLog(self.work.folder), Ledger(self.work.folder), list(range(SHARDS))
        while left:
            busy: list[int] = []
            for number in left:
                held = ExitStack()
                claim = held.enter_context(log.claim(number))
                if claim is None:
                    busy.append(number)
                    continue
                self.claims.push(held)
                shard = _Shard(claim, held)
                pending = ledger.open_keys(number)
                for request in self.work.requests(number):
                    if claim.answers.get(request.key) == "answered":
                        self.counts["already"] += 1
                        continue
                    if request.key in pending:
                        self.counts["in_batches"] += 1
                        continue
                    shard.under_way += 1
                    yield shard, request
                shard.taken_whole = True
                shard.let_go_if_done()
            left = busy if len(busy) < len(left) else []

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self._end_soon()

    def _interrupted(self) -> None:
        """The first time: nothing new, and a while for what is under way. The second time: at once."""
        again, self.stop = self.stop == "interrupt", "interrupt"
        self._end_soon(0.0 if again else GRACE_S)

    def _end_soon(self, seconds: float = GRACE_S) -> None:
        asyncio.get_running_loop().call_later(seconds, self._cancel)

    def _cancel(self) -> None:
        for task in self.tasks:
            task.cancel()
