"""How far a generated file is: what was planned, answered, failed, and is still to be asked, and what that would cost.

Nothing is sent and nothing is written. What counts as answered stands in the log, or in the file itself, for whoever
has the registry and not the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..builders.gathering import Progress
from ..builders.generate.batches.ledger import Ledger
from ..builders.generate.costs import Estimate
from ..builders.generate.log import SHARDS, AnswerLog
from ..builders.generate.spec import AskSpec, GenerateSpec
from ..builders.generate.spend import report
from ..builders.spec import BuildSpec
from ..schemas.errors import ArmError
from ..schemas.jsonl import JsonError, loads_line, read_lines
from ..servers.endpoints import Price
from . import graph
from .endpoints import Known
from .generated import Made
from .generating import Generation, awaiting, generation

if TYPE_CHECKING:
    from .declaration import Registry

Way = Literal["run", "submit", "files"]  # actions of `arm label`
_UNANSWERED = {"error": "failed", "expired": "expired", "missing": "missing"}  # statuses of labels


@dataclass(frozen=True)
class Standing:
    """How far one generated file is, in sets or labels.

    planned: complete (all their requests were answered), failed (by outcome), in_batch (of a batch that has not been
    collected) and not_asked. unwritten: complete or failed, and not in the file as they are now. surplus: requests in
    the file that are planned no more. skipped: what is not asked for, by reason. warning: what is hardly meant.
    requests: those planned; to_ask: those that asking now would send. waits: why none of this is known yet.
    at_most_usd, about_usd: of to_ask; None where no price is known. spent_usd: until now; None where nothing was
    counted.
    """

    made: Made
    planned: int = 0
    complete: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    in_batch: int = 0
    not_asked: int = 0
    unwritten: int = 0
    surplus: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    requests: int = 0
    to_ask: int = 0
    waits: str | None = None
    at_most_usd: float | None = None
    about_usd: float | None = None
    spent_usd: float | None = None
    warning: str = ""

    @property
    def unit(self) -> str:
        return "sets" if self.made.verb == "sample" else "labels"

    @property
    def whole(self) -> bool:
        """Whether everything has been asked, and the file says what came of it and nothing else."""
        return not (self.waits or self.in_batch or self.not_asked or self.unwritten or self.surplus)

    @property
    def lacks(self) -> str:
        """What is missing, in words; "" when nothing is."""
        if self.waits:
            return self.waits
        parts = []
        if self.not_asked:
            parts.append(f"{self.not_asked:,} of {self.planned:,} {self.unit} are not asked for yet")
        if self.in_batch:
            parts.append(f"{self.in_batch:,} {self.unit} are in a batch that is not collected yet")
        if self.unwritten:
            parts.append(f"{self.unwritten:,} {self.unit} are in the log and not in the file")
        if self.surplus:
            parts.append(f"the file holds answers to {self.surplus:,} requests that are declared no more")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("made", "failed", "skipped")}
        return {
            "path": self.made.name, "source": self.made.number, "made_by": self.made.verb, "unit": self.unit,
            "whole": self.whole, "failed": dict(self.failed), "skipped": dict(self.skipped), **numbers,
        }  # fmt: skip


def standings(
    registry: Registry, spec: BuildSpec, servers: Known, progress: Progress = lambda *_: None
) -> tuple[list[Standing], list[str]]:
    """How far the generated files of a dataset are, and remarks on costs that cannot be told."""
    found, remarks = [], []
    for made in registry.made:
        if made.dataset != spec.name:
            continue
        if awaited := awaiting(registry, made):
            found.append(Standing(made, waits=f"{awaited.absent}, and it rests on that"))
            continue
        asked = generation(registry, made, progress)
        price, why = None, ""
        try:
            price = servers.server(asked.spec.endpoint).prices.get(asked.spec.model)
        except ArmError as error:
            why = error.message
        found.append(standing(asked, price))
        if why and found[-1].to_ask:
            remarks.append(f"{made.name}: no cost is known: {why}")
    return found, remarks


def advised(registry: Registry, found: Standing, way: Way = "run") -> str:
    """The command that brings a file further. ``way``: how its questions are asked."""
    if found.in_batch and not found.to_ask:
        return graph.making(registry, found.made, action="collect")
    return graph.making(registry, found.made, action=way) + (" more" if way == "files" else "")  # a folder


def standing(asked: Generation, price: Price | None = None, *, batch: bool = False) -> Standing:
    """Go through everything that is planned, once. ``batch``: what it would cost as a batch."""
    made, work = asked.made, asked.work
    log, pending = _outcomes(work.folder), _in_batches(work.folder)
    held = dict(_held(made)) if made.path.is_file() else {}
    spent = report(work.folder)
    estimate = Estimate(price, batch=batch, share=spent.share if spent else None) if price else None
    known = {**held, **{key: said for key, said in log.items() if held.get(key) != "answered"}}
    surplus = set(held)
    units: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    unwritten = requests = to_ask = 0
    for planned in work.plan(None, skipped):
        words = []
        for request in planned.requests:
            surplus.discard(request.key)
            word = known.get(request.key)
            if word != "answered" and request.key in pending:
                word = "in_batch"
            elif word != "answered":
                to_ask += 1
                if estimate:
                    estimate.add(request)
            words.append(word or "not_asked")
        requests += len(words)
        word = next((w for w in ("not_asked", "in_batch") if w in words), None)
        word = word or next((w for w in words if w != "answered"), "answered")
        units[word] += planned.size
        if word not in ("not_asked", "in_batch"):
            as_known = (
                held.get(r.key) and (held[r.key] == "answered") == (known[r.key] == "answered")
                for r in planned.requests
            )
            unwritten += planned.size * (not all(as_known))
    failed = {word: n for word, n in sorted(units.items()) if word not in ("answered", "in_batch", "not_asked")}
    return Standing(
        made, units.total(), units["answered"], failed, units["in_batch"], units["not_asked"], unwritten, len(surplus),
        dict(sorted(skipped.items())), requests, to_ask,
        at_most_usd=estimate.at_most_usd if estimate else None,
        about_usd=estimate.about_usd if estimate else None,
        spent_usd=spent.spent_usd if spent else None,
        warning=_warning(asked.spec),
    )  # fmt: skip


def _warning(spec: GenerateSpec) -> str:
    if isinstance(spec, AskSpec) or spec.n == 1 or not spec.greedy:
        return ""
    return (
        f"{spec.greedy:,} of the draws are greedy (temperature 0 or top_k 1), and give {spec.n} equal candidates each"
    )


def words_of_failures(asked: Generation, most: int = 10) -> list[tuple[str, str, int]]:
    """(Outcome, the server's words, requests) of what has no answer, the commonest first."""
    log = AnswerLog(asked.work.folder)
    failed = {
        answer.key: answer
        for shard in range(SHARDS)
        for answer in log.shard(shard).values()
        if answer.outcome != "answered"
    }
    counts = Counter(
        (failed[request.key].outcome, failed[request.key].detail)
        for request in asked.work.requests()
        if request.key in failed
    )
    return [(*words, n) for words, n in counts.most_common(most)]


def _outcomes(folder: Path) -> dict[str, str]:
    log, found = AnswerLog(folder), dict[str, str]()
    for shard in range(SHARDS):
        found |= log.outcomes(shard)
    return found


def _in_batches(folder: Path) -> set[str]:
    ledger = Ledger(folder)
    if not ledger.exists():
        return set()
    return {key for shard in range(SHARDS) for key in ledger.open_keys(shard)}


def _held(made: Made) -> Iterator[tuple[str, str]]:
    """(Key of a request, its outcome) of what the file holds. Raises ArmError for a file of something else."""
    for line in read_lines(made.path):
        try:
            record = loads_line(line)
            if made.verb == "sample":
                yield from ((failure["request"], failure["outcome"]) for failure in record["failures"])
                yield from ((candidate["request"], "answered") for candidate in record["candidates"])
            elif record["custom_id"] is not None:
                yield record["custom_id"], _UNANSWERED.get(record["status"], "answered")
        except (JsonError, KeyError, TypeError) as error:
            message = f"is to be written by arm {made.verb}, and holds records of something else, which would be lost"
            place, advice = f"{made.path}:{line.number}", f"move {made.path} away, or declare another path"
            raise ArmError(message, where=place, next_command=advice) from error
