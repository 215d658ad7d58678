"""The routes of `arm serve`, and what holds for all of them.

POST /select, /score and /v1/chat/completions ask the model; GET /v1/models, /health and /metrics say what is served
and how it is. Errors have OpenAI's form on every route, and each request is counted and logged once.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..choice import Choice
from . import bodies, errors, face, metrics
from .engine import Answered, Engine, UnservedError
from .errors import HttpError
from .log import Entry, RequestLog

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
HEADERS = 16 * 1024  # bytes of a request's headers together
_ADDRESS = re.compile(r"\b[a-z]+://[^\s;,]+")
_ENTRY = "arm.entry"  # in the scope of a request
_ROUTES = frozenset({"/select", "/score", "/v1/chat/completions", "/v1/models", "/health", "/metrics"})
_OPEN = frozenset({"/health"})  # for whoever watches the server, who has no token


@dataclass(frozen=True)
class Service:
    """name: of the model, as clients say it. created: when serving began, in Unix seconds. token: what clients must
    send; None: nothing. hosts: names under which clients may reach the server, in lower case, without a port."""

    engine: Engine
    name: str
    created: int
    limits: bodies.Limits = field(default_factory=bodies.Limits)
    token: str | None = None
    hosts: frozenset[str] = LOOPBACK
    log: RequestLog = field(default_factory=lambda: RequestLog(None))

    # -- routes --------------------------------------------------------------------------------------------------------

    async def select(self, request: Request) -> Response:
        _, choice = await self._asked(request, _as_sent)
        return errors.answer({**choice.to_json(), "model": self.name})

    async def score(self, request: Request) -> Response:
        if self.engine.model.kind != "scalar":
            told = "this model picks one of several actions and gives no scores; ask /select"
            raise HttpError(400, told, code="no_scores")
        _, choice = await self._asked(request, _as_sent)
        status = "ok" if choice.scores is not None else choice.status  # that two are equally good is no fault here
        found = {"id": choice.id, "status": status, "scores": choice.scores, "detail": choice.detail}
        return errors.answer({**found, "model": self.name})

    async def chat(self, request: Request) -> Response:
        body, choice = await self._asked(request, lambda body: face.question(body, self.name))
        return face.response(body, face.completion(choice, self.name, int(time.time())))

    async def models(self, request: Request) -> Response:
        return errors.answer(face.models(self.name, self.created))

    async def one_model(self, request: Request) -> Response:
        if (asked := request.path_params["model"]) != self.name:
            raise face.no_model(asked, self.name)
        return errors.answer(face.model(self.name, self.created))

    async def health(self, request: Request) -> Response:
        engine = self.engine
        status = "draining" if engine.draining else "failing" if engine.failing else "ok"
        told = {"status": status, "model": self.name, "kind": engine.model.kind, "inside": engine.inside}
        request.scope[_ENTRY].outcome = status
        return errors.answer(told, 200 if status == "ok" else 503)

    async def figures(self, request: Request) -> Response:
        engine = self.engine
        named = {"model": self.name, "kind": engine.model.kind}
        text = engine.metrics.text(
            named, inside=engine.inside, waiting=engine.waiting, draining=engine.draining
        )  # fmt: skip
        return Response(text, headers={"X-Content-Type-Options": "nosniff"}, media_type=metrics.CONTENT_TYPE)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _asked(self, request: Request, question: Callable[[Any], Any]) -> tuple[Any, Choice]:
        """What an answer needs to know of the body of a request, and what the model makes of it. ``question``: the
        `pick_request/1` in a body. Raises HttpError and ClientDisconnect."""
        entry: Entry = request.scope[_ENTRY]
        engine, timeout_s = self.engine, self.engine.bounds.timeout_s
        with engine.place():
            try:
                async with asyncio.timeout(timeout_s):
                    body = await bodies.read_body(request, self.limits)
                    read = engine.model.read
                    asked = await bodies.off_loop(lambda: bodies.pick_request(question(body), read, self.limits))
                    entry.n = asked.n
                    body = _form(body)  # its picture is held once, and not twice, while others are asked about
                    answered = await _unless_gone(request, engine.submit(asked))
            except TimeoutError as error:
                told, wait_s = f"no answer within {timeout_s:g} s", engine.retry_after_s()
                raise UnservedError(told, code="timeout", status=504, retry_after_s=wait_s) from error
        choice, entry.batch = _without_addresses(answered.choice), answered.batch
        if choice.status == "error" and choice.selected_index is None:
            why = "; ".join(dict.fromkeys(filter(None, (choice.detail, *(vote.detail for vote in choice.votes)))))
            raise HttpError(502, f"the model's own server gave no reply: {why}", code="error")
        entry.outcome = choice.status
        return body, choice


def create_app(service: Service) -> ASGIApp:
    """The application of ``service``, whose engine has been started."""
    routes = [
        Route("/select", _answering(service.select), methods=["POST"]),
        Route("/score", _answering(service.score), methods=["POST"]),
        Route("/v1/chat/completions", _answering(service.chat), methods=["POST"]),
        Route("/v1/models", _answering(service.models)),
        Route("/v1/models/{model:path}", _answering(service.one_model)),
        Route("/health", _answering(service.health)),
        Route("/metrics", _answering(service.figures)),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_route})
    app.router.redirect_slashes = False
    return _Guard(app, service)


def _answering(make: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await make(request)
        except Exception as error:  # of every kind: clients get OpenAI's form, and never a stack
            return _refusal(request.scope[_ENTRY], error)

    return endpoint


def _refusal(entry: Entry, error: Exception) -> Response:
    response = errors.response(error)
    entry.outcome = orjson.loads(response.body)["error"]["code"]
    if response.status_code == 500:
        entry.error = error.__cause__ or error
    return response


async def _no_route(request: Request, error: Exception) -> Response:
    return _refusal(request.scope[_ENTRY], error)


async def _unless_gone(request: Request, answer: Coroutine[Any, Any, Answered]) -> Answered:
    """``answer``, unless the client leaves before it: then it is given up, and ClientDisconnect raised."""
    asking, leaving = asyncio.create_task(answer), asyncio.create_task(_left(request))
    try:
        await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise ClientDisconnect
        return asking.result()
    finally:
        asking.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _form(body: Any) -> dict[str, Any]:
    """What `face.response` looks at."""
    return {name: body[name] for name in ("stream", "stream_options") if name in body} if isinstance(body, dict) else {}


def _without_addresses(choice: Choice) -> Choice:
    """A client has no business with where the model's own server is, which stands in what went wrong there."""
    votes = tuple(replace(vote, detail=_ADDRESS.sub("its address", vote.detail)) for vote in choice.votes)
    return replace(choice, votes=votes, detail=_ADDRESS.sub("its address", choice.detail))


def _as_sent(body: Any) -> Any:
    return body


# -- around all routes -------------------------------------------------------------------------------------------------


class _Guard:
    """Who may ask, under which name; a request id; the log and the counts.

    Host: a web page whose name was pointed at this machine would otherwise speak to the server from a person's browser.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"  # the server has no other kind switched on
        entry = Entry(secrets.token_hex(8), _route(scope["path"]))
        scope[_ENTRY] = entry
        began, status = time.monotonic(), 0
        fixed = [(b"x-request-id", entry.id.encode())]

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # A client of a server that is about to end must not send its next request into a closed connection.
                last = [(b"connection", b"close")] if self._service.engine.draining else []
                message = {**message, "headers": [*message.get("headers", []), *fixed, *last]}
            await send(message)

        try:
            if refused := self._refused(scope):
                await _refusal(entry, refused)(scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        finally:
            seconds = time.monotonic() - began
            entry.outcome = entry.outcome or "ok"
            self._service.engine.metrics.request(entry.route, status, entry.outcome, entry.n, seconds)
            self._service.log.write(entry, scope["method"], status, seconds)

    def _refused(self, scope: Scope) -> HttpError | None:
        service = self._service
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS:
            return HttpError(431, f"the headers are longer than {HEADERS} bytes", code="headers_too_large")
        if {b"transfer-encoding", b"content-length"} <= {name for name, _ in scope["headers"]}:
            # A proxy may go by the other one, and take what follows this body for the next client's request.
            told, close = "a body has one length: by Content-Length or in chunks", {"Connection": "close"}
            return HttpError(400, told, headers=close)
        if _host(scope) not in service.hosts:
            return HttpError(
                421, "this server does not answer for that Host; --allow-host names more", code="wrong_host"
            )
        if service.token is None or scope["path"] in _OPEN:
            return None
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if scheme.lower() == b"bearer" and hmac.compare_digest(key.strip(), service.token.encode()):
            return None
        told, asks = "this server asks for its token, as an API key", {"WWW-Authenticate": "Bearer"}
        return HttpError(401, told, code="invalid_api_key", headers=asks)


def _route(path: str) -> str:
    """A route's name, of which there are few: what clients send must not make up more."""
    return path if path in _ROUTES else "/v1/models/{model}" if path.startswith("/v1/models/") else "other"


def _host(scope: Scope) -> str:
    """The host of the Host header, in lower case, without its port; "" when there is not exactly one."""
    found = [value for name, value in scope["headers"] if name == b"host"]
    try:
        parts = urlsplit(f"//{found[0].decode('ascii')}") if len(found) == 1 else urlsplit("")
        _ = parts.port  # ValueError when it is no number
    except ValueError:  # UnicodeDecodeError is one
        return ""
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        return ""
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host
