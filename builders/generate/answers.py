"""What became of a request, in the form in which the log keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

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
