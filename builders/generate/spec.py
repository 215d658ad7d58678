"""What `sample:` and `label:` below a source declare: plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...servers.requests import LimitParameter, ResponseFormat
from ..spec import PromptSpec


@dataclass(frozen=True)
class Draws:
    """``count`` draws of every state at one temperature."""

    temperature: float
    count: int = 1


@dataclass(frozen=True)
class SampleSpec:
    """Candidates to sample for every state.

    Draws are numbered as they are listed, from ``first_draw`` on, so that draws added at the end leave the others as
    they are. A parameter that is None is not sent, which leaves it to the server; all others are always sent.
    """

    endpoint: str  # a server of endpoints.yaml
    model: str  # what each request names as its model
    draws: tuple[Draws, ...]
    max_tokens: int
    n: int = 5  # candidates of a set
    first_draw: int = 0
    top_p: float | None = 1.0
    top_k: int | None = -1  # all tokens
    min_p: float | None = 0.0
    seed: int | None = 0  # of the hash that gives each request its own; None sends none
    per_request: Literal["candidate", "set"] = "candidate"  # set: one request with n, whose tokens are counted as one
    screenshots: int = 1  # the newest of the actor's messages that are shown
    limit_parameter: LimitParameter = "max_tokens"
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def temperatures(self) -> tuple[tuple[int, float], ...]:
        """(number of the draw, its temperature), in order."""
        planned = [draws.temperature for draws in self.draws for _ in range(draws.count)]
        return tuple(enumerate(planned, self.first_draw))

    @property
    def greedy(self) -> int:
        """How many draws leave nothing to chance, so that all candidates of one are equal."""
        return sum(temperature == 0 or self.top_k == 1 for _, temperature in self.temperatures)


@dataclass(frozen=True)
class AskSpec:
    """Verdicts to ask for on every candidate set with two or more distinct actions."""

    endpoint: str
    model: str
    prompt: PromptSpec  # of the kind selection
    max_tokens: int
    repeats: int = 1  # the same question again, in other orders
    seed: int = 0  # of the orders in which candidates are shown
    temperature: float | None = 0.0
    top_p: float | None = 1.0
    sampler_seed: int | None = None  # sent as `seed`
    reasoning_effort: str | None = None  # for models that take it
    response_format: ResponseFormat = "none"
    limit_parameter: LimitParameter = "max_tokens"
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)


GenerateSpec = SampleSpec | AskSpec
