"""What the routes share: who asks, bounded bodies, JSON answers, pages of a list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from .errors import HubError
from .store import Caller, Store

JSON_LIMIT = 16 * 2**20  # bytes of a request's JSON


def store(request: Request) -> Store:
    found: Store = request.app.state.store
    return found


def caller(request: Request) -> Caller:
    """Who asks, by the token in the `Authorization` header. Raises HubError 401 for an unknown token."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return store(request).caller(token.strip() if scheme.lower() == "bearer" and token.strip() else None)


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
    data = await body(request, limit)
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
    cursor = request.query_params.get("cursor", "0")
    start = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 12 else 0
    if start + size >= len(items):
        return items[start:], {}
    query = [(key, value) for key, value in request.query_params.multi_items() if key != "cursor"]
    url = f"{base_url(request)}{request.url.path}?{urlencode([*query, ('cursor', start + size)])}"
    return items[start : start + size], {"Link": f'<{url}>; rel="next"'}
