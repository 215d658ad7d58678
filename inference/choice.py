"""What a model made of a state and its candidates: a pick, or a named reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ..prompts.replies import ReplyStatus
from ..schemas.errors import ArmError, UsageError
from ..schemas.validate import nearest

# ok: the model picked. Of a selection ARM: what its reply came to (`prompts.replies`); disagreed: it picked otherwise
# in other orders. Of a scalar model: tie, two different candidates share the best score. Of a request that was not
# asked: too_long, more tokens than the checkpoint takes; no_screenshot, no_observation_text, no_size, the state lacks
# what the prompt shows; unrenderable, it cannot be shown to the model for another reason. error: the server gave no
# reply.
Status = Literal[
    ReplyStatus, "disagreed", "tie", "too_long", "no_screenshot", "no_observation_text", "no_size", "unrenderable",
    "error",
]  # fmt: skip
STATUSES: tuple[str, ...] = tuple(
    dict.fromkeys(name for part in get_args(Status) for name in (get_args(part) or (part,)))
)
# What is done where a model names no candidate. none: the choice says so. raise: `NoChoiceError`. first: the first
# candidate. scalar: what a scalar model picks.
Otherwise = Literal["none", "raise", "first", "scalar"]
ChosenBy = Literal["model", "only", "first", "scalar"]


@dataclass(frozen=True)
class Vote:
    """One reply of a selection ARM.

    order: candidates (0-based) as they were shown. selected_index: the picked candidate (0-based), None unless
    ``status`` is ok. reply: what the model wrote, verbatim; None where nothing came.
    """

    order: tuple[int, ...]
    status: str
    selected_index: int | None
    reply: str | None
    salvaged: bool = False
    detail: str = ""


@dataclass(frozen=True)
class Choice:
    """The answer to one request.

    status: ok, or why the model picked none; it stays, whatever is done about it.
    selected_index: the candidate to carry out (0-based), whoever chose it; None when nobody did.
    chosen_by: model; only, all candidates are one action, so that a selection ARM need not be asked; first or scalar
    where the model picked none and the caller wanted that; None: nobody.
    scores: of the scalar model that was asked, one for each candidate, in their order; a higher one is better. None
    where none was.
    votes: of a selection ARM, one for each order asked; empty of a scalar model.
    detail: one clause for a person; empty when there is nothing to add.
    """

    id: str
    status: str
    selected_index: int | None
    chosen_by: ChosenBy | None
    scores: tuple[float, ...] | None = None
    votes: tuple[Vote, ...] = ()
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class NoChoiceError(ArmError):
    """The model picked no candidate. ``choice`` says what it did."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        told = f"no candidate was picked: {choice.status}" + (f" ({choice.detail})" if choice.detail else "")
        super().__init__(
            told, where=choice.id,
            next_command='otherwise="first" or "scalar" picks one nevertheless, and says so; "none" leaves it to you',
        )  # fmt: skip


def refuse_unknown(name: str, value: str, known: Sequence[str]) -> None:
    """Raise UsageError for a value of ``name`` that does not exist."""
    if value not in known:
        close = nearest(value, known) if isinstance(value, str) else None
        told = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
        raise UsageError(f"{name}={value!r} is not known; {told}")
