"""As much HTTP/1.1 as clients use, with answers that may break its rules: a library would mend them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

_MAX_HEAD = 1 << 16
_LIMIT = 1 << 30  # bytes of a body


@dataclass(frozen=True)
class Asked:
    """One request, whole. Names of headers are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """``announced``: the Content-Length, when it is not the body's. ``seconds``: over which the body comes.

    ``status`` 0 ends the connection without a word.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    announced: int | None = None
    seconds: float = 0.0

    def head(self) -> bytes:
        fields = {"content-type": "application/json", **self.headers}
        fields["content-length"] = str(len(self.body) if self.announced is None else self.announced)
        fields["date"] = formatdate(usegmt=True)
        lines = [f"HTTP/1.1 {self.status} {_phrase(self.status)}", *(f"{k}: {v}" for k, v in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


Handler = Callable[[Asked], Awaitable[Answer]]


class Connection(asyncio.Protocol):
    """One connection: its requests are answered one after the other; its end ends the one under way."""

    def __init__(self, handler: Handler, open_: set[Connection]) -> None:
        self._handler = handler
        self._open = open_
        self._parts: list[
            bytes
        ] = []  # joined when the request is whole, or large bodies would be copied again and again
        self._have = 0
        self._need: int | None = None  # bytes of head and body; None: the head is not whole
        self._head: tuple[str, str, dict[str, str], int] = ("", "", {}, 0)
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        if self._task:
            self._task.cancel()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._have += len(data)
        if self._task is None:
            self._look()

    def _look(self) -> None:
        """Start on the next request as soon as all of it is there."""
        if self._need is None:
            data = b"".join(self._parts)
            self._parts = [data]
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _MAX_HEAD:
                    self.abort()
                return
            first, *lines = data[:end].decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ", 2)
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            length = headers.get("content-length", "0")
            if "transfer-encoding" in headers or not length.isdecimal() or int(length) > _LIMIT:
                self._transport.write(Answer(411, headers={"connection": "close"}).head())
                self._transport.close()
                return
            self._head = (method, target, headers, end + 4)
            self._need = end + 4 + int(length)
            if headers.get("expect", "").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._have < self._need:
            return
        data = b"".join(self._parts)
        method, target, headers, start = self._head
        body, rest = data[start : self._need], data[self._need :]
        self._parts, self._have, self._need = [rest] if rest else [], len(rest), None
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        asked = Asked(method, unquote(parts.path), query, headers, body)
        self._task = asyncio.get_running_loop().create_task(self._serve(asked))

    async def _serve(self, asked: Asked) -> None:
        answer = await self._handler(asked)
        if not answer.status:
            self.abort()
            return
        whole = answer.announced in {None, len(answer.body)}
        if answer.seconds:
            self._transport.write(answer.head())
            size = -(-len(answer.body) // 10) or 1
            for at in range(0, len(answer.body), size):
                await asyncio.sleep(answer.seconds / 10)
                self._transport.write(answer.body[at : at + size])
        else:
            self._transport.write(answer.head() + answer.body)
        self._task = None
        if not whole or asked.headers.get("connection", "").lower() == "close":
            self._transport.close()
        elif self._parts:
            self._look()
