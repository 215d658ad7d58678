"""The application: every route, and what holds for all of them."""

from __future__ import annotations

import errno
import re
import secrets
import sqlite3
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import HubError, repo_not_found
from .store import Store
from .web import KINDS, answer

_API_VERBS = (
    "auth-check", "branch", "commit", "commits", "discussions", "paths-info", "preupload", "refs", "revision",
    "settings", "super-squash", "tag", "tree",
)  # fmt: skip
_REQUEST_ID = re.compile(rb"[A-Za-z0-9=:;._-]{1,128}")
_NOT_IN_A_HEADER = re.compile(r"[^\x20-\x7e]")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def create_app(store: Store, hosts: tuple[str, ...] = LOOPBACK) -> ASGIApp:
    """The hub of ``store``. Requests whose Host header names another host than ``hosts`` are refused.

    A page from elsewhere whose name was pointed at 127.0.0.1 would otherwise speak to the hub from a person's browser.
    """
    handlers = {HubError: _refusal, HTTPException: _no_route, ClientDisconnect: _gone}
    handlers |= {OSError: _system, sqlite3.OperationalError: _system}
    app = Starlette(routes=_routes(), exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.store = store
    return _Guard(app, frozenset(hosts))


def _routes() -> list[BaseRoute]:
    from .api import commit, discussions, identity, lfs, refs, repos, resolve, tree
    from .pages import routes as pages
    from .xet import cas

    # Pages come last: their paths take almost anything.
    modules = (identity, repos, commit, refs, tree, discussions, lfs, cas, resolve, pages)
    return [route for module in modules for route in module.routes]


class _Guard:
    """Around everything: the Host allow-list, a request id, and headers that keep a browser strict.

    Routes see the path as it was sent: `refs%2Fpr%2F1` is one part of it.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        fixed = [
            (b"x-request-id", _request_id(scope)),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
        ]

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *fixed]}
            await send(message)

        if _host(scope) not in self._hosts:
            refused = answer({"error": "this hub does not answer for that Host"}, 421)
            await refused(scope, receive, with_headers)
            return
        raw = scope.get("raw_path") or scope["path"].encode()
        await self._app({**scope, "path": raw.decode("latin-1")}, receive, with_headers)


def _request_id(scope: Scope) -> bytes:
    """The id that the client gave its request, so that it finds the answer in its logs, or one of ours."""
    given = dict(scope["headers"])
    for name in (b"x-request-id", b"x-amzn-trace-id"):
        if _REQUEST_ID.fullmatch(given.get(name, b"")):
            return bytes(given[name])
    return secrets.token_hex(12).encode()


def _host(scope: Scope) -> str:
    """The host of the Host header, without its port; "" when there is not exactly one."""
    found = [value for name, value in scope["headers"] if name == b"host"]
    if len(found) != 1:
        return ""
    try:
        parts = urlsplit(f"//{found[0].decode('ascii')}")
        if parts.username is not None or parts.path or parts.query or parts.fragment:
            return ""
        _ = parts.port  # ValueError when it is no number
        host = parts.hostname or ""
    except (ValueError, UnicodeDecodeError):
        return ""
    return f"[{host}]" if ":" in host else host


async def _refusal(request: Request, error: Exception) -> Response:
    """A HubError as the Hub answers it: over plain HTTP clients go by `X-Error-Code` alone."""
    assert isinstance(error, HubError)
    message = _NOT_IN_A_HEADER.sub(lambda found: ascii(found[0])[1:-1], error.message)
    headers = {"X-Error-Message": message, **error.headers}
    if error.code:
        headers["X-Error-Code"] = error.code
    return answer({"error": error.message}, error.status, headers)


async def _gone(request: Request, error: Exception) -> Response:
    """The client left before it had sent everything: nobody reads this answer, and nothing was wrong here."""
    return answer({"error": "the request was not complete"}, 400)


async def _system(request: Request, error: Exception) -> Response:
    """A full disk is said as such, so that no client tries again; any other failure of the system is a defect."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or (isinstance(error, sqlite3.OperationalError) and "disk is full" in str(error)):
        return await _refusal(request, HubError(507, "the disk of the hub is full: nothing of this request was kept"))
    raise error


async def _no_route(request: Request, error: Exception) -> Response:
    """No route takes this path. An id of one part (`/api/models/name/...`) is a repository that does not exist."""
    assert isinstance(error, HTTPException)
    parts = request.url.path.split("/")[1:]
    at = {"api": 2, "datasets": 1, "spaces": 1}.get(parts[0], 0)
    verbs = ("resolve", "raw", *(_API_VERBS if parts[0] == "api" and parts[1:2] and parts[1] in KINDS else ()))
    lonely = parts[0] == "api" and len(parts) == 3 and parts[1] in KINDS
    if error.status_code == 404 and (lonely or (len(parts) > at + 1 and parts[at + 1] in verbs)):
        return await _refusal(request, repo_not_found())
    return answer({"error": error.detail}, error.status_code, error.headers)
