"""Requests as files for `vllm run-batch`, or for whatever else reads them, and what became of those files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ....schemas.errors import ArmError, UsageError
from ....schemas.jsonl import read_lines
from ....servers.answers import Answer
from ....servers.endpoints import BatchLimits
from ..log import AnswerLog, shard_of
from ..work import Work
from .drafts import Draft
from .joining import Decided, Join, Names, Oddities
from .ledger import Asked, Ledger
from .lines import input_line, read_reply
from .outcomes import write_down
from .places import locked, submitting_elsewhere
from .split import Part, prompt_tokens, too_large
from .wanted import Wanted

_SERVER = "files"  # what the ledger calls whoever runs them


@dataclass
class WrittenFiles:
    """Numbers of requests: written, answered before, in batches that are open at a service.

    paths: of the files. again: requests that stand in earlier files, too, of which no output was collected. busy: of
    shards that another process is asking right now.
    """

    paths: list[Path] = field(default_factory=list)
    written: int = 0
    answered: int = 0
    open: int = 0
    again: int = 0
    too_large: Names = field(default_factory=Names)
    busy: int = 0


@dataclass
class CollectedFiles:
    """outcomes: of every request of the files that the outputs belong to. files: their numbers, from 1."""

    outcomes: Counter[str] = field(default_factory=Counter)
    odd: Oddities = field(default_factory=Oddities)
    files: list[int] = field(default_factory=list)


def write_files(work: Work, model: str, folder: Path, limits: BatchLimits) -> WrittenFiles:
    """Write everything that has no answer, and is in no open batch, as ``requests-00001.jsonl``, ... into ``folder``.

    Raises UsageError for a folder that has such files, ArmError while another process submits or writes.
    """
    if any(folder.glob("requests-*.jsonl")):
        raise UsageError("has files of requests; take another folder, or delete them", where=str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArmError(f"cannot be made: {error.strerror}", where=str(folder)) from error
    with locked(work.folder, "submit", wait=False) as mine:
        if not mine:
            raise submitting_elsewhere(work.folder)
        return _Writing(work, model, folder, replace(limits, tokens=None)).run()


class _Writing:
    def __init__(self, work: Work, model: str, folder: Path, limits: BatchLimits) -> None:
        self.model, self.folder, self.limits = model, folder, limits
        self.ledger, self.done = Ledger(work.folder), WrittenFiles()
        self.draft: Draft | None = None
        self.wanted = Wanted(work, self.ledger)
        self.earlier: tuple[int, set[str]] = (-1, set())  # shard, keys of it that stand in files without an output

    def run(self) -> WrittenFiles:
        try:
            for suspects in (False, True):
                self._pass(suspects)
        finally:
            if self.draft:
                self.draft.drop()
            self.wanted.let_go()
        self.done.answered, self.done.open, self.done.busy = self.wanted.answered, self.wanted.open, self.wanted.busy
        return self.done

    def _pass(self, suspects: bool) -> None:
        for request, claim in self.wanted.requests(suspects=suspects):
            line, tokens = input_line(request), prompt_tokens(request, None)
            if why := too_large(self.limits, len(line), tokens):
                self.done.too_large.add(request.key)
                if claim.answers.get(request.key) != "rejected":
                    claim.append(Answer(request.key, request.slot, "rejected", detail=f"not written to a file: {why}"))
                continue
            if self.draft and self.draft.part.full(len(line), tokens):
                self._flush()
            if not self.draft:
                self.draft = Draft(self.folder / "requests.part", Part(self.limits))
            self.done.again += request.key in self._earlier(shard_of(request.group))
            self.draft.add(request, line, tokens)
        self._flush()

    def _earlier(self, shard: int) -> set[str]:
        if self.earlier[0] != shard:
            self.earlier = shard, self.ledger.open_keys(shard, "files")
        return self.earlier[1]

    def _flush(self) -> None:
        """The ledger first: a file that it does not know could not be collected."""
        draft, self.draft = self.draft, None
        if draft is None:
            return
        path = self.folder / f"requests-{len(self.done.paths) + 1:05}.jsonl"
        try:
            draft.plan(self.ledger, "files", _SERVER, self.model)
            draft.path.replace(path)
        except BaseException:
            draft.drop()
            raise
        self.done.paths.append(path)
        self.done.written += draft.part.requests


def collect_files(
    work: Work, paths: Sequence[Path], *, engine: str | None = None, engine_version: str | None = None
) -> CollectedFiles:
    """Take what was made of files of ``write_files``: outputs of `vllm run-batch`, or of a service (its file of errors,
    too), in any order and number. Give those of one file together: a request that none of them names is missing.

    engine: what ran them, where a line does not tell. Raises UsageError for a path that cannot be read, or of which no
    line answers what was asked here.
    """
    ledger, done = Ledger(work.folder), CollectedFiles()
    with locked(work.folder, "collect", wait=True):
        for path in paths:
            numbers = _files_of(ledger, path)
            if not numbers:
                message = "no line of it answers a request of a file that was written for this source"
                raise UsageError(message, where=str(path))
            done.files += [number for number in numbers if number not in done.files]
        requests: dict[str, Asked] = {}
        for number in done.files:
            requests = ledger.requests(number) | requests  # of the file that the most lines belong to
        join = Join(requests, None, (engine, engine_version))

        def decided() -> Iterator[Decided]:
            for path in paths:
                yield from join.replies(path)
            yield from join.rest("no output of its file names it")

        done.outcomes = write_down(ledger, AnswerLog(work.folder), None, requests, decided())
        done.odd = join.odd
        for number in done.files:
            ledger.note(number, "collected", stage="ended")
        done.files.sort()
    return done


def _files_of(ledger: Ledger, path: Path) -> list[int]:
    """The written files whose requests an output answers: as few as account for all its lines that were asked."""
    left = ledger.holders(_keys(path), "files")
    found = []
    while left:
        counts = Counter(number for numbers in left.values() for number in numbers)
        best = min(counts, key=lambda number: (-counts[number], number))
        found.append(best)
        left = {key: numbers for key, numbers in left.items() if best not in numbers}
    return found


def _keys(path: Path) -> Iterator[str]:
    try:
        for line in read_lines(path):
            try:
                yield read_reply(line.raw).custom_id
            except ValueError:
                continue
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
