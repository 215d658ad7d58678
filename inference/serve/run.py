"""Running the server: its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...schemas.errors import ArmError
from .app import HEADERS, Service, create_app

_CONNECTIONS = 900  # below the files that a process may have open on most systems
_IDLE_S = 75  # that a connection may lie unused; an agent acts now and then
_HEAD_S = 80  # after a connection is made, or an answer sent, in which the head of the next request has to be whole
_GRACE_S = 5  # for answers that are being sent when all are made
_BACKLOG = 512  # connections that the system keeps until they are taken


def serve(service: Service, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until SIGTERM or SIGINT; then take no more requests, finish those that are inside, and return. A second
    signal ends the process at once. ``ready`` is called once requests are answered."""
    with bound:
        if not asyncio.run(_run(service, bound, ready)):
            # The model is still at work for somebody who got a time-out: nobody waits for that.
            sys.stdout.flush()
            os._exit(0)


async def _run(service: Service, bound: socket.socket, ready: Callable[[], None]) -> bool:
    # Its warnings are about what clients send, which has a line in our log.
    config = uvicorn.Config(
        create_app(service), http=Connection, ws="none", loop="asyncio", lifespan="off", access_log=False,
        log_level="error", proxy_headers=False, server_header=False, h11_max_incomplete_event_size=HEADERS,
        limit_concurrency=_CONNECTIONS, timeout_keep_alive=_IDLE_S, timeout_graceful_shutdown=_GRACE_S,
        backlog=_BACKLOG,
    )  # fmt: skip
    server = _Server(config)
    service.engine.start()
    told = asyncio.Event()

    def tell(number: int) -> None:
        if told.is_set():
            os._exit(128 + number)
        service.engine.draining = True
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, tell, number)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    if server.started:
        ready()
    ending = asyncio.create_task(told.wait())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    ended = await service.engine.end()
    server.should_exit = True
    await serving
    return ended


class Connection(H11Protocol):
    """A connection that is ended when no request comes. uvicorn ends one on which nothing at all has come since the
    last answer: before the first one, and a byte at a time, clients would hold all connections for as long as they
    like, without any token."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(again=False)
        super().connection_lost(exc)

    def _wait(self, *, again: bool = True) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(_HEAD_S, self._end) if again else None

    def _end(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()  # also one that does not take the last answer


class _Server(uvicorn.Server):
    """A server whose end is ours: uvicorn would stop listening at the first signal, before those inside are answered,
    and raise it again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: any free one. Raises ArmError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # By its protocol asyncio knows that small answers must not wait for an acknowledgement (40 ms each).
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(_BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        advice = {
            errno.EADDRINUSE: "--port 0   # any free one",
            errno.EACCES: "--port 8000   # those below 1024 are the system's",
        }.get(error.errno or 0, "--host 127.0.0.1   # or another address of this machine")
        raise ArmError(
            f"cannot be listened on: {error.strerror}", where=f"{host}:{port}", next_command=advice
        ) from error
    return bound
