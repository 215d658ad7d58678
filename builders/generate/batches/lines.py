"""Lines of batch files: what is asked, and what a service or `vllm run-batch` says of it.

A service writes what it answered into one file and what it could not into another; `vllm run-batch` writes one file, in
which a refused request has status 400, no body, and an error inside an error. One function reads both, line by line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ....servers.answers import Outcome, parsed
from ....servers.requests import URL, Request, encoded
from ....servers.words import shortened

Shape = Literal["openai", "vllm"]
_NEVER_RAN = ("batch_expired", "batch_cancelled")
_PASSING = (408, 409, 425, 429)  # 4xx that say nothing of the request


@dataclass(frozen=True)
class Reply:
    """What became of one request. body: of the reply, when there is one (its choices are not looked at here)."""

    custom_id: str
    shape: Shape
    outcome: Outcome
    body: Mapping[str, Any] | None
    detail: str = ""


def input_line(request: Request) -> bytes:
    """With its line end; pictures are in it."""
    return encoded({"custom_id": request.key, "method": "POST", "url": URL, "body": request.wire()}) + b"\n"


def read_reply(raw: bytes) -> Reply:
    """Of one line of an output or error file. Raises ValueError for anything else."""
    data = parsed(raw)
    custom_id = data.get("custom_id") if isinstance(data, Mapping) else None
    if not isinstance(custom_id, str):
        raise ValueError("it has no custom_id")
    response, error = data.get("response"), data.get("error")
    if not isinstance(response, Mapping | None) or not isinstance(error, Mapping | None):
        raise ValueError("response and error are objects or null")
    if response is None and error is None:
        raise ValueError("it has neither a response nor an error")
    status, body = (response.get("status_code"), response.get("body")) if response else (None, None)
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping) and not error:
        error = body
    nested = error is not None and isinstance(error.get("error"), Mapping)
    shape: Shape = "vllm" if str(data.get("id")).startswith("vllm-") or (nested and body is None) else "openai"
    if error is None and isinstance(status, int) and 200 <= status < 300:
        if not isinstance(body, Mapping):
            return Reply(custom_id, shape, "failed", None, f"{status}, and no body")
        return Reply(custom_id, shape, "answered", body)
    told = error["error"] if nested and error else error or {}
    return Reply(custom_id, shape, _outcome(status, told), None, _detail(status, told))


def _outcome(status: Any, error: Mapping[str, Any]) -> Outcome:
    code = error.get("code")
    if code in _NEVER_RAN:
        return "expired"
    status = status if isinstance(status, int) else code  # vLLM repeats the status as the code
    if isinstance(status, int):
        return "rejected" if 400 <= status < 500 and status not in _PASSING else "failed"
    return "rejected" if error.get("type") == "invalid_request_error" else "failed"


def _detail(status: Any, error: Mapping[str, Any]) -> str:
    parts = [status, error.get("code") or error.get("type"), error.get("message")]
    words = dict.fromkeys(str(part) for part in parts if isinstance(part, int | str) and part != "")
    return shortened(" ".join(words) or "an error without words")
