"""What became of a request, in the form in which the log keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

import orjson

_LONGEST_USAGE = 16_384  # bytes
# answered: the model replied, whatever it said. The others have no reply: rejected by the server (4xx), failed there or
# on the way (5xx, time-outs, connections), expired or missing in a batch. All but the first are asked again.
Outcome = Literal["answered", "rejected", "failed", "expired", "missing"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Choice:
    """One reply of a model, verbatim. ``logprob`` is the sum over its tokens (nats), when the server gave them."""

    text: str
    finish_reason: str | None = None
    refusal: str | None = None
    reasoning: str | None = None  # what a server gives apart from the text
    logprob: float | None = None


@dataclass(frozen=True)
class Answer:
    """The outcome of the request ``key`` of ``slot``.

    detail: for what was not answered, status and the server's own words, shortened.
    model: what the server says it served. usage: its count of tokens, as it gave it.
    """

    key: str
    slot: str
    outcome: Outcome
    choices: tuple[Choice, ...] = ()
    detail: str = ""
    model: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    usage: Mapping[str, Any] | None = None
    batch_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "choices": tuple(Choice(**choice) for choice in data["choices"])})


def parsed(content: bytes) -> Any:
    """The JSON that a server sent; also half a surrogate pair, NaN and long integers. Raises ValueError."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not JSON: {error}") from error


def usage_of(body: Any) -> dict[str, Any] | None:
    """What a completion says it used, as far as every file of ours can hold it."""
    usage = body.get("usage") if isinstance(body, Mapping) else None
    if not isinstance(usage, dict):
        return None
    try:
        written = orjson.dumps(usage)  # no integer of more than 64 bits, nothing nested for ever
    except TypeError:
        return None
    return orjson.loads(written) if len(written) <= _LONGEST_USAGE else None


def answer_of(
    key: str, slot: str, body: Any, *, n: int = 1, engine: str | None = None, engine_version: str | None = None,
    batch_id: str | None = None,
) -> Answer:  # fmt: skip
    """The answer that the body of a chat completion is, whether it came live, in a batch or in a file.

    n: the choices that were asked for. What is no such body, or holds another number of them, is ``failed``, and its
    detail says why.
    """
    served: dict[str, Any] = {"engine": engine, "engine_version": engine_version, "batch_id": batch_id}
    try:
        choices = _choices(body, n)
    except ValueError as error:
        return Answer(key, slot, "failed", detail=f"the reply is not what was asked for: {error}", **served)
    return Answer(key, slot, "answered", choices, model=_text(body, "model"), usage=usage_of(body), **served)


def _choices(body: Any, n: int) -> tuple[Choice, ...]:
    """In the order of their indices, where all have one."""
    if not isinstance(body, Mapping):
        raise ValueError("it is no JSON object")
    choices = body.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
        raise ValueError("it has no list of choices")
    if len(choices) != n:
        raise ValueError(f"it has {len(choices)} choices, not {n}")
    if sorted(choice["index"] for choice in choices if type(choice.get("index")) is int) == list(range(n)):
        choices = sorted(choices, key=lambda choice: int(choice["index"]))
    return tuple(map(_choice, choices))


def _choice(choice: Mapping[str, Any]) -> Choice:
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise ValueError("a choice has no message")
    content = message.get("content")
    if isinstance(content, list):  # blocks, as some servers send them
        texts = [block.get("text") if isinstance(block, Mapping) else None for block in content]
        content = "".join(texts) if all(isinstance(text, str) for text in texts) else texts  # type: ignore[arg-type]
    if not isinstance(content, str | None):
        raise ValueError("the content of a choice is no text")
    if not content and message.get("tool_calls"):
        raise ValueError("the server took tool calls out of the text, which is wanted verbatim: turn its parser off")
    reasoning = _text(message, "reasoning_content") or _text(message, "reasoning")
    return Choice(content or "", _text(choice, "finish_reason"), _text(message, "refusal"), reasoning, _logprob(choice))


def _text(data: Mapping[str, Any], name: str) -> str | None:
    return data[name] if isinstance(data.get(name), str) else None


def _logprob(choice: Mapping[str, Any]) -> float | None:
    logprobs = choice.get("logprobs")
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(tokens, list):
        return None
    values = [token.get("logprob") if isinstance(token, Mapping) else None for token in tokens]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if not numbers or len(numbers) != len(values):
        return None
    try:
        total = math.fsum(numbers)
    except (OverflowError, ValueError):  # beyond every number, or infinities that cancel out
        return None
    return total if math.isfinite(total) else None
