"""Running the server: its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from ...schemas.errors import ArmError
from .app import HEADERS, Service, create_app

_CONNECTIONS = 900  # below the files that a process may have open on most systems
_IDLE_S = 75  # that a connection may lie unused; an agent acts now and then
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
        create_app(service), http="h11", ws="none", loop="asyncio", lifespan="off", access_log=False,
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
        raise ArmError(
            f"cannot be listened on: {error.strerror}", where=f"{host}:{port}", next_command="--port 0   # any free one"
        ) from error
    return bound
