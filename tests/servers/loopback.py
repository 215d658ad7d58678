"""An HTTP server within the test that keeps every byte of the heads it received."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from action_reward_models.servers.endpoints import Server
from action_reward_models.servers.urls import host_of

KEY = "sk-loopback-0123456789"
VARIABLE = "LOOPBACK_KEY"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "which?"}]}
CHAT = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "this"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}  # fmt: skip


class Head(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  # names in small letters


class Reply(NamedTuple):
    status: int = 200
    body: bytes = json.dumps(CHAT).encode()
    headers: Mapping[str, str] = {"Content-Type": "application/json"}


class Loopback:
    def __init__(self, port: int, received: list[Head]) -> None:
        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}/v1"
        self.received = received


class Listening(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def loopback(reply: Callable[[Head], Reply] = lambda head: Reply()) -> Iterator[Loopback]:
    received: list[Head] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            head = Head(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
            assert len(head.headers) == len(self.headers), "a header twice"
            received.append(head)
            said = reply(head)
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_GET = do_POST = do_CONNECT = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with Listening(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield Loopback(server.server_port, received)
        server.shutdown()
        thread.join()


def keyless(url: str, **others: Any) -> Server:
    return Server("teacher", (url,), **others)


def keyed(url: str, **others: Any) -> Server:
    return Server("teacher", (url,), key=VARIABLE, key_hosts=(host_of(url),), **others)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(VARIABLE, KEY)
    return KEY
