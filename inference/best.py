"""A pick by score: the candidate with the best one, and none where different candidates share it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..prompts.view import Unrenderable
from ..schemas.errors import ArmError, UsageError
from .choice import Choice
from .choosing import How, Local
from .processor import Encoded
from .rendering import Renderer
from .request import Request


class ByScore(Local):
    """A model that scores each candidate for itself; a higher score is better."""

    @abstractmethod
    def score_sets(self, sets: Sequence[Sequence[Encoded]]) -> list[list[float]]:
        """One score for each conversation of each set; one score for those that the model cannot tell apart."""

    def _pick(self, requests: Sequence[Request], how: How, renderer: Renderer) -> list[Choice]:
        if how.orders != 1:
            raise UsageError(
                f"orders={how.orders}: a scalar model sees one candidate at a time, and no order of them",
                next_command="leave orders out",
            )
        shown = [self._shown(request, renderer) for request in requests]
        scored = iter(self.score_sets([rows for rows in shown if not isinstance(rows, Choice)]))
        return [
            rows if isinstance(rows, Choice) else picked(request, rows, next(scored))
            for request, rows in zip(requests, shown, strict=True)
        ]

    def _shown(self, request: Request, renderer: Renderer) -> list[Encoded] | Choice:
        """The conversation with each candidate; a choice where the model does not take one of them."""
        try:
            rendered = renderer.scalar(request.state, request.set_row)
            replies = renderer.replies(request.state, request.set_row)
            images = request.images(rendered.images)
            rows = [self.processor.scalar(rendered.messages, images, reply) for reply in replies]
        except ArmError as error:
            reason = error.reason if isinstance(error, Unrenderable) else "unrenderable"
            return Choice(request.id, reason, None, None, detail=error.message)
        most = self.processor.limits.max_tokens
        long = [(place, len(row.input_ids)) for place, row in enumerate(rows) if len(row.input_ids) > most]
        if long:
            told = f"with candidate {long[0][0]} it has {long[0][1]:,} tokens, and this checkpoint takes {most:,}"
            return Choice(request.id, "too_long", None, None, detail=told)
        return rows


def picked(request: Request, rows: Sequence[Encoded], scores: Sequence[float]) -> Choice:
    """The candidate with the best score. Candidates that are one action, or that the model cannot tell apart, are no
    tie: the first of them is taken."""
    best = max(scores)
    top = [index for index, score in enumerate(scores) if score == best]
    alike = {request.set_row["candidates"][top[0]]["action_key"], rows[top[0]].same}
    for index in top[1:]:
        names = {request.set_row["candidates"][index]["action_key"], rows[index].same}
        if not names & alike:
            told = f"candidates {top[0]} and {index} share the best score, {best:g}"
            return Choice(request.id, "tie", None, None, tuple(scores), detail=told)
        alike |= names
    return Choice(request.id, "ok", top[0], "model", tuple(scores))
