"""What requests cost: at most before they are sent, and as counted by the server afterwards.

Money is whole nano-dollars (1e-9 USD), rounded up per request, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import orjson

from ...servers.endpoints import Price
from ...servers.requests import Request

NANO = 1_000_000_000  # nano-dollars of a dollar
_MOST = 10**9  # tokens of one request that a server may mean
_PICO = 1_000_000  # pico-dollars per token of a dollar per million tokens


class Tokens(NamedTuple):
    """Tokens of one request. ``cached`` are those of ``prompt`` that the server need not compute again."""

    prompt: int
    output: int
    cached: int = 0


class Rates:
    """A price in whole pico-dollars (1e-12 USD) per token, rounded up."""

    def __init__(self, price: Price) -> None:
        self.price = price
        self._input, self._output = _pico(price.input), _pico(price.output)
        self._cached = self._input if price.cached_input is None else _pico(price.cached_input)
        self._batch = Fraction(repr(price.batch))

    def nanos(self, tokens: Tokens, batch: bool) -> int:
        """Nano-dollars of a request of which the server counted ``tokens``."""
        cached = min(tokens.cached, tokens.prompt)
        prompt = (tokens.prompt - cached) * self._input + cached * self._cached
        return self._nanos(prompt + tokens.output * self._output, batch)

    def most(self, tokens: Tokens, batch: bool) -> int:
        """Nano-dollars of a request that the server counts as ``tokens`` at most, whatever it had cached."""
        prompt = tokens.prompt * max(self._input, self._cached)
        return self._nanos(prompt + tokens.output * self._output, batch)

    def _nanos(self, pico: int, batch: bool) -> int:
        divisor = 1000
        if batch:
            pico, divisor = pico * self._batch.numerator, divisor * self._batch.denominator
        return -(-pico // divisor)


def most_tokens(request: Request, price: Price) -> tuple[Tokens, str | None]:
    """The most tokens that a server may count for ``request``, and why that is no bound, or None.

    A token stands for one byte or more, so that the bytes of the body are a bound on those of its text, its roles, the
    schema of a response; what the server adds of its own is ``added_tokens``.
    """
    body = request.body
    unknown = None
    prompt = len(orjson.dumps(body)) + price.added_tokens
    if pictures := _pictures(body["messages"]):
        if price.image_tokens is None:
            unknown = "the price does not say `image_tokens`, the most prompt tokens that one picture is counted as"
        prompt += pictures * (price.image_tokens or 0)
    limits = [limit for name in ("max_tokens", "max_completion_tokens") if (limit := body.get(name)) is not None]
    if not limits:
        unknown = "the request does not limit the tokens of the answer"
    return Tokens(prompt, max(limits, default=0) * (body.get("n") or 1)), unknown


def counted(usage: Mapping[str, Any] | None) -> Tokens | None:
    """The tokens of a server's ``usage``; None when it gives none, or no numbers.

    Reasoning is part of ``completion_tokens``; servers that count it apart have it in ``total_tokens`` only.
    """
    if not isinstance(usage, Mapping):
        return None
    prompt, output = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if prompt is None or output is None:
        return None
    total = _count(usage.get("total_tokens")) or 0
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    return Tokens(prompt, max(output, total - prompt), min(cached or 0, prompt))


class Estimate:
    """What requests would cost, added up one by one as they are made.

    ``answered`` is what those that were answered cost, as a part of what they might have (``Spent.share``).
    """

    def __init__(self, price: Price, *, batch: bool = False, share: float | None = None) -> None:
        self.requests = 0
        self.unknown: str | None = None  # why there is no bound
        self._rates, self._batch, self._share = Rates(price), batch, share
        self._nanos = 0

    def add(self, request: Request) -> None:
        tokens, unknown = most_tokens(request, self._rates.price)
        self.requests += 1
        self.unknown = self.unknown or unknown
        self._nanos += self._rates.most(tokens, self._batch)

    @property
    def at_most_usd(self) -> float | None:
        """The sum of the bounds; None when a request has none (``unknown`` says why)."""
        return None if self.unknown else self._nanos / NANO

    @property
    def about_usd(self) -> float | None:
        """As much of the bounds as answered requests cost of theirs; None before there are any."""
        return None if self._share is None else self._nanos / NANO * self._share


def _pico(usd_per_million: float) -> int:
    pico = Fraction(repr(usd_per_million)) * _PICO  # what was written, not the binary number next to it
    return -(-pico.numerator // pico.denominator)


def _pictures(messages: list[Mapping[str, Any]]) -> int:
    contents = [message["content"] for message in messages]
    return sum(block["type"] == "image_url" for c in contents if not isinstance(c, str) for block in c)


def _count(value: object) -> int | None:
    """A number of tokens that a server may have meant; its JSON is anybody's."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None
