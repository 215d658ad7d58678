"""What `arm sample` asks for: every candidate of every planned draw of every state, as requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...prompts.render import Message
from ...prompts.view import Unrenderable
from ...schemas.ids import sha256_hex
from ...servers.requests import Request, chat
from ..actor_messages import actor_prompt
from .basis import Basis, Pictures, Shelf
from .spec import SampleSpec

_COLUMNS = ("state_id", "messages_json", "prompt_text", "tools_json", "screenshot_sha256")


@dataclass(frozen=True)
class PlannedSet:
    """A draw of one state. ``requests``: one for each candidate in order, or a single one for all of them."""

    set_id: str
    state_id: str
    draw: int
    n: int
    sampling: Mapping[str, Any]  # parameters as they are sent; None where one is not
    requests: tuple[Request, ...]
    size: int = 1


@dataclass(frozen=True)
class SampleWork:
    """All that one source of sampled candidates asks for; see `requests.Work`.

    basis: build with the table states. path: the source's file; the log lies beside it.
    """

    basis: Path
    spec: SampleSpec
    path: Path

    @property
    def folder(self) -> Path:
        return self.path.with_suffix(".requests")

    def requests(self, shard: int | None = None) -> Iterator[Request]:
        for planned in self.plan(shard):
            yield from planned.requests

    def total(self) -> int:
        states = sum(1 for _ in self._states(None, Counter()))
        return states * len(self.spec.temperatures) * len(_places(self.spec))

    def plan(self, shard: int | None = None, skipped: Counter[str] | None = None) -> Iterator[PlannedSet]:
        """Every draw of every state of a shard (None: of all), always in the same order. ``skipped`` counts the states
        that cannot be shown, and have no draw at all, by reason."""
        for state_id, messages, pictures in self._states(shard, Counter() if skipped is None else skipped):
            for draw, temperature in self.spec.temperatures:
                yield self._set(state_id, draw, temperature, messages, pictures)

    def _states(
        self, shard: int | None, skipped: Counter[str]
    ) -> Iterator[tuple[str, list[Message], Mapping[str, bytes]]]:
        """(id, prompt as it is sent, its pictures) of the states that can be shown; the others are counted."""
        basis = Basis(self.basis)
        for states in basis.states(shard, _COLUMNS):
            shown = []
            for state in states:
                try:
                    messages, images = actor_prompt(state, self.spec.screenshots, basis.stored)
                except Unrenderable as error:
                    skipped[error.reason] += 1
                    continue
                shown.append((state["state_id"], messages, images))
            shelf = Shelf(basis, frozenset(image for _, _, images in shown for image in images))
            for state_id, messages, images in shown:
                yield state_id, chat(messages, images), Pictures(tuple(dict.fromkeys(images)), shelf)

    def _set(
        self, state_id: str, draw: int, temperature: float, messages: list[Message], pictures: Mapping[str, bytes]
    ) -> PlannedSet:
        spec, set_id = self.spec, f"{state_id}#d{draw}"
        known = {"temperature": temperature, "top_p": spec.top_p, "top_k": spec.top_k, "min_p": spec.min_p}
        requests = []
        for place in _places(spec):
            sent = {**known, "seed": seed_of(spec, state_id, draw, place)}
            body = {
                "model": spec.model,
                "messages": messages,
                spec.limit_parameter: spec.max_tokens,
                **{name: value for name, value in sent.items() if value is not None},
                **({"n": spec.n} if spec.per_request == "set" else {}),
                **({"chat_template_kwargs": dict(spec.chat_template_kwargs)} if spec.chat_template_kwargs else {}),
            }
            requests.append(Request(f"{set_id}|{place}", state_id, body, pictures))
        seeds = {request.body.get("seed") for request in requests}
        sampling = {**known, "max_tokens": spec.max_tokens, "seed": seeds.pop() if len(seeds) == 1 else None}
        return PlannedSet(set_id, state_id, draw, spec.n, sampling, tuple(requests))


def _places(spec: SampleSpec) -> range:
    """The candidates of a set that have a request of their own: all, or the first, which asks for all."""
    return range(spec.n if spec.per_request == "candidate" else 1)


def seed_of(spec: SampleSpec, state_id: str, draw: int, candidate: int) -> int | None:
    """31 bits from a hash, so that no request depends on which others there are; None where no seed is sent."""
    if spec.seed is None:
        return None
    return int(sha256_hex(f"{spec.seed}\n{state_id}\n{draw}\n{candidate}")[:8], 16) >> 1
