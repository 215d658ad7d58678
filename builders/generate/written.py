"""What the log holds, as the file of a source: sorted lines, whatever order answers came in, put in place at once."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO, Any, Protocol, TypeVar

import orjson

from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json
from ...servers.answers import Answer, Outcome
from ...servers.requests import Request
from .log import SHARDS, AnswerLog

Key = list[Any]  # ids and numbers by which lines are sorted
Line = tuple[Key, dict[str, Any]]
_LONGEST_NAMES = 2048  # characters


@dataclass
class Written:
    """What became of everything that is planned: of sets of sampled candidates, or of labels.

    failed: by outcome, of what cannot be had until it is asked again.
    skipped: states of which nothing is sampled, or sets that nobody is asked about, by reason.
    stale: answers in the log to requests that are no longer planned.
    """

    complete: int = 0
    failed: Counter[Outcome] = field(default_factory=Counter)
    not_asked: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    stale: int = 0

    @property
    def planned(self) -> int:
        return self.complete + self.failed.total() + self.not_asked

    def count(self, outcome: Outcome | None, times: int = 1) -> None:
        """One more that is planned; ``outcome`` None: it has none yet."""
        if outcome is None:
            self.not_asked += times
        elif outcome == "answered":
            self.complete += times
        else:
            self.failed[outcome] += times


class Planned(Protocol):
    """What becomes ``size`` lines together, once all of its requests have an outcome."""

    @property
    def requests(self) -> Sequence[Request]: ...

    @property
    def size(self) -> int: ...


P = TypeVar("P", bound=Planned)
Plan = Callable[[int, Counter[str]], Iterable[P]]  # (shard, counter of what is skipped) -> what is planned
Become = Callable[[P, list[Answer]], tuple[Outcome, list[Line]]]


def write(path: Path, log: AnswerLog, plan: Plan[P], become: Become[P]) -> Written:
    """Write into ``path`` what the answers in ``log`` become. What was not asked for yet waits for another time.

    Raises ArmError for a damaged log, and for a file that cannot be written.
    """
    written = Written()
    write_lines(path, _settled(log, plan, become, written))
    return written


def _settled(log: AnswerLog, plan: Plan[P], become: Become[P], written: Written) -> Iterator[list[Line]]:
    for shard in range(SHARDS):
        answers = log.shard(shard)
        lines: list[Line] = []
        used: set[str] = set()
        for planned in plan(shard, written.skipped):
            keys = [request.key for request in planned.requests]
            used.update(keys)
            known = [answers[key] for key in keys if key in answers]
            if len(known) < len(keys):
                written.count(None, planned.size)
                continue
            outcome, made = become(planned, known)
            written.count(outcome, planned.size)
            lines += made
        written.stale += len(answers.keys() - used)
        yield lines


def write_lines(path: Path, runs: Iterable[list[Line]]) -> None:
    """Write the records of ``runs`` into ``path``, one canonical JSON object a line, sorted by key. One run at a time
    is in memory; the file as it was stands until the new one is whole. Raises ArmError."""
    made = None
    with ExitStack() as parts:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Parts have no name, so that a process that is killed leaves none behind.
            sorted_runs = [_run(parts.enter_context(TemporaryFile(dir=path.parent)), run) for run in runs if run]
            with NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent, delete=False) as file:
                made = Path(file.name)
                for _, line in heapq.merge(*sorted_runs, key=lambda entry: entry[0]):
                    file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
                made.chmod(0o644)
            made.replace(path)
        except OSError as error:
            raise ArmError(f"cannot be written: {error.strerror}", where=str(path)) from error
        finally:
            if made is not None:
                made.unlink(missing_ok=True)


def _run(file: IO[bytes], run: list[Line]) -> Iterator[tuple[Key, str]]:
    """Write the lines of a run, sorted, and read them again one by one."""
    for key, record in sorted(run, key=lambda entry: entry[0]):
        file.write(orjson.dumps([key, canonical_json(record)], option=orjson.OPT_APPEND_NEWLINE))
    file.seek(0)
    return map(_entry, file)


def _entry(line: bytes) -> tuple[Key, str]:
    key, record = orjson.loads(line)
    return key, record


def joined(values: Iterable[str | None]) -> str | None:
    """Names that servers gave, on one line, sorted; None where none gave any. What it made of several stays as it is
    when it is given that again, as from a file."""
    named = {"".join(filter(str.isprintable, value)).strip()[:_LONGEST_NAMES].strip() for value in values if value}
    return ",".join(sorted(named - {""}))[:_LONGEST_NAMES].strip() or None


def choices_of(answer: Answer, n: int) -> tuple[Outcome, str]:
    """(outcome, what the server said) of an answer that should hold ``n`` replies."""
    if answer.outcome == "answered" and len(answer.choices) != n:
        return "failed", f"{len(answer.choices)} replies to a request for {n}"
    return answer.outcome, answer.detail
