"""What `arm label` asks: which candidate of a set is best, for every set with two or more distinct actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from pathlib import Path
from typing import Any

from ...prompts.render import Prompt, rendered_sha256
from ...prompts.view import Unrenderable
from ...schemas.built import Row
from ...schemas.errors import ArmError
from ...schemas.ids import hash_order
from ...servers.requests import Request, chat, selection_form
from .. import views
from .basis import Basis, Pictures, Shelf
from .spec import AskSpec

_STATE = (
    *("state_id", "turn", "task", "url", "history", "screenshot_sha256", "width", "height", "observation_text"),
    *("elements", "source"),
)
_SET = ("set_id", "state_id", "draw", "candidates", "dialect", "space")


@dataclass(frozen=True)
class Question:
    """One repeat of what is asked about a set, and about the other sets of its state with the same actions.

    labels: (id, set) of each label that the answer gives; that of the set which is shown comes first. orders: for each
    of them the candidates (0-based) that stand for the shown actions, in shown order.
    """

    labels: tuple[tuple[str, Row], ...]
    orders: tuple[tuple[int, ...], ...]
    repeat: int
    request: Request
    rendered_sha256: str

    @property
    def requests(self) -> tuple[Request]:
        return (self.request,)

    @property
    def size(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class AskWork:
    """All that one source of labels asks for; see `requests.Work`.

    basis: build with the tables states and candidate_sets. path: the source's file; the log lies beside it.
    """

    basis: Path
    spec: AskSpec
    teacher: str
    path: Path

    @property
    def folder(self) -> Path:
        return self.path.with_suffix(".requests")

    def requests(self, shard: int | None = None) -> Iterator[Request]:
        for question in self.plan(shard):
            yield question.request

    def total(self) -> int:
        return sum(1 for _ in self.plan())

    def plan(self, shard: int | None = None, skipped: Counter[str] | None = None) -> Iterator[Question]:
        """Every question about the states of a shard (None: of all), always in the same order. ``skipped`` counts the
        sets that are not asked about, by reason."""
        skipped = Counter() if skipped is None else skipped
        basis = Basis(self.basis)
        spoken = basis.spoken()
        for states in basis.states(shard, _STATE):
            sets = basis.sets(states, _SET)
            digests = (state["screenshot_sha256"] for state in states)
            shelf = Shelf(basis, frozenset(digest for digest in digests if digest is not None))
            for state in states:
                for same in _same(sets[state["state_id"]], skipped):
                    try:
                        yield from self._asked(state, same, spoken[state["source"]["file"]], shelf)
                    except Unrenderable as error:
                        skipped[error.reason] += len(same)

    @cached_property
    def prompt(self) -> Prompt:
        """Raises ArmError for a prompt that asks for no selection."""
        prompt = views.load(self.spec.prompt)
        if prompt.kind != "selection":
            raise ArmError(f"{prompt.id} is a {prompt.kind} prompt, and a teacher is asked for a selection")
        return prompt

    def __getstate__(self) -> dict[str, Any]:
        """What was declared; each worker process reads the prompt itself."""
        return {name: self.__dict__[name] for name in ("basis", "spec", "teacher", "path")}

    def _asked(
        self, state: Row, same: Sequence[Row], spoken: tuple[str, str | None], shelf: Shelf
    ) -> Iterator[Question]:
        """The questions about sets with the same actions. Raises Unrenderable."""
        prompt, lead = self.prompt, same[0]
        view = prompt.state(state, lead["dialect"], lead["space"], spoken)
        firsts = [_firsts(row) for row in same]
        for repeat, keys in enumerate(shown_orders(list(firsts[0]), lead["set_id"], self.spec)):
            orders = tuple(tuple(first[key] for key in keys) for first in firsts)
            rendered = prompt.selection(view, lead["candidates"], orders[0])
            labels = tuple((f"{row['set_id']}|{self.teacher}|{prompt.id}|{repeat}", row) for row in same)
            body = self._body(chat(rendered.messages, rendered.images), len(keys))
            pictures = Pictures(rendered.images, shelf)
            request = Request(labels[0][0], state["state_id"], body, pictures)
            yield Question(labels, orders, repeat, request, rendered_sha256(*rendered))

    def _body(self, messages: list[dict[str, Any]], shown: int) -> dict[str, Any]:
        spec = self.spec
        sent = {
            "temperature": spec.temperature,
            "top_p": spec.top_p,
            "seed": spec.sampler_seed,
            "reasoning_effort": spec.reasoning_effort,
            "response_format": selection_form(
                spec.response_format, shown, reasoning=self.prompt.options.reasoning == "before"
            ),
            "chat_template_kwargs": dict(spec.chat_template_kwargs) or None,
        }
        known = {name: value for name, value in sent.items() if value is not None}
        return {"model": spec.model, "messages": messages, spec.limit_parameter: spec.max_tokens, **known}


def shown_orders(keys: Sequence[str], set_id: str, spec: AskSpec) -> Iterator[list[str]]:
    """For each repeat, the action keys of a set in shown order.

    It depends on the seed, the set and the repeat only: not on the sampled order, nor on that in which training rows
    show the set, or the habit of a teacher who prefers a place would reach them. No order comes twice before all came.
    """
    used: set[tuple[str, ...]] = set()
    for repeat in range(spec.repeats):
        if len(used) == factorial(len(keys)):
            used.clear()
        attempt = 0
        while True:
            place = (spec.seed, set_id, repeat, attempt)
            order = sorted(keys, key=lambda key: hash_order("asked", *place, key))
            if tuple(order) not in used:
                break
            attempt += 1
        used.add(tuple(order))
        yield order


def _same(sets: Sequence[Row], skipped: Counter[str]) -> Iterator[list[Row]]:
    """Sets of one state that hold the same actions, the one to show first. Equal numbers in another dialect or space
    are other actions. Sets with a single distinct action are counted and left out."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in sets:
        keys = frozenset(_firsts(row))
        if len(keys) < 2:
            skipped["single_distinct_action"] += 1
        else:
            found.setdefault((row["dialect"], row["space"], keys), []).append(row)
    yield from found.values()


def _firsts(row: Row) -> dict[str, int]:
    """Action key -> the first candidate (0-based) with it."""
    found: dict[str, int] = {}
    for candidate in row["candidates"]:
        found.setdefault(candidate["action_key"], candidate["index"])
    return found
