"""What the routes share: who asks, bounded bodies, JSON answers, pages of a list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import unquote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from .errors import HubError, repo_not_found
from .store import Caller, Repo, Store

KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}

JSON_LIMIT = 16 * 2**20  # bytes of a request's JSON


def store(request: Request) -> Store:
    found: Store = request.app.state.store
    return found


def caller(request: Request) -> Caller:
    """Who asks, by the token in the `Authorization` header. Raises HubError 401 for an unknown token."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return store(request).caller(token.strip() if scheme.lower() == "bearer" and token.strip() else None)


def param(request: Request, name: str) -> str:
    """A parameter of the path. Routes match the path as it was sent, so that a quoted slash separates nothing."""
    return unquoted(request.path_params[name])


def unquoted(text: str) -> str:
    """Raises HubError 400 for what is not UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise HubError(400, "the path is not UTF-8") from error


def repo(request: Request, *, write: bool = False, contribute: bool = False, files: bool = False) -> Repo:
    """The repository in the path: `{kind}` (or the path's beginning, `/datasets`, or a model), `{namespace}`, `{name}`.

    ``write`` asks for the right to change it, ``contribute`` to propose a change, ``files`` to read its files. Raises
    HubError: as `Store.repo`, 307 for a former name, 401 / 403 GatedRepo.
    """
    first = request.url.path.split("/")[1]
    kind = KINDS.get(request.path_params.get("kind", first if first in KINDS else "models"))
    if kind is None:
        raise repo_not_found()
    namespace, name, who = param(request, "namespace"), param(request, "name"), caller(request)
    found = store(request).repo(kind, namespace, name, who, write=write)
    if (found.namespace.lower(), found.name.lower()) != (namespace.lower(), name.lower()):
        raise _moved(request, found)
    if contribute and not may_contribute(found, who):
        raise HubError(403 if who.user else 401, "a token with write access is needed")
    if files:
        require_access(found, who)
    return found


def split_id(value: object) -> tuple[str, str]:
    """(namespace, name) of a repository's id. Raises HubError 404: an id of another form names none."""
    if not isinstance(value, str) or value.count("/") != 1:
        raise repo_not_found()
    namespace, _, name = value.partition("/")
    return namespace, name


def may_contribute(repo: Repo, who: Caller) -> bool:
    """Whoever sees a repository and may write somewhere may open discussions and pull requests in it."""
    return who.user is not None and who.role == "write" and may_read(repo, who)


def may_read(repo: Repo, who: Caller) -> bool:
    """Whether the files of a repository that ``who`` sees are for them, too: names and sizes are for all who see it."""
    return not repo.gated or who.owns(repo.namespace)


def require_access(repo: Repo, who: Caller) -> None:
    """The files of a gated repository are for those who may write in its namespace. Raises HubError GatedRepo."""
    if may_read(repo, who):
        return
    if who.user is None:
        raise HubError(401, f"Access to {repo.type} {repo.id} is restricted. You must be authenticated.", "GatedRepo")
    message = f"Access to {repo.type} {repo.id} is restricted and you are not in the authorized list."
    raise HubError(403, message, "GatedRepo")


def _moved(request: Request, repo: Repo) -> HubError:
    parts = request.url.path.split("/")
    at = 2 if parts[1] == "api" else 1
    at += parts[at] in KINDS  # neither these nor "api" begin an id: no namespace has such a name
    suffix = ".git" if parts[at + 1].endswith(".git") else ""
    parts[at : at + 2] = [repo.namespace, repo.name + suffix]
    query = f"?{request.url.query}" if request.url.query else ""
    return HubError(307, f"Moved to {repo.id}", headers={"Location": "/".join(parts) + query})


def flag(request: Request, name: str) -> bool:
    """Whether a query parameter says yes; clients write it as `1` or as `true`."""
    return request.query_params.get(name, "").lower() in ("1", "true", "yes")


def number(text: str | None, default: int, *, least: int = 0, most: int = 10**9) -> int:
    """A number of a request within bounds; ``default`` for what is none."""
    given = int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else default
    return min(max(given, least), most)


def base_url(request: Request) -> str:
    """``http://host:port`` as the client wrote it; the Host header was checked before any route."""
    return f"{request.url.scheme}://{request.headers['host']}"


async def body(request: Request, limit: int) -> bytes:
    """The request's body. Raises HubError 413 as soon as it is longer than ``limit`` bytes."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > limit:
            raise HubError(413, f"the request is longer than {limit} bytes")
    return bytes(found)


async def json_body(request: Request, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """The request's JSON object; an empty body is an empty object. Raises HubError 400, 413."""
    return json_object(await body(request, limit))


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object that ``data`` is; nothing is an empty one. Raises HubError 400."""
    try:
        found = json.loads(data) if data else {}
    except (ValueError, RecursionError) as error:
        raise HubError(400, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise HubError(400, "a JSON object is expected")
    return found


def answer(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(data), status, dict(headers or {}), "application/json; charset=utf-8")


def page(request: Request, items: list[Any], size: int) -> tuple[list[Any], dict[str, str]]:
    """One page of ``items`` and the `Link` header that leads to the next. The cursor is a position in the list."""
    start = number(request.query_params.get("cursor"), 0)
    if start + size >= len(items):
        return items[start:], {}
    return items[start : start + size], link(request, "cursor", start + size)


def link(request: Request, key: str, value: int) -> dict[str, str]:
    """The `Link` header to the next page: this request with another ``key``."""
    query = [(name, text) for name, text in request.query_params.multi_items() if name != key]
    url = f"{base_url(request)}{request.url.path}?{urlencode([*query, (key, value)])}"
    return {"Link": f'<{url}>; rel="next"'}


def as_html(text: str) -> str:
    return escape(text, quote=True)
