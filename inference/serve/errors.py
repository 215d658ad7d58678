"""What the server answers where it cannot do what was asked: a status, and a body as OpenAI's API has it.

    {"error": {"message": "...", "type": "invalid_request_error", "param": "$.candidates[3]", "code": "text_too_long"}}

``param`` is the JSON path of what is wrong. Only an `HttpError` speaks to a client: it was written for one. Of anything
else a client learns that the server failed, and no more: messages of other errors name files, and the log has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Self

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ...schemas.errors import ArmError, plain

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_TOLD = 10  # issues in one message
_LONGEST = 2000  # characters of a message
_PATH = re.compile(r" (\$\S*)$")  # the JSON path at the end of an error's ``where``
_ROUTES = "POST /select, /score, /v1/chat/completions; GET /v1/models, /health, /metrics"
_GONE = 499  # nobody reads it; in the log it says that the client went away


class HttpError(ArmError):
    """An answer of 4xx or 5xx.

    status: of HTTP. message: for the client, so no path of this machine stands in it. code: one word for programs.
    param: JSON path of what is wrong; None where it is nothing in the body. headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "invalid_request",
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status, self.code, self.param, self.headers = status, code, param, dict(headers or {})
        super().__init__(message, where=param)

    @classmethod
    def about(cls, error: ArmError, *, status: int = 400, code: str = "invalid_request") -> Self:
        """What a client is told of ``error``, which is about what the client sent, and about nothing else."""
        place = _PATH.search(error.where or "")
        colon = "" if error.issues else ":"  # with issues the message goes on after the place
        parts = [f"{error.where}{colon} {error.message}" if error.where and not place else error.message]
        parts += [f"{issue.path} {issue.message}" for issue in error.issues[:_TOLD]]
        if (more := len(error.issues) - _TOLD) > 0:
            parts.append(f"and {more} more")
        if error.next_command:
            parts.append(error.next_command)
        param = error.issues[0].path if error.issues else place and place[1]
        return cls(status, "; ".join(parts), code=code, param=param)

    def to_json(self) -> dict[str, Any]:
        return _body(self.status, self.message, self.code, self.param)


def response(error: BaseException) -> Response:
    """The answer to a request that ended in ``error``."""
    if isinstance(error, HttpError):
        return answer(error.to_json(), error.status, error.headers)
    if isinstance(error, HTTPException):  # of the router: no such route, another method
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
        told = f"{error.detail}; there are {_ROUTES}"
        return answer(_body(error.status_code, told, code, None), error.status_code, error.headers)
    if isinstance(error, ClientDisconnect):
        return answer(_body(_GONE, "the client went away", "client_gone", None), _GONE)
    return answer(_body(500, "the server failed; its log says why", "internal_error", None), 500)


def answer(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """``data`` as JSON, in ASCII: half a surrogate pair could not be sent otherwise."""
    return Response(json.dumps(data, allow_nan=False), status, headers, "application/json")


def _body(status: int, message: str, code: str, param: str | None) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    message = message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"
    return {"error": {"message": plain(message), "type": kind, "param": param, "code": code}}
