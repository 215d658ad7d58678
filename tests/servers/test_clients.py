"""Clients do what they are told and nothing more: one request, to one address, in the time that was given."""

from __future__ import annotations

import asyncio
import gzip
import importlib.abc
import json
import subprocess
import sys
import threading
import zlib
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import openai
import pytest
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers import transport
from action_reward_models.servers.clients import async_client, check_key, client

from .loopback import ASKED, CHAT, KEY, VARIABLE, Head, Reply, key, keyed, keyless, loopback

__all__ = ["key"]  # a fixture


def ask(url: str, **others: Any) -> Any:
    with client(keyless(url, **others), url) as made:
        return made.chat.completions.create(**ASKED)  # type: ignore[call-overload]


def ask_async(url: str, **others: Any) -> Any:
    async def one() -> Any:
        async with async_client(keyless(url, **others), url) as made:
            return await made.chat.completions.create(**ASKED)  # type: ignore[call-overload]

    return asyncio.run(one())


BOTH = pytest.mark.parametrize("asking", [ask, ask_async])


@BOTH
@pytest.mark.parametrize("path", ["/v1", "", "/openai/v2"])
def test_the_address_is_kept(asking: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with loopback() as server:
        reply = asking(f"http://{server.host}{path}")
        assert reply.choices[0].message.content == "this"
        (head,) = server.received
    assert (head.method, head.path, head.headers["host"]) == ("POST", f"{path}/chat/completions", server.host)


@BOTH
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_nothing_is_asked_again(asking: Any, status: int) -> None:
    with loopback(lambda head: Reply(status, b'{"error": {"message": "busy"}}', {"x-should-retry": "true"})) as server:
        with pytest.raises(openai.APIStatusError, match="busy") as caught:
            asking(server.url)
        assert len(server.received) == 1
    assert caught.value.status_code == status


@BOTH
def test_the_wait_is_bounded(asking: Any) -> None:
    done = threading.Event()

    def late(head: Head) -> Reply:
        done.wait(30)
        return Reply()

    with loopback(late) as server:
        with pytest.raises(openai.APITimeoutError):
            asking(server.url, timeout_s=0.05)
        done.set()


@BOTH
def test_nobody_there(asking: Any) -> None:
    with loopback() as server:
        url = server.url
    with pytest.raises(openai.APIConnectionError):
        asking(url)


def test_many_at_once_over_connections_that_are_kept() -> None:
    async def many(url: str) -> int:
        async with async_client(keyless(url, in_flight=50), url) as made:
            asked = [made.chat.completions.create(**ASKED) for _ in range(50)]  # type: ignore[call-overload]
            replies = await asyncio.gather(*asked)
            replies += await asyncio.gather(*(made.chat.completions.create(**ASKED) for _ in range(50)))  # type: ignore[call-overload]
        return sum(reply.choices[0].message.content == "this" for reply in replies)

    with loopback() as server:
        assert asyncio.run(many(server.url)) == 100
        assert {head.headers["connection"] for head in server.received} == {"keep-alive"}


def test_a_file_is_sent_and_a_large_one_is_received_as_it_comes() -> None:
    lines = [json.dumps({"custom_id": f"{i:064x}", "body": CHAT}) for i in range(2000)]

    def reply(head: Head) -> Reply:
        if head.method == "POST":
            assert head.headers["content-type"].startswith("multipart/form-data; boundary=")
            return Reply(body=b'{"id": "file-1", "object": "file"}')
        return Reply(body="\n".join(lines).encode(), headers={"Content-Type": "application/octet-stream"})

    with loopback(reply) as server, client(keyless(server.url), server.url) as made:
        assert made.files.create(file=("in.jsonl", b"{}\n"), purpose="batch").id == "file-1"
        with made.files.with_streaming_response.content("file-1") as streamed:
            assert list(streamed.iter_lines()) == lines


@pytest.mark.parametrize("packed", ["", "gzip", "deflate"])
def test_an_answer_without_end_fills_no_memory(packed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is few bytes on its way."""
    body = json.dumps({**CHAT, "more": "a" * 100_000}).encode()
    sent = {"": body, "gzip": gzip.compress(body), "deflate": zlib.compress(body)}[packed]
    headers = {"Content-Type": "application/json", **({"Content-Encoding": packed} if packed else {})}
    with loopback(lambda head: Reply(body=sent, headers=headers)) as server:
        assert ask_async(server.url).choices[0].message.content == "this"
        assert server.received[0].headers["accept-encoding"] == "gzip, deflate"
        monkeypatch.setattr(transport, "_LONGEST", 100_000)
        with pytest.raises(openai.APIConnectionError) as caught:
            ask_async(server.url)
    assert "longer than 100,000 bytes" in str(caught.value.__cause__)


def test_an_answer_that_is_packed_in_another_way_is_not_read() -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip, gzip"}
    twice = gzip.compress(gzip.compress(json.dumps(CHAT).encode()))
    with (
        loopback(lambda head: Reply(body=twice, headers=headers)) as server,
        pytest.raises(openai.APIConnectionError) as caught,
    ):
        ask_async(server.url)
    assert "packed as 'gzip, gzip', which is not read" in str(caught.value.__cause__)


def test_a_server_that_sends_what_the_api_does_not_promise() -> None:
    with loopback(lambda head: Reply(body=b"<html>proxy</html>", headers={"Content-Type": "text/html"})) as server:
        assert isinstance(ask(server.url), str)  # as openai has it; whoever asks looks at it


class Blocked(importlib.abc.MetaPathFinder):
    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.split(".", maxsplit=1)[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@pytest.mark.parametrize("make", [client, async_client])
@pytest.mark.parametrize("absent", ["openai", "httpx2"])
def test_without_the_extra(make: Any, absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == absent or n.endswith(".servers.transport")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("action_reward_models.servers.transport", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Blocked(absent), *sys.meta_path])
    url = "http://127.0.0.1:8000/v1"
    with pytest.raises(UsageError) as caught:
        make(keyless(url), url)
    assert str(caught.value) == (
        "asking models needs the package openai, which is not installed\n"
        '  next: pip install "action-reward-models[generate]"'
    )


def test_what_is_no_missing_extra_is_not_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.endswith(".servers.transport") or n.split(".")[0] == "openai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("action_reward_models.servers.transport", raising=False)
    monkeypatch.delitem(sys.modules, "pydantic", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Blocked("pydantic"), *sys.meta_path])
    url = "http://127.0.0.1:8000/v1"
    with pytest.raises(ModuleNotFoundError, match="pydantic"):
        client(keyless(url), url)


def test_the_package_is_loaded_when_a_client_is_made() -> None:
    names = ", ".join(
        f"action_reward_models.{name}" for name in ("servers.clients", "servers.endpoints", "builders.generate.spend")
    )
    code = f"import sys; import {names}; print([n for n in ('openai', 'httpx2', 'pyarrow') if n in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def test_a_key_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://api.example.com/v1"
    server = keyed(url, where="endpoints.yaml:3 $.servers.teacher")
    for value in (None, "", " \n"):
        monkeypatch.delenv(VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(VARIABLE, value)
        for make in (check_key, lambda s: client(s, url), lambda s: async_client(s, url)):
            with pytest.raises(UsageError) as caught:
                make(server)
            assert str(caught.value) == (
                f"endpoints.yaml:3 $.servers.teacher: the server 'teacher' takes a key, and the environment variable "
                f"{VARIABLE} is not set\n  next: set {VARIABLE} where this command and its workers run"
            )


@pytest.mark.parametrize("value", ["sk-1\nX-Evil: 1", "sk 1", "sk-ü1", "sk-\x001", "sk-\x7f1"])
def test_a_key_that_would_be_more_than_one_header(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    if "\0" not in value:
        monkeypatch.setenv(VARIABLE, value)
        with pytest.raises(UsageError, match=f"{VARIABLE} holds characters that stand in no key") as caught:
            check_key(keyed("https://api.example.com/v1"))
        assert "sk" not in str(caught.value)


def test_a_key_for_another_url(key: str) -> None:
    server = keyed("https://api.example.com/v1")
    check_key(server)
    for url, why in {
        "https://evil.example/v1": "is for api.example.com:443, and https://evil.example/v1 is another host",
        "https://api.example.com:8443/v1": "is another host",
        "http://127.0.0.1:8000/v1": "is another host",
    }.items():
        for make in (client, async_client):
            with pytest.raises(ArmError, match=why) as caught:
                make(server, url)
            assert KEY not in str(caught.value)
    with pytest.raises(ArmError, match="as plain text"):
        client(keyed("http://node7:8000/v1"), "http://node7:8000/v1")
    client(keyed("http://node7:8000/v1", plain_http=True), "http://node7:8000/v1").close()
