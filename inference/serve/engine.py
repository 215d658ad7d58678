"""Requests of many clients before one model: bounded, and answered several at once.

One thread owns the model. While it is busy, requests wait; what waits then is asked together, up to `Bounds.batch` of
them. A request has its place from before its body is read until it is answered, so that neither the queue nor the
bodies of those who wait can grow without bound.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..choice import Choice
from ..choosing import Chooser, How
from ..request import Request
from .errors import HttpError
from .metrics import Metrics

_FAILURES = 3  # in a row, after which the model counts as broken and not the requests
_LONGEST_RETRY_S = 120
_NEW = 0.2  # weight of the newest batch in the time that a request takes


@dataclass(frozen=True)
class Bounds:
    """batch: requests that are asked together at most. queue: further ones that may wait. timeout_s: seconds from the
    first byte of a request to its answer."""

    batch: int = 16
    queue: int = 64
    timeout_s: float = 60.0


class UnservedError(HttpError):
    """Nothing is wrong with the request, but it is not answered now. retry_after_s: when to ask again."""

    def __init__(self, message: str, *, code: str, retry_after_s: int, status: int = 503) -> None:
        headers = {"Retry-After": str(retry_after_s)}
        super().__init__(status, message, code=code, headers=headers)


class FailedError(HttpError):
    """The model failed; ``__cause__`` says how. What is wrong with a request has a name among `choice.STATUSES`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(500, "the model failed; the log of this server says why", code="model_failed")
        self.__cause__ = cause


@dataclass(frozen=True)
class Answered:
    """batch: how many requests were asked together with this one, which counts."""

    choice: Choice
    batch: int


@dataclass(eq=False)
class _Waiting:
    request: Request
    answer: asyncio.Future[Answered]
    alone: bool = False  # was in a batch that failed


@dataclass
class Engine:
    """A model and who waits for it; to be used in one event loop, between `start` and `end`."""

    model: Chooser
    how: How = field(default_factory=How)
    bounds: Bounds = field(default_factory=Bounds)
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False
    inside: int = 0  # requests that have a place, whatever is being done for them
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _failures: int = 0
    _request_s: float | None = None  # that one request takes in a batch, on average
    _busy: bool = False

    def start(self) -> None:
        """Begin to take requests."""
        self._arrived, self._left = asyncio.Event(), asyncio.Event()
        self._left.set()
        self._worker = ThreadPoolExecutor(1, "arm-model")
        self._task = asyncio.create_task(self._serve())

    async def end(self) -> bool:
        """Take no more requests; wait for those that have a place; end. False: the model is still at work on a request
        that nobody waits for any more."""
        self.draining = True
        await self._left.wait()
        self._task.cancel()
        self._worker.shutdown(wait=not self._busy)
        return not self._busy

    @property
    def failing(self) -> bool:
        """Whether the last requests all failed in a way that is not theirs."""
        return self._failures >= _FAILURES or self._task.done()

    @property
    def waiting(self) -> int:
        """Requests that could be asked and are not yet."""
        return len(self._waiting)

    def retry_after_s(self) -> int:
        """Seconds until a place should be free, at the rate of the last batches."""
        return min(_LONGEST_RETRY_S, max(1, math.ceil(self.inside * (self._request_s or 0.0))))

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one request. Raises UnservedError when there is none."""
        wait_s = self.retry_after_s()
        if self.draining:
            raise UnservedError("this server is about to end; ask another one", code="draining", retry_after_s=wait_s)
        if self.inside >= self.bounds.batch + self.bounds.queue:
            told = f"{self.inside} requests are waiting already; try again in {wait_s} s"
            raise UnservedError(told, code="queue_full", retry_after_s=wait_s)
        self.inside += 1
        self._left.clear()
        try:
            yield
        finally:
            self.inside -= 1
            if not self.inside:
                self._left.set()

    async def submit(self, request: Request) -> Answered:
        """The answer to ``request``, which has a place. When this is cancelled before the model was asked, it is never
        asked. Raises FailedError."""
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._arrived.set()
        try:
            return await waiting.answer
        finally:
            if waiting.answer.cancelled():
                self._waiting = deque(one for one in self._waiting if one.answer is not waiting.answer)

    async def _serve(self) -> None:
        while True:
            await self._arrived.wait()
            if not (batch := self._next()):
                self._arrived.clear()
                continue
            loop, began = asyncio.get_running_loop(), time.monotonic()
            self._busy = True
            found = await loop.run_in_executor(self._worker, self._ask, [one.request for one in batch])
            self._busy = False
            self._measure(len(batch), time.monotonic() - began)
            self._give(batch, found)

    def _next(self) -> list[_Waiting]:
        """Those to be asked now, first come, first served; whoever does not wait any more is dropped."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < self.bounds.batch:
            one = self._waiting[0]
            if one.alone and batch:
                break
            self._waiting.popleft()
            if not one.answer.done():
                batch.append(one)
                if one.alone:
                    break
        return batch

    def _ask(self, requests: Sequence[Request]) -> list[Choice] | Exception:
        """In the thread of the model."""
        try:
            found = self.model.choose_many(requests, self.how)
            if len(found) != len(requests):
                raise RuntimeError(f"{len(found)} answers to {len(requests)} requests")
            return found
        except Exception as error:  # whatever it is, it is the answer, and the next batch is asked
            return error

    def _give(self, batch: Sequence[_Waiting], found: list[Choice] | Exception) -> None:
        if isinstance(found, Exception):
            if len(batch) > 1:  # one of them is to blame, and the others must not suffer for it
                self._waiting.extendleft(_Waiting(one.request, one.answer, alone=True) for one in reversed(batch))
                return
            self._failures += 1  # what is wrong with a request is a status of its choice
            if not batch[0].answer.done():
                batch[0].answer.set_exception(FailedError(found))
            return
        self._failures = 0
        for one, choice in zip(batch, found, strict=True):
            if not one.answer.done():
                one.answer.set_result(Answered(choice, len(batch)))

    def _measure(self, count: int, seconds: float) -> None:
        self.metrics.batch(count, seconds)
        each = seconds / count
        self._request_s = each if self._request_s is None else (1 - _NEW) * self._request_s + _NEW * each
