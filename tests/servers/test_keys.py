"""A key goes to the server that it is for and nowhere else: not to others, not into messages, logs or pickles."""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers.clients import async_client, client
from action_reward_models.servers.endpoints import Server, read_endpoints

from .loopback import ASKED, KEY, VARIABLE, Head, Loopback, Reply, key, keyed, keyless, loopback

__all__ = ["key"]  # a fixture

Calls = Callable[[Any], list[Any]]
MARK = "ENVIRONMENT-MARK"
SENT = {"host", "accept", "accept-encoding", "connection", "content-length", "content-type", "user-agent"}
CALLS: list[Callable[[Any], Any]] = [
    lambda made: made.chat.completions.create(**ASKED, extra_body={"top_k": -1}),
    lambda made: made.models.list(),
    lambda made: made.files.create(file=("in.jsonl", b"{}\n"), purpose="batch"),
    lambda made: made.batches.create(
        input_file_id="f", endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"}
    ),
    lambda made: made.files.content("f"),
    lambda made: made.get("/version", cast_to=object),
]


def calls(server: Server, url: str) -> None:
    """All that is ever asked of a server, by both clients."""

    async def asked() -> None:
        async with async_client(server, url) as made:
            for call in CALLS:
                await call(made)

    with client(server, url) as made:
        for call in CALLS:
            call(made)
    asyncio.run(asked())


def variables() -> set[str]:
    """Every environment variable that the openai package reads, found in its source."""
    source = "\n".join(
        path.read_text("utf-8")
        for path in Path(openai.__file__).parent.rglob("*.py")
        if "types" not in path.parts and "resources" not in path.parts
    )
    return set(re.findall(r"""environ(?:\.get\(|\[)\s*["']([A-Z_0-9]+)["']""", source))


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = variables()
    expected = {"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"}
    assert names >= {*expected, "OPENAI_CUSTOM_HEADERS", "OPENAI_WEBHOOK_SECRET"}
    for name in names - {"OPENAI_LOG", "DEFER_PYDANTIC_BUILD"}:
        monkeypatch.setenv(name, f"{MARK}-{name}")
    headers = [f"{name}: {MARK}" for name in ("X-Mark", "Authorization", "User-Agent", "Accept", "Host", "Cookie")]
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "\n".join(headers))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")


def test_nothing_of_the_environment_reaches_a_server_without_a_key(crowded: None) -> None:
    with loopback() as server:
        calls(keyless(server.url), server.url)
        assert len(server.received) == 2 * len(CALLS)
        for head in server.received:
            assert MARK not in repr(head)
            assert set(head.headers) <= SENT
            assert head.headers["host"] == server.host


def test_a_server_with_a_key_sees_that_key_alone(crowded: None, key: str) -> None:
    with loopback() as server:
        calls(keyed(server.url), server.url)
        assert len(server.received) == 2 * len(CALLS)
        for head in server.received:
            assert MARK not in repr(head)
            assert set(head.headers) <= {*SENT, "authorization"}
            assert head.headers["authorization"] == f"Bearer {key}"


def test_the_clients_themselves_hold_neither(crowded: None, key: str) -> None:
    with loopback() as server, client(keyed(server.url), server.url) as made:
        told = [made.api_key, made.admin_api_key, made.webhook_secret, made.organization, made.project, made.base_url]
        assert MARK not in repr([*told, made.default_headers])
        assert KEY not in repr([made, vars(made), vars(made._client), *told])


def test_a_key_of_the_file_reaches_its_server(tmp_path: Path, key: str) -> None:
    with loopback() as server, loopback() as other:
        path = tmp_path / "endpoints.yaml"
        path.write_text(f"endpoints: 1\nservers:\n  teacher:\n    urls: [{server.url}]\n    key: {VARIABLE}\n")
        teacher = pickle.loads(pickle.dumps(read_endpoints(path).server("teacher")))
        with client(teacher, server.url) as made:
            made.models.list()
        assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
        os.environ["ARM_ENDPOINT_TEACHER"] = other.url
        try:
            with pytest.raises(ArmError, match=f"the key {VARIABLE} is for {server.host}, and {other.url} is another"):
                read_endpoints(path).server("teacher")
        finally:
            del os.environ["ARM_ENDPOINT_TEACHER"]
        assert other.received == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(key: str, status: int) -> None:
    with loopback() as other, loopback(lambda head: Reply(status, b"", {"Location": other.url})) as server:
        for error in failures(keyed(server.url), server.url):
            assert isinstance(error, openai.APIStatusError)
            assert error.status_code == status
            assert error.response.headers["location"] == other.url
            assert_silent(error)
        assert len(server.received) == 2
        assert other.received == []


def test_a_request_that_names_another_host_is_not_sent(key: str) -> None:
    async def asked(server: Loopback, other: Loopback) -> None:
        async with async_client(keyed(server.url), server.url) as made:
            await made.get(f"{other.url}/models", cast_to=object)

    with loopback() as server, loopback() as other:
        with client(keyed(server.url), server.url) as made:
            with pytest.raises(openai.OpenAIError, match="another host"):
                made.get(f"{other.url}/models", cast_to=object)
            with pytest.raises(openai.OpenAIError, match="another host"):
                made.get(f"http://localhost:{server.host.partition(':')[2]}/v1/models", cast_to=object)
        with pytest.raises(openai.OpenAIError, match="another host"):
            asyncio.run(asked(server, other))
        assert server.received == other.received == []


def failures(server: Server, url: str) -> Iterator[BaseException]:
    async def asked() -> None:
        async with async_client(server, url) as made:
            await made.chat.completions.create(**ASKED)  # type: ignore[call-overload]

    def asked_here() -> None:
        with client(server, url) as made:
            made.chat.completions.create(**ASKED)  # type: ignore[call-overload]

    for asking in (asked_here, lambda: asyncio.run(asked())):
        with pytest.raises(openai.OpenAIError) as caught:
            asking()
        yield caught.value


def assert_silent(error: BaseException) -> None:
    """Neither the error nor anything that it holds says the key."""
    seen: set[int] = set()
    left: list[Any] = [error]
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, type) or callable(value):
            continue
        seen.add(id(value))
        assert KEY not in repr(value)
        if isinstance(value, bytes):
            assert KEY.encode() not in value
        left += [*value] if isinstance(value, tuple | list | set) else []
        left += [*value, *value.values()] if isinstance(value, dict) else []
        if isinstance(value, BaseException):
            left += [value.__cause__, value.__context__, *value.args]
        module = type(value).__module__.split(".")[0]
        if module in ("openai", "httpx2", "httpcore2") and hasattr(value, "__dict__"):
            left.append(vars(value))
    assert len(seen) > 5
    assert KEY not in "".join(traceback.format_exception(error))
    request = getattr(error, "request", None)
    assert request is not None
    assert KEY not in str(request.headers.multi_items())
    assert KEY.encode() not in pickle.dumps(request)


def test_errors_hold_no_key(key: str) -> None:
    with loopback(lambda head: Reply(401, b'{"error": {"message": "no"}}')) as server:
        for error in failures(keyed(server.url), server.url):
            assert isinstance(error, openai.AuthenticationError)
            assert_silent(error)
    for error in failures(keyed(server.url), server.url):
        assert isinstance(error, openai.APIConnectionError)  # the server has gone
        assert_silent(error)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("packed", [False, True])
def test_a_server_that_repeats_the_key_is_not_quoted(key: str, status: int, packed: bool) -> None:
    def reply(head: Head) -> Reply:
        said = json.dumps({"error": {"message": f"not for {head.headers['authorization']}", "code": "who"}}).encode()
        headers = {"Content-Type": "application/json", "X-Echo": head.headers["authorization"], "Retry-After": "7"}
        return (
            Reply(status, gzip.compress(said), {**headers, "Content-Encoding": "gzip"})
            if packed
            else Reply(status, said, headers)
        )

    with loopback(reply) as server:
        for error in failures(keyed(server.url), server.url):
            assert isinstance(error, openai.APIStatusError)
            assert "not for Bearer <key>" in str(error)
            assert error.code == "who"
            assert error.response.headers["retry-after"] == "7"
            assert error.response.headers["x-echo"] == "Bearer <key>"
            assert_silent(error)


def test_logs_hold_no_key(key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx2", "httpcore2", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    with loopback(lambda head: Reply(200 if head.path != "/v1/models" else 403)) as server:
        teacher = keyed(server.url)
        with client(teacher, server.url) as made:
            made.chat.completions.create(**ASKED)  # type: ignore[call-overload]
            with pytest.raises(openai.PermissionDeniedError):
                made.models.list()
        list(failures(keyed("http://127.0.0.1:9/v1"), "http://127.0.0.1:9/v1"))
    assert len(caplog.records) > 10
    for record in caplog.records:
        assert KEY not in record.getMessage()
        assert KEY not in repr(record.args)


def test_the_log_that_openai_writes_when_it_is_told_to(key: str) -> None:
    code = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from action_reward_models.servers.clients import client
from action_reward_models.servers.endpoints import Server
url = sys.argv[1]
with client(Server("t", (url,), key="LOOPBACK_KEY", key_hosts=(url.split("/")[2],)), url) as made:
    made.models.list()
    made.chat.completions.create(model="m", messages=[])
"""
    with loopback() as server:
        ran = subprocess.run(
            [sys.executable, "-c", code, server.url], capture_output=True, text=True, check=True,
            env={**os.environ, "OPENAI_LOG": "debug", VARIABLE: KEY},
        )  # fmt: skip
        assert len(server.received) == 2
    assert "HTTP Response" in ran.stderr
    assert KEY not in ran.stderr + ran.stdout


def test_a_netrc_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\ndefault login me password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    with loopback() as server:
        calls(keyless(server.url), server.url)
        assert all("authorization" not in head.headers for head in server.received)


def test_proxies_are_those_of_the_user_and_see_no_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with loopback() as server, loopback(lambda head: Reply(502 if head.method == "CONNECT" else 200)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:hunter2@{proxy.host}")
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.host}")
        calls(keyed(server.url), server.url)  # what stays on this machine goes to no proxy
        assert proxy.received == []

        with client(keyless("http://models.invalid/v1"), "http://models.invalid/v1") as made:
            made.models.list()
        (head,) = proxy.received
        assert head.path == "http://models.invalid/v1/models"
        assert "proxy-authorization" in head.headers
        assert "authorization" not in head.headers

        url = "https://models.invalid/v1"
        for error in failures(keyed(url), url):
            assert_silent(error)
            assert "hunter2" not in "".join(traceback.format_exception(error))
        tunnels = proxy.received[1:]
        assert [(head.method, head.path) for head in tunnels] == [("CONNECT", "models.invalid:443")] * 2
        assert KEY not in repr(tunnels)

        monkeypatch.setenv("NO_PROXY", "models.invalid")
        for error in failures(keyed(url), url):
            assert isinstance(error, openai.APIConnectionError)
        assert len(proxy.received) == 3


@pytest.mark.parametrize(
    "given", ["ftp://me:hunter2@proxy:1", "http://me:hunter2@proxy:port", "socks5://me:hunter2@p:1"]
)
def test_a_proxy_that_cannot_be_used(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if given.startswith("socks") and importlib.util.find_spec("socksio"):
        pytest.skip("socksio is installed")
    for name in ("NO_PROXY", "no_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", given)
    url = "https://models.invalid/v1"
    for make in (client, async_client):
        with pytest.raises(UsageError, match="the environment names a") as caught:
            make(keyless(url), url)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_connection_is_not_pickled(key: str) -> None:
    with loopback() as server, client(keyed(server.url), server.url) as made, pytest.raises(TypeError):
        pickle.dumps(made)
