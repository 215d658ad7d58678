"""Requests of one batch joined with the lines of its files, in whatever order those stand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ....schemas.ids import canonical_json
from ....schemas.jsonl import read_lines
from ....servers.answers import Answer, answer_of
from ....servers.words import shortened
from .ledger import Asked
from .lines import Reply, read_reply

_SHOWN = 20


@dataclass
class Names:
    """How many there were, and the first of them."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.shown) < _SHOWN:
            self.shown.append(name)

    def extend(self, other: Names) -> None:
        self.count += other.count
        self.shown = [*self.shown, *other.shown][:_SHOWN]


@dataclass
class Oddities:
    """repeated: ids with several lines that say the same; conflicting: with lines that do not, of which the first reply
    in the output file counts. unknown: ids that were not asked. unreadable: file:line and why."""

    repeated: Names = field(default_factory=Names)
    conflicting: Names = field(default_factory=Names)
    unknown: Names = field(default_factory=Names)
    unreadable: Names = field(default_factory=Names)

    def extend(self, other: Oddities) -> None:
        for name, names in vars(self).items():
            names.extend(getattr(other, name))

    def __bool__(self) -> bool:
        return any(names.count for names in vars(self).values())

    def told(self) -> Iterator[tuple[str, list[str]]]:
        """(which, the names that are shown), of those that there are."""
        yield from ((name, names.shown) for name, names in vars(self).items() if names.count)


@dataclass(frozen=True)
class Decided:
    """What became of a request. billed: whether a service may have counted tokens for it."""

    answer: Answer
    billed: bool


class Join:
    """One batch. ``replies`` is called for each file, that of answers first, then ``rest`` once."""

    def __init__(self, expected: Mapping[str, Asked], batch_id: str | None, engine: tuple[str | None, str | None]):
        self.odd = Oddities()
        self._expected, self._batch_id, self._engine = expected, batch_id, engine
        self._replied: dict[str, bytes] = {}  # key -> digest of what the reply says
        self._others: dict[str, Decided] = {}

    def replies(self, path: Path) -> Iterator[Decided]:
        """Yield each request that is answered, once, in the order of the file."""
        for line in read_lines(path):
            try:
                reply = read_reply(line.raw)
            except ValueError as error:
                self.odd.unreadable.add(shortened(f"{path.name}:{line.number}: {error}"))
                continue
            asked = self._expected.get(reply.custom_id)
            if asked is None:
                self.odd.unknown.add(shortened(reply.custom_id))
                continue
            decided = self._decided(asked, reply)
            if decided.answer.outcome == "answered":
                if self._is_first(decided.answer):
                    yield decided
            else:
                self._keep(decided)

    def rest(self, why: str) -> Iterator[Decided]:
        """Everything that no file has a reply to; ``why`` is said of what no file names."""
        for key, asked in self._expected.items():
            if key in self._others:
                yield self._others[key]
            elif key not in self._replied:
                yield Decided(Answer(key, asked.slot, "missing", detail=why, batch_id=self._batch_id), billed=True)

    def _decided(self, asked: Asked, reply: Reply) -> Decided:
        if reply.outcome != "answered":
            answer = Answer(asked.key, asked.slot, reply.outcome, detail=reply.detail, batch_id=self._batch_id)
            return Decided(answer, billed=False)
        engine, version = self._engine
        engine = engine or ("vllm" if reply.shape == "vllm" else None)
        answer = answer_of(
            asked.key, asked.slot, reply.body, n=asked.n, engine=engine, engine_version=version, batch_id=self._batch_id
        )
        return Decided(replace(answer, detail=shortened(answer.detail)), billed=True)

    def _is_first(self, answer: Answer) -> bool:
        said = canonical_json([asdict(choice) for choice in answer.choices])
        digest = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if answer.key in self._others:
            del self._others[answer.key]
            self.odd.conflicting.add(answer.key)
        first = self._replied.setdefault(answer.key, digest)
        if first is digest:
            return True
        (self.odd.repeated if first == digest else self.odd.conflicting).add(answer.key)
        return False

    def _keep(self, decided: Decided) -> None:
        answer = decided.answer
        if answer.key in self._replied:
            self.odd.conflicting.add(answer.key)
            return
        first = self._others.setdefault(answer.key, decided)
        if first is not decided:
            (self.odd.repeated if first.answer == answer else self.odd.conflicting).add(answer.key)
