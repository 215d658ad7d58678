"""Clients of one URL of one server, for the ``openai`` package, whose import costs seconds and is an extra."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..schemas.errors import ArmError, UsageError
from .endpoints import Server

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI


def client(server: Server, url: str) -> OpenAI:
    """A client of ``url`` (one of ``server.urls``) that does what it is told and nothing more: no retries, no redirects
    (a 3xx raises ``openai.APIStatusError``), nothing of the environment but the key that the server declares and the
    proxies of the user.

    Raises UsageError without the ``generate`` extra and where the key's variable is not set, ArmError where the key may
    not be sent to ``url``. Close it, or use it in a ``with``.
    """
    key = _key(server, url)
    with _extra():
        from .transport import sync_client
    return sync_client(url, key, server.timeout_s, server.in_flight)


def async_client(server: Server, url: str) -> AsyncOpenAI:
    """Like ``client``, for ``async with``."""
    key = _key(server, url)
    with _extra():
        from .transport import async_client as make
    return make(url, key, server.timeout_s, server.in_flight)


def check_key(server: Server) -> None:
    """Raise what the clients of ``server`` would raise, before anything is sent."""
    for url in server.urls:
        _key(server, url)


@contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("openai", "httpx2"):
            raise
        message = "asking models needs the package openai, which is not installed"
        raise UsageError(message, next_command='pip install "action-reward-models[generate]"') from error


def _key(server: Server, url: str) -> str | None:
    """The key to send to ``url``, from the environment of this process; its value stands in no message."""
    if server.key is None:
        return None
    if why := server.refusal(url):
        raise ArmError(why, where=server.where)
    key = os.environ.get(server.key, "").strip()
    if not key:
        raise UsageError(
            f"the server {server.name!r} takes a key, and the environment variable {server.key} is not set",
            where=server.where, next_command=f"set {server.key} where this command and its workers run",
        )  # fmt: skip
    if not all("!" <= c <= "~" for c in key):
        message = f"the environment variable {server.key} holds characters that stand in no key"
        raise UsageError(message, where=server.where, next_command=f"set {server.key} to the key alone, in one line")
    return key
