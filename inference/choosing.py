"""A state and its candidates in, a pick out: what every model here can do, whoever runs it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from ..prompts.render import Prompt
from ..schemas.errors import UsageError
from . import contract as contracts
from .choice import Choice, NoChoiceError, Otherwise, refuse_unknown
from .contract import Contract
from .rendering import Renderer
from .request import Request, read, spoken_of, way

if TYPE_CHECKING:
    from .processor import Processor

Agree = Literal["majority", "all"]
NEW_TOKENS = 256  # of a reply of a selection ARM, where nobody says otherwise


@dataclass(frozen=True)
class How:
    """How a pick is made.

    orders: so many different orders of the candidates are shown to a selection ARM, the one of training first.
    agree: majority, more than half of the orders pick the same action; all, every order does.
    otherwise: what is done where the model names no candidate; see `choice.Otherwise`. scalar: for ``scalar``.
    max_new_tokens: of a reply of a selection ARM.

    Raises UsageError for what does not exist or does not go together.
    """

    orders: int = 1
    agree: Agree = "majority"
    otherwise: Otherwise = "none"
    scalar: Chooser | None = None
    max_new_tokens: int = NEW_TOKENS

    def __post_init__(self) -> None:
        for name in ("orders", "max_new_tokens"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise UsageError(f"{name}={value!r}: a whole number of at least 1 is meant")
        refuse_unknown("otherwise", self.otherwise, get_args(Otherwise))
        refuse_unknown("agree", self.agree, get_args(Agree))
        if (self.otherwise == "scalar") is not (self.scalar is not None):
            said = "needs one" if self.scalar is None else "is what a scalar model is for"
            raise UsageError(f'otherwise="scalar" {said}', next_command='otherwise="scalar", scalar=MODEL')
        if self.scalar is not None and self.scalar.kind != "scalar":
            raise UsageError(f"scalar= is a {self.scalar.kind}, and a scalar model is meant")


OR_RAISE = How(otherwise="raise")


class Chooser(ABC):
    """A model behind whatever runs it. ``contract``: the manifest's ``checkpoint``; of a prompt alone, what it says."""

    kind: ClassVar[str]  # as in the contract
    contract: Contract
    _prompt: Prompt | None = None

    @property
    @abstractmethod
    def folder(self) -> Path | None:
        """Where the files of the checkpoint are; None where there is none."""

    @property
    def prompt(self) -> Prompt:
        """What the model is asked with. Raises ArmError where the checkpoint brings no prompt and nobody gave one."""
        if self._prompt is None:
            self._prompt = contracts.own_prompt(self.folder, self.contract)
        return self._prompt

    def asked_with(self, prompt: Prompt) -> Self:
        """This model, asked with ``prompt``: for a checkpoint that brings none, as `prompts.render.load_prompt_file`
        reads one. Raises ArmError for one of another kind, and for any but its own where the checkpoint has one."""
        contracts.refuse_other_words(prompt, self.contract, str(self.folder or prompt.id))
        self._prompt = prompt
        return self

    def read(self, data: Any, where: str = "the request", line: int = 0) -> Request:
        """`request.read` of ``data``, in the ways in which the checkpoint's data was written."""
        return read(data, spoken_of(self.contract), where, line)

    def choose(
        self, state: Mapping[str, Any], candidates: Sequence[str | Mapping[str, str]], how: How = OR_RAISE, **more: Any
    ) -> Choice:
        """The choice for one state; ``more``: id, dialect, space, as `pick_request/1` has them. Raises NoChoiceError
        where the model picks none, unless ``how`` says otherwise."""
        if isinstance(candidates, str | Mapping):
            raise UsageError("candidates are a list; this is one candidate, and its parts would be taken for several")
        request = self.read({"state": state, "candidates": list(candidates), **more})
        return self.choose_many([request], how)[0]

    def choose_many(
        self, requests: Sequence[Request], how: How = How(), *, renderer: Renderer | None = None
    ) -> list[Choice]:
        """One choice for each request, in their order; one that cannot be asked has a status that says why, and does
        not keep the others from being asked.

        renderer: of the build that the requests are rows of. Raises NoChoiceError for the first request without a pick
        where ``how`` says so, and ArmError for what concerns all of them, such as a prompt that is not the model's.
        """
        shows = renderer or Renderer(self.prompt)
        contracts.refuse_other_words(shows.prompt, self.contract, str(self.folder or self.prompt.id))
        strange = {place: told for place, one in enumerate(requests) if (told := self._strange(one))}
        known = [one for place, one in enumerate(requests) if place not in strange]
        picked = iter(self._pick(known, how, shows))
        choices = [
            Choice(one.id, "unrenderable", None, None, detail=strange[place]) if place in strange else next(picked)
            for place, one in enumerate(requests)
        ]
        return _settled(choices, requests, how, shows)

    def _strange(self, request: Request) -> str:
        """Why a row of a build says nothing to this model; empty where it does."""
        spoken = spoken_of(self.contract)
        mine = request.set_row["dialect"], request.set_row["space"]
        if spoken is None or mine in spoken:
            return ""
        return f"its actions are in {way(*mine)}, and the model was trained on {', '.join(way(*one) for one in spoken)}"

    @abstractmethod
    def _pick(self, requests: Sequence[Request], how: How, renderer: Renderer) -> list[Choice]:
        """What the model itself picks, one for each request."""


class Local(Chooser):
    """A model in this process, with the processor that lies beside it.

    Threads that ask at once are answered one after the other: between its steps a model keeps where it is in the
    conversation, and would take that of another.
    """

    processor: Processor
    _turn: ClassVar = threading.RLock()  # of the thread that asks; a scalar model may be asked on behalf of an ARM

    @property
    def folder(self) -> Path:
        return self.processor.folder

    def choose_many(
        self, requests: Sequence[Request], how: How = How(), *, renderer: Renderer | None = None
    ) -> list[Choice]:
        with self._turn:
            return super().choose_many(requests, how, renderer=renderer)


def _settled(choices: list[Choice], requests: Sequence[Request], how: How, renderer: Renderer) -> list[Choice]:
    """``choices``, with what ``how`` wants done where there is none."""
    without = [place for place, one in enumerate(choices) if one.selected_index is None]
    if how.otherwise == "none" or not without:
        return choices
    if how.otherwise == "raise":
        raise NoChoiceError(choices[without[0]])
    if how.otherwise == "first":
        made = [replace(choices[place], selected_index=0, chosen_by="first") for place in without]
    else:
        assert how.scalar is not None
        others = how.scalar.choose_many([requests[place] for place in without], renderer=renderer.of(how.scalar.prompt))
        made = [_by_scalar(choices[place], other) for place, other in zip(without, others, strict=True)]
    settled = dict(zip(without, made, strict=True))
    return [settled.get(place, one) for place, one in enumerate(choices)]


def _by_scalar(choice: Choice, other: Choice) -> Choice:
    if other.selected_index is not None:
        return replace(choice, selected_index=other.selected_index, chosen_by="scalar", scores=other.scores)
    told = f"the scalar model picks none, either: {other.status}" + (f" ({other.detail})" if other.detail else "")
    return replace(choice, scores=other.scores, detail="; ".join(filter(None, (choice.detail, told))))
