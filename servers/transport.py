"""What leaves this machine: the one place where a key meets a request. Loaded by ``clients`` only.

The openai clients take keys, organisations, headers and addresses from the environment wherever they are not told
otherwise. They are told otherwise; and what they hand over is copied here header by header, so that whatever else the
environment may set (now or in a later version of theirs) is not sent. They never hold the key: neither do their
errors, requests, representations, pickles and logs.
"""

from __future__ import annotations

import importlib.util
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from .. import __version__
from ..schemas.errors import UsageError
from .urls import is_loopback

_NO_KEY = "not-a-key"  # what their clients hold; it is not sent
_FORWARDED = {"accept", "connection", "content-length", "content-type", "host", "transfer-encoding"}
_AGENT = f"action-reward-models/{__version__}"
_SHOWN = "<key>"
_LONGEST = 64 * 2**20  # bytes of one answer, unpacked: a server that never ends one must not fill this machine's memory
_UNPACKED = ("", "identity", "gzip", "deflate")  # of others, few bytes may become billions in one go
_SHORTEST_TO_HIDE = 8  # characters: "EMPTY" and "none", which local servers ask for, are words of other texts, too
_CONNECT_S = 30.0


class _Headers:
    """The headers of every request, whatever the environment says; and nothing of it stands for "not given"."""

    @property
    def default_headers(self) -> dict[str, Any]:
        return {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": _AGENT}


class Client(_Headers, openai.OpenAI):
    """An ``openai.OpenAI`` that takes nothing from the environment."""


class AsyncClient(_Headers, openai.AsyncOpenAI):
    """An ``openai.AsyncOpenAI`` that takes nothing from the environment."""


def sync_client(url: str, key: str | None, timeout_s: float, connections: int) -> Client:
    inner = httpx2.HTTPTransport(**_options(url, connections))
    http = httpx2.Client(transport=_Sync(inner, url, key), **_http(timeout_s))
    return Client(http_client=http, **_told(url, timeout_s))


def async_client(url: str, key: str | None, timeout_s: float, connections: int) -> AsyncClient:
    inner = httpx2.AsyncHTTPTransport(**_options(url, connections))
    http = httpx2.AsyncClient(transport=_Async(inner, url, key), **_http(timeout_s))
    return AsyncClient(http_client=http, **_told(url, timeout_s))


def _told(url: str, timeout_s: float) -> dict[str, Any]:
    """An empty text is an answer to their clients, None makes them look into the environment."""
    nothing = {"admin_api_key": "", "organization": "", "project": "", "webhook_secret": ""}
    return {"base_url": url, "api_key": _NO_KEY, "max_retries": 0, "timeout": _timeout(timeout_s), **nothing}


def _timeout(timeout_s: float) -> httpx2.Timeout:
    """Waiting for a free connection is no waiting for the server."""
    return httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S), pool=None)


def _http(timeout_s: float) -> dict[str, Any]:
    # trust_env off: neither ~/.netrc nor proxies but those of _proxy, which are said here
    return {"timeout": _timeout(timeout_s), "follow_redirects": False, "trust_env": False}


def _options(url: str, connections: int) -> dict[str, Any]:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=connections, keepalive_expiry=30.0)
    return {"limits": limits, "proxy": _proxy(url), "trust_env": True}  # SSL_CERT_FILE and SSL_CERT_DIR are the user's


def _proxy(url: str) -> httpx2.Proxy | None:
    """The proxy that the environment names for ``url`` (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), which is the
    user's own choice. What stays on this machine goes to no other. A proxy's URL may hold a password: not quoted."""
    parts = urlsplit(url)
    named = urllib.request.getproxies()
    found = named.get(parts.scheme) or named.get("all")
    if not found or is_loopback(url) or urllib.request.proxy_bypass(parts.netloc):
        return None
    try:
        proxy = httpx2.Proxy(found if "://" in found else f"http://{found}")
    except (ValueError, httpx2.InvalidURL):
        said = f"the environment names a proxy for {parts.scheme}:// that is no URL of a proxy"
        raise UsageError(said, next_command="set HTTPS_PROXY or HTTP_PROXY anew, or NO_PROXY to the host") from None
    if proxy.url.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        said = f"the environment names a SOCKS proxy for {parts.scheme}://, which needs the package socksio"
        raise UsageError(said, next_command="pip install socksio")
    return proxy


class _Outgoing:
    """Requests as they are sent to one server, and replies without what must not come back.

    The request of the caller is left as it is: it has no key, and errors and logs hold it.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self._address = _address(httpx2.URL(url))
        self._key = key

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> Any:
        raise TypeError("a connection to a server is not sent to other processes; make one there")

    def outgoing(self, request: httpx2.Request) -> httpx2.Request:
        if _address(request.url) != self._address:
            raise openai.OpenAIError("a request to another host than that of the server was not sent")
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() in _FORWARDED]
        headers.append(("Accept-Encoding", "gzip, deflate"))
        headers.append(("User-Agent", _AGENT))
        if self._key is not None:
            headers.append(("Authorization", f"Bearer {self._key}"))
        return httpx2.Request(
            request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
        )

    def hides(self, response: httpx2.Response) -> bool:
        """Whether it may be quoted in a message, and hold the key: some servers repeat what they refuse."""
        return not response.is_success and self._key is not None and len(self._key) >= _SHORTEST_TO_HIDE

    def hidden(self, response: httpx2.Response, content: bytes) -> httpx2.Response:
        """The response without the key; ``content`` is its decoded body."""
        assert self._key is not None
        headers = [(name, value.replace(self._key, _SHOWN)) for name, value in _headers(response)]
        shown = content.replace(self._key.encode(), _SHOWN.encode())
        return httpx2.Response(response.status_code, headers=headers, content=shown)


class _Sync(_Outgoing, httpx2.BaseTransport):
    def __init__(self, inner: httpx2.HTTPTransport, url: str, key: str | None) -> None:
        super().__init__(url, key)
        self._inner = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(self.outgoing(request))
        if not self.hides(response):
            return response
        try:
            return self.hidden(response, response.read())
        finally:
            response.close()

    def close(self) -> None:
        self._inner.close()


class _Async(_Outgoing, httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncHTTPTransport, url: str, key: str | None) -> None:
        super().__init__(url, key)
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(self.outgoing(request))
        try:
            content = await _bounded(response)
        finally:
            await response.aclose()
        if self.hides(response):
            return self.hidden(response, content)
        return httpx2.Response(response.status_code, headers=_headers(response), content=content)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bounded(response: httpx2.Response) -> bytes:
    """Its body, unpacked. Raises httpx2.ReadError for one that is too long, or packed in a way that is not read."""
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in _UNPACKED:
        raise httpx2.ReadError(f"the answer is packed as {packed[:40]!r}, which is not read")
    content = bytearray()
    async for block in response.aiter_bytes():
        content += block
        if len(content) > _LONGEST:
            raise httpx2.ReadError(f"the answer is longer than {_LONGEST:,} bytes")
    return bytes(content)


def _headers(response: httpx2.Response) -> list[tuple[str, str]]:
    """Those that hold for the unpacked body, too."""
    about_body = ("content-length", "content-encoding", "transfer-encoding")
    return [(name, value) for name, value in response.headers.multi_items() if name.lower() not in about_body]


def _address(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
