"""Running the hub: in this process, or as a process of its own; and whether one runs on a folder."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import uvicorn

from .folder import ServeError, holder, locked, make_private, require_hub_folder
from .store import Store, now

__all__ = ["ServeError", "serve", "start", "status", "stop"]

START_S, STOP_S = 30, 10  # how long to wait for a hub to answer, and to end
_GRACE_S = 3  # for requests that are under way when the hub is told to stop
_LOG_TAIL = 2000  # characters of the log that an error shows


def serve(
    folder: Path, port: int, *, ready: Callable[[str], None], host: str = "127.0.0.1", user: str = "local"
) -> None:
    """Run the hub of ``folder`` until SIGTERM or SIGINT. Port 0 takes a free one; ``ready`` gets the url.

    Raises ServeError when the folder is no hub's, another hub runs on it, or the address cannot be had.
    """
    require_hub_folder(folder)
    with locked(folder):
        bound = _bind(host, port)
        try:
            store = Store(folder)
            store.clear_unfinished()
            _keep_owner(store, user)
            shown = f"[{host}]" if ":" in host else host
            url = f"http://{shown}:{bound.getsockname()[1]}"
            asyncio.run(_run(store, bound, shown, url, ready))
        finally:
            bound.close()
            (folder / "hub.json").unlink(missing_ok=True)


async def _run(store: Store, bound: socket.socket, host: str, url: str, ready: Callable[[str], None]) -> None:
    from .app import LOOPBACK, create_app

    config = uvicorn.Config(
        create_app(store, (*LOOPBACK, host)), http="h11", ws="none", loop="asyncio", lifespan="off",
        access_log=False, log_level="warning", proxy_headers=False, server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )  # fmt: skip
    server = _Server(config)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, server.handle_exit, number, None)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    if server.started:
        port = bound.getsockname()[1]
        _write(store.root / "hub.json", {"url": url, "pid": os.getpid(), "port": port, "started": now()})
        ready(url)
    await task


class _Server(uvicorn.Server):
    """A server whose end is ours: uvicorn would raise the signal again, and nothing after it would run."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _keep_owner(store: Store, user: str) -> None:
    """Whose hub it is, from the first start on, with the token in the folder."""
    path = store.root / "token"
    given = path.read_text("utf-8", "replace").strip() if path.exists() else ""
    owner = store.owner()
    if given and owner:
        return
    token = store.add_user(owner or user, token=given or None, owner=True)
    if not given:
        new = path.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(token)
        new.replace(path)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # By its protocol asyncio knows that small answers must not wait for an acknowledgement (40 ms each).
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        raise ServeError(f"{host}:{port} cannot be listened on: {error.strerror}") from error
    return bound


def status(folder: Path) -> dict[str, Any] | None:
    """`{url, pid, port, started}` of the hub that runs on a folder and answers; None when none does."""
    serving = holder(folder)
    try:
        found = json.loads((folder / "hub.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    if serving is None or not isinstance(found, dict) or found.get("pid") != serving:
        return None
    if not _answers(str(found["url"])):
        return None
    return found


def _answers(url: str) -> bool:
    """Whether a hub is at this address; it asks for a token, and that is answer enough."""
    try:
        build_opener(ProxyHandler({})).open(f"{url}/api/whoami-v2", timeout=5).close()
    except HTTPError as error:
        with error:
            return "x-request-id" in error.headers
    except (OSError, ValueError):
        pass
    return False


def stop(folder: Path) -> bool:
    """Stop the hub of a folder and wait for its end; False when none runs. Raises ServeError when it does not end."""
    serving = holder(folder)
    if serving is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(serving, signal.SIGTERM)
    if not _wait(STOP_S, lambda: holder(folder) is None):
        raise ServeError(f"the hub (process {serving}) did not stop within {STOP_S} s")
    return True


def start(folder: Path, port: int = 0, *, user: str = "local") -> dict[str, Any]:
    """Start a hub that outlives this process, and wait until it answers.

    Raises ServeError: the folder is no hub's, or the end of the log of a hub that did not start.
    """
    require_hub_folder(folder)
    make_private(folder)
    log = folder / "hub.log"
    module = __spec__.name if __spec__ else __name__
    command = [sys.executable, "-m", module, str(folder), "--port", str(port), "--user", user]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
        before = output.tell()
        process = subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    found: dict[str, Any] | None = None

    def answers() -> bool:
        nonlocal found
        found = status(folder)
        return process.poll() is not None or (found is not None and found["pid"] == process.pid)

    answered = _wait(START_S, answers)
    if found is not None and found["pid"] == process.pid:
        process.returncode = 0  # it is meant to outlive us: no warning about a child that still runs
        return found
    if not answered:
        process.kill()
        process.wait()
    tail = log.read_bytes()[before:].decode("utf-8", "replace")[-_LOG_TAIL:].strip()
    raise ServeError(f"the hub did not start: {tail or 'it said nothing'}")


def _wait(seconds: float, done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.03)
    return True


def _write(path: Path, data: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(data))
    new.replace(path)


def main(arguments: list[str]) -> int:
    """``FOLDER [--port N] [--user NAME]``: what `start` runs."""
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--user", default="local")
    asked = parser.parse_args(arguments)
    try:
        serve(asked.folder, asked.port, ready=print, user=asked.user)
    except ServeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
