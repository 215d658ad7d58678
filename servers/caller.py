"""One live request, whatever the servers do: the least busy of several URLs, back-off, and an outcome in the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..schemas.errors import ArmError
from .answers import Answer, answer_of, parsed, usage_of
from .endpoints import Server
from .requests import Request, encoded
from .words import retry_after, words

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

TRIES = 6  # of one request, at whatever URLs
LONGEST_WAIT_S = 300.0  # that a server may ask for
_FIRST_WAIT_S, _LONGEST_OWN_WAIT_S = 1.0, 60.0
_REST_S = 5.0  # that a URL where nobody listens is left alone, twice as long each time, up to 80 s
_ROUNDS = 4  # so often in a row, at every URL, and the server counts as gone
_SILENCE_S = 60.0  # between two notices
_NO_USE = {401, 403, 404}  # answers to the key or the address, which the next request shares
_TRANSIENT = {408, 409, 425, 429}  # and 5xx
_UNSURE = {408, 502, 504, 524}  # behind these a model may have worked to its end


Notice = Callable[[str], None]


class Clock:
    """Time, so that tests need not wait for it."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Purse(Protocol):
    """What pays for requests: it is asked before each is sent, and told what became of it."""

    def reserve(self, request: Request) -> int | None:
        """A reservation for what it costs at most; None where there is no room for that."""

    def settle(self, reservation: int, usage: Mapping[str, Any] | None) -> object:
        """It was sent, and the server counted ``usage``; None: it did not say."""

    def release(self, reservation: int) -> object:
        """It was not sent, or cost nothing."""


class Unmetered:
    """A purse that lets everything pass and counts nothing, for models that are asked once for each action."""

    def reserve(self, request: Request) -> int:
        return 0

    def settle(self, reservation: int, usage: Mapping[str, Any] | None) -> None:
        pass

    def release(self, reservation: int) -> None:
        pass


@dataclass(frozen=True)
class Said:
    """What came of one request. sent: how often it was sent. hopeless: every other request would be refused alike.
    capped: the cap does not allow to send it (again); without ``answer``, it was not sent at all."""

    answer: Answer | None
    sent: int
    hopeless: bool = False
    capped: bool = False


@dataclass
class Place:
    """One URL: how busy it is, and whether it is left alone for a while."""

    url: str
    client: AsyncOpenAI
    busy: int = 0
    rests_until: float = 0.0
    refused: int = 0  # rounds in which nobody listened there
    why: str = ""


@dataclass(frozen=True)
class _Attempt:
    """outcome None: worth another try. wait_s: as the server asks. billed: may have been. usage: as counted there."""

    outcome: Answer | None
    why: str = ""
    wait_s: float | None = None
    billed: bool = True
    usage: Mapping[str, Any] | None = None
    hopeless: bool = False
    elsewhere: bool = False  # nobody listens at this URL; not the request's fault


@dataclass
class Caller:
    """Sends requests to the URLs of one server; use it in an ``async with``.

    in_flight: most at once for each URL. notice: is told, now and then, why something is sent again.
    engine, engine_version: of what serves, for the answers; ``probe`` finds them.
    """

    server: Server
    model: str
    purse: Purse
    in_flight: int
    clock: Clock = field(default_factory=Clock)
    notice: Notice = lambda words: None
    engine: str | None = None
    engine_version: str | None = None
    places: list[Place] = field(default_factory=list)
    _silent_until: float = float("-inf")

    async def __aenter__(self) -> Self:
        from .clients import async_client

        self._stack = AsyncExitStack()
        self._freed, self._settled, self._reserved = asyncio.Condition(), asyncio.Condition(), 0
        server = replace(self.server, in_flight=self.in_flight)
        self.engine, self.engine_version = server.engine, server.engine_version
        for url in server.urls:
            client = await self._stack.enter_async_context(async_client(server, url))
            self.places.append(Place(url, client))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def capacity(self) -> int:
        return self.in_flight * len(self.places)

    async def ask(self, request: Request) -> Said:
        """Send it until it has an outcome. Raises ArmError when nobody listens at any URL any more."""
        body, n = encoded(request.wire()), int(request.body.get("n") or 1)
        sent, tries, why = 0, 0, ""
        while True:
            reservation = await self._reserve(request)
            if reservation is None:
                answer = self._failed(request, why) if sent else None
                return Said(answer, sent, capped=True)
            attempt = _Attempt(None, billed=False)
            try:
                place = await self._place()
                sent, attempt = sent + 1, _Attempt(None)  # an interrupt from here on leaves it open what it cost
                try:
                    attempt = await self._attempt(place, request, body, n)
                finally:
                    await self._free(place)
            finally:
                if attempt.billed:
                    self.purse.settle(reservation, attempt.usage)
                else:
                    self.purse.release(reservation)
                await self._returned()
            if attempt.outcome is not None:
                return Said(attempt.outcome, sent, attempt.hopeless)
            why = attempt.why
            self._tell(place, why)
            if attempt.elsewhere:
                self._put_aside(place, why)
                continue
            tries += 1
            if tries == TRIES or (attempt.wait_s or 0.0) > LONGEST_WAIT_S:
                return Said(self._failed(request, f"{why}; {tries} tries"), sent)
            await self.clock.sleep(_wait(tries, attempt.wait_s))

    def _tell(self, place: Place, why: str) -> None:
        if (now := self.clock.now()) >= self._silent_until:
            self._silent_until = now + _SILENCE_S
            self.notice(f"{place.url}: {why}; such requests are sent again")

    def _failed(self, request: Request, why: str) -> Answer:
        return Answer(
            request.key, request.slot, "failed", detail=why, engine=self.engine, engine_version=self.engine_version
        )

    async def _attempt(self, place: Place, request: Request, body: bytes, n: int) -> _Attempt:
        import httpx2
        import openai

        try:
            async with asyncio.timeout(self.server.timeout_s):
                response = await place.client.post("/chat/completions", content=body, cast_to=httpx2.Response)
        except openai.APIStatusError as error:
            return self._refused(request, error)
        except (TimeoutError, openai.APIConnectionError) as error:
            cause = error.__cause__
            if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
                return _Attempt(None, f"no connection ({_named(cause)})", billed=False, elsewhere=True)
            if isinstance(error, TimeoutError | openai.APITimeoutError):
                return _Attempt(None, f"no reply within {self.server.timeout_s:g} s")
            return _Attempt(None, f"the connection was lost ({_named(cause or error)})")
        place.refused, place.why = 0, ""
        try:
            data = parsed(response.content)
        except ValueError:
            return _Attempt(None, f"the reply is no JSON: {words(response.content[:200])}")
        answer = answer_of(request.key, request.slot, data, n=n, engine=self.engine, engine_version=self.engine_version)
        return _Attempt(answer, usage=usage_of(data))

    def _refused(self, request: Request, error: APIStatusError) -> _Attempt:
        """The outcome of a status that is no success."""
        status, response = error.status_code, error.response
        why = f"{status}: {words(response.content)}"
        exhausted = status == 429 and b"insufficient_quota" in response.content  # which no waiting brings back
        if (status in _TRANSIENT or status >= 500) and not exhausted:
            return _Attempt(
                None, why, wait_s=retry_after(response.headers.get("retry-after")), billed=status in _UNSURE
            )
        if 300 <= status < 400:
            why = f"{status}: a redirect, which is not followed"
        rejected = replace(self._failed(request, why), outcome="rejected")
        return _Attempt(rejected, billed=False, hopeless=status in _NO_USE or exhausted or status < 400)

    # -- money ---------------------------------------------------------------------------------------------------------

    async def _reserve(self, request: Request) -> int | None:
        """None: the cap has no room for it, also when everything that is under way has been counted."""
        while (reservation := self.purse.reserve(request)) is None:
            if not self._reserved:
                return None
            async with self._settled:  # most answers cost less than they might have
                if self._reserved:  # else the last one came back meanwhile
                    await self._settled.wait()
        self._reserved += 1
        return reservation

    async def _returned(self) -> None:
        self._reserved -= 1
        async with self._settled:
            self._settled.notify(1 if self._reserved else self.in_flight * len(self.places))

    # -- places --------------------------------------------------------------------------------------------------------

    async def _place(self) -> Place:
        """The least busy URL, once one is free."""
        while True:
            now = self.clock.now()
            awake = [place for place in self.places if place.rests_until <= now]
            if free := [place for place in awake if place.busy < self.in_flight]:
                place = min(free, key=lambda place: place.busy)
                place.busy += 1
                return place
            if awake:
                async with self._freed:
                    if all(place.busy >= self.in_flight for place in awake):  # none was freed meanwhile
                        await self._freed.wait()
            else:
                await self.clock.sleep(min(place.rests_until for place in self.places) - now)

    async def _free(self, place: Place) -> None:
        place.busy -= 1
        async with self._freed:
            self._freed.notify()

    def _put_aside(self, place: Place, why: str) -> None:
        """Nobody listens there: the others are asked meanwhile. Raises ArmError when it is so everywhere, for long."""
        now = self.clock.now()
        if place.rests_until > now:  # another request of this round said so
            return
        place.rests_until = now + _REST_S * (1 << min(place.refused, _ROUNDS))
        place.refused, place.why = place.refused + 1, why
        if all(place.refused >= _ROUNDS for place in self.places):
            raise unreachable(self.server, self.places)


def unreachable(server: Server, places: list[Place]) -> ArmError:
    reasons = "; ".join(f"{place.url}: {place.why}" for place in places)
    advice = f"start the server, or correct the urls of {server.name!r} in endpoints.yaml; what was answered is kept"
    return ArmError(f"no URL of the server {server.name!r} answers: {reasons}", where=server.where, next_command=advice)


def _wait(tries: int, asked: float | None) -> float:
    """Seconds before the next try, scattered so that all do not come back at once."""
    own = min(_LONGEST_OWN_WAIT_S, _FIRST_WAIT_S * (1 << (tries - 1)))
    return max(own, asked or 0.0) * random.uniform(1.0, 1.25)  # noqa: S311


def _named(error: BaseException) -> str:
    return words(f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
