"""What a selection ARM is asked about a request, in one or several orders, and what its replies come to together.

A vote is for an action: picks of candidates that are one action count together, and the first of them is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..prompts.render import Rendered
from ..prompts.replies import Reply
from ..prompts.view import Unrenderable
from ..schemas.errors import ArmError
from .choice import Choice, Vote
from .choosing import How
from .contract import Contract
from .orders import several
from .rendering import Renderer, Shown
from .request import Request


@dataclass(frozen=True)
class Asked:
    """One prompt. place: of its request. number: of the order (0-based). images: bytes of its pictures, in order."""

    place: int
    number: int
    order: tuple[int, ...]
    rendered: Rendered
    images: Sequence[bytes]

    def vote(self, reply: Reply, text: str | None) -> Vote:
        """What a reply picks; its number counts the shown candidates from 1."""
        index = self.order[reply.selected - 1] if reply.selected is not None else None
        return Vote(self.order, reply.status, index, text, reply.salvaged, reply.detail)

    def failed(self, status: str, detail: str) -> Vote:
        """No reply came."""
        return Vote(self.order, status, None, None, detail=detail)


def asked(
    requests: Sequence[Request], how: How, contract: Contract, renderer: Renderer
) -> tuple[list[Asked], dict[int, Choice]]:
    """(Every prompt to be answered; the choices of requests about which nothing is asked, by place.)"""
    shown = Shown.to(contract)
    prompts: list[Asked] = []
    settled: dict[int, Choice] = {}
    for place, request in enumerate(requests):
        if request.set_row["distinct_actions"] == 1:
            settled[place] = Choice(request.id, "ok", 0, "only")
            continue
        try:
            orders = several(request.set_row["set_id"], shown.order(request.set_row), how.orders)
            made = []
            for number, order in enumerate(orders):
                rendered = renderer.selection(request.state, request.set_row, order)
                made.append(Asked(place, number, tuple(order), rendered, request.images(rendered.images)))
        except ArmError as error:
            reason = error.reason if isinstance(error, Unrenderable) else "unrenderable"
            settled[place] = Choice(request.id, reason, None, None, detail=error.message)
        else:
            prompts += made
    return prompts, settled


def choices(
    requests: Sequence[Request], prompts: Sequence[Asked], votes: Sequence[Vote], settled: Mapping[int, Choice],
    how: How,
) -> list[Choice]:  # fmt: skip
    """One choice for each request, from a vote for each of ``prompts``."""
    cast: dict[int, list[Vote]] = {}
    for one, vote in zip(prompts, votes, strict=True):
        cast.setdefault(one.place, []).append(vote)
    return [
        settled[place] if place in settled else counted(request, cast[place], how)
        for place, request in enumerate(requests)
    ]


def counted(request: Request, votes: Sequence[Vote], how: How) -> Choice:
    """What the votes on one request come to.

    Without an agreement it is ``disagreed`` where two actions were picked; else what most of the other replies came to.
    """
    keys = [one["action_key"] for one in request.set_row["candidates"]]
    picks = Counter(keys[vote.selected_index] for vote in votes if vote.selected_index is not None)
    failed = Counter(vote.status for vote in votes if vote.selected_index is None)
    key, most = picks.most_common(1)[0] if picks else ("", 0)
    if most == len(votes) or (how.agree == "majority" and 2 * most > len(votes)):
        told = f"{most} of {len(votes)} orders agree" if most < len(votes) else ""
        return Choice(request.id, "ok", keys.index(key), "model", votes=tuple(votes), detail=told)
    if len(votes) == 1:
        told = votes[0].detail
    else:
        parts = [f"{len(picks)} actions were picked" if len(picks) > 1 else f"{most} for one action"] * bool(picks)
        parts += [f"{count} {status}" for status, count in failed.items()]
        told = f"of {len(votes)} orders: {', '.join(parts)}"
    status = "disagreed" if len(picks) > 1 else failed.most_common(1)[0][0]
    return Choice(request.id, status, None, None, votes=tuple(votes), detail=told)
