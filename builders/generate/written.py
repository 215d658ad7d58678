"""What the log holds, as the file of a source: sorted lines, whatever order answers came in, put in place at once."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ...schemas.errors import ArmError
from ...schemas.ids import canonical_json
from .answers import Answer, Outcome

Key = list[Any]  # ids and numbers by which lines are sorted
Line = tuple[Key, dict[str, Any]]


@dataclass(frozen=True)
class Written:
    """What became of everything that is planned: planned = complete + failed + not_asked.

    failed: by outcome, of what cannot be had until it is asked again. skipped: what is not asked for, by reason.
    stale: answers in the log to requests that are no longer planned.
    """

    path: Path
    planned: int
    complete: int
    failed: Mapping[Outcome, int]
    not_asked: int
    skipped: Mapping[str, int]
    stale: int


@dataclass
class Tally:
    """The same while it is being counted."""

    planned: int = 0
    complete: int = 0
    failed: Counter[Outcome] = field(default_factory=Counter)
    not_asked: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    stale: int = 0

    def count(self, outcome: Outcome | None, times: int = 1) -> None:
        """One more that is planned; ``outcome`` None: it has none yet."""
        self.planned += times
        if outcome is None:
            self.not_asked += times
        elif outcome == "answered":
            self.complete += times
        else:
            self.failed[outcome] += times

    def written(self, path: Path) -> Written:
        failed = dict(sorted(self.failed.items()))
        assert self.planned == self.complete + sum(failed.values()) + self.not_asked
        skipped = dict(sorted(self.skipped.items()))
        return Written(path, self.planned, self.complete, failed, self.not_asked, skipped, self.stale)


def write_lines(path: Path, runs: Iterable[list[Line]]) -> None:
    """Write the records of ``runs`` into ``path``, one canonical JSON object a line, sorted by key. One run at a time
    is in memory; the file as it was stands until the new one is whole. Raises ArmError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            parts = [_run(Path(folder) / str(number), run) for number, run in enumerate(runs) if run]
            made = Path(folder) / "whole"
            with made.open("wb") as file:
                for _, line in heapq.merge(*map(_read, parts), key=lambda entry: entry[0]):
                    file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            made.replace(path)
    except OSError as error:
        raise ArmError(f"cannot be written: {error.strerror}", where=str(path)) from error


def _run(path: Path, run: list[Line]) -> Path:
    with path.open("wb") as file:
        for key, record in sorted(run, key=lambda entry: entry[0]):
            file.write(orjson.dumps([key, canonical_json(record)], option=orjson.OPT_APPEND_NEWLINE))
    return path


def _read(path: Path) -> Iterator[tuple[Key, str]]:
    with path.open("rb") as file:
        for line in file:
            key, record = orjson.loads(line)
            yield key, record


def joined(values: Iterable[str | None]) -> str | None:
    """Names that servers gave, on one line, sorted; None where none gave any."""
    named = {"".join(c for c in value if c.isprintable()).strip()[:200] for value in values if value}
    return ",".join(sorted(named - {""}))[:2048] or None


def choices_of(answer: Answer, n: int) -> tuple[Outcome, str]:
    """(outcome, what the server said) of an answer that should hold ``n`` replies."""
    if answer.outcome == "answered" and len(answer.choices) != n:
        return "failed", f"{len(answer.choices)} replies to a request for {n}"
    return answer.outcome, answer.detail
