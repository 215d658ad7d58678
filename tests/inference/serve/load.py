"""Clients that ask one server as fast as it answers: each on a connection of its own, kept open, with bodies made
before. It parses no more than it must, so that the server has the processor."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit


@dataclass
class Heard:
    """answers: by status and, of an error, its code; lost: requests that came to no answer. waits_s: of Retry-After.
    seconds: from the first request to the last answer. took_s: of each answer with status 200."""

    answers: Counter[str] = field(default_factory=Counter)
    waits_s: list[int] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return self.answers["200"] / self.seconds


def post(path: str, data: bytes) -> bytes:
    """A request as it is sent."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


class Answer(NamedTuple):
    """wait_s: of Retry-After, or 0. last: nothing can be asked on this connection any more."""

    status: int
    wait_s: int
    body: bytes
    last: bool


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> Answer:
    """Raises an OSError or EOFError where nothing comes."""
    writer.write(request)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
    body = await reader.readexactly(int(fields[b"content-length"]))
    last = fields.get(b"connection") == b"close"
    return Answer(int(head.split(b" ", 2)[1]), int(fields.get(b"retry-after", 0)), body, last)


async def load(url: str, requests: Sequence[bytes], clients: int, seconds: float, heard: Heard | None = None) -> Heard:
    """Ask for so long, in turn about ``requests``. A client that is refused waits, but never as long as it is told.

    heard: filled while they ask, for another thread to look at."""
    heard, began = heard or Heard(), time.monotonic()
    await asyncio.gather(
        *(_client(url, requests, number, clients, began + seconds, heard) for number in range(clients))
    )
    heard.seconds = time.monotonic() - began
    return heard


async def _client(url: str, requests: Sequence[bytes], number: int, clients: int, until: float, heard: Heard) -> None:
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    at = number
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            answer = await ask(reader, writer, requests[at % len(requests)])
        except (OSError, EOFError) as error:
            heard.lost.append(f"{type(error).__name__} {error}")
            break
        at += clients
        if answer.status == 200:
            heard.answers["200"] += 1
            heard.took_s.append(time.monotonic() - began)
        else:
            code = answer.body.rpartition(b'"code": "')[2].split(b'"')[0].decode()
            heard.answers[f"{answer.status} {code}"] += 1
            heard.waits_s.append(answer.wait_s)
        if answer.last:
            break
        if answer.status != 200:
            await asyncio.sleep(min(answer.wait_s, 0.2))
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
