"""One candidate set with all that training rows are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..schemas.actions import Parsed, View
from .candidate_scores import Scores
from .ledger import Row


class Scene(NamedTuple):
    """A candidate set as training rows see it."""

    set_row: Row
    parsed: Sequence[Parsed]  # as sampled
    view: View  # of the candidates' points
    state: Row
    dialect: str  # of the candidates
    spoken: tuple[str, str | None]  # dialect and space of the state's own record: its earlier steps
    scores: Scores
    # Labels to which a person gave another answer, as their teacher gave them. The labels beside the scene have it.
    answered: Mapping[str, Row] = MappingProxyType({})

    @property
    def quality(self) -> list[float | None] | None:
        """The one score of each candidate; None when the set was not scored.

        Where several things scored a set, the first by name counts.
        """
        return self.scores[min(self.scores)] if self.scores else None
