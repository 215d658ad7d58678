"""A state and its candidates in, a pick out: what every model here can do, whoever runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .choice import Choice, Otherwise
from .contract import Contract
from .rendering import Renderer
from .request import Request, read, spoken_of


@dataclass(frozen=True)
class How:
    """How a pick is made.

    orders: so many different orders of the candidates are shown to a selection ARM, the one of training first.
    agree: majority, more than half of the orders pick the same action; all, every order does. Otherwise: disagreed.
    otherwise: what is done where the model names no candidate; see `choice.Otherwise`. scalar: for ``scalar``.
    max_new_tokens: of a reply of a selection ARM.
    """

    orders: int = 1
    agree: Literal["majority", "all"] = "majority"
    otherwise: Otherwise = "none"
    scalar: Chooser | None = None
    max_new_tokens: int = 256


OR_RAISE = How(otherwise="raise")


class Chooser(ABC):
    """A model behind whatever runs it. ``contract``: the manifest's ``checkpoint``; of a prompt alone, what it says."""

    kind: str
    contract: Contract

    def read(self, data: Any, where: str = "the request", line: int = 0) -> Request:
        """`request.read` of ``data``, in the ways in which the checkpoint's data was written."""
        return read(data, spoken_of(self.contract), where, line)

    @abstractmethod
    def choose_many(
        self,
        requests: Sequence[Request],
        how: How = How(),
        *,
        renderer: Renderer | None = None,
    ) -> list[Choice]:
        """One choice for each request, in their order. renderer: of the build that the requests are rows of."""

    def choose(
        self, state: Mapping[str, Any], candidates: Sequence[str | Mapping[str, str]], how: How = OR_RAISE, **more: Any
    ) -> Choice:
        """The choice for one state; ``more``: id, dialect, space, as `pick_request/1` has them. Raises NoChoiceError
        where the model picks none, unless ``how`` says otherwise."""
        request = self.read({"state": state, "candidates": list(candidates), **more})
        return self.choose_many([request], how)[0]
