"""Fetch what batches answered: each request of a batch that has ended gets one outcome, and nothing twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ....servers.answers import Answer
from ....servers.endpoints import Server
from ..log import AnswerLog
from ..spend import Purse
from ..work import Work
from .downloads import download
from .joining import Decided, Join, Oddities
from .ledger import Asked, Batch, Ledger
from .outcomes import write_down
from .places import batch_file, locked
from .service import TRIES, RefusedError, Remote, Service, UnreachableError
from .submit import Progress, adopt, release

_GONE = (404, 410)


@dataclass
class Collected:
    """What one call found. batches: numbers of those whose requests have outcomes now. open: batches that have not
    ended. outcomes: of the requests in ``batches``; not_asked: in batches that the service refused as a whole.
    problems: what kept a batch from being collected, or was wrong with it, in words; the first is collected next time.
    """

    batches: list[int] = field(default_factory=list)
    adopted: list[int] = field(default_factory=list)
    open: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    odd: Oddities = field(default_factory=Oddities)
    problems: list[str] = field(default_factory=list)


def collect(
    work: Work,
    server: Server,
    *,
    accept_cut: bool = False,
    progress: Progress = lambda message: None,
    sleep: Callable[[float], object] = time.sleep,
) -> Collected:
    """Collect every batch of ``server`` that has ended; a second process waits for the first, and finds nothing left.
    When the server is gone, what was collected until then is told, or, if it is nothing, ArmError is raised.

    accept_cut: take a file that ends inside a line every time that it is fetched; without it, its batch stays open.
    """
    ledger, done = Ledger(work.folder), Collected()
    if not ledger.exists():
        return done
    with locked(work.folder, "collect", wait=True), Service(server, sleep) as service:
        with locked(work.folder, "submit", wait=False) as mine:
            if mine:
                done.adopted = adopt(ledger, service, server)
        open_now = ledger.batches("open")
        waiting = [batch for batch in open_now if batch.server == server.name]
        for batch in open_now:
            if batch.server != server.name:
                done.open += 1
                told = f"it is at the server {batch.server!r}, and {server.name!r} is declared now"
                done.problems.append(f"batch {batch.number}: {told}")
        for i, batch in enumerate(waiting):
            try:
                with Purse(work.folder, server.prices.get(batch.model), model=batch.model) as purse:
                    _Collection(work.folder, server, service, ledger, purse, batch, done, accept_cut).run()
            except UnreachableError as error:
                if not done.batches:
                    raise
                done.open += len(waiting) - i
                done.problems.append(f"batch {batch.number}: {error.message}")
                break
            if batch.number in done.batches:
                progress(f"batch {batch.number}: {ledger.batch(batch.number).status}")
    return done


class _Collection:
    """One batch."""

    def __init__(
        self, folder: Path, server: Server, service: Service, ledger: Ledger, purse: Purse, batch: Batch,
        done: Collected, accept_cut: bool,
    ) -> None:  # fmt: skip
        self.accept_cut = accept_cut
        self.folder, self.server, self.service, self.ledger, self.purse = folder, server, service, ledger, purse
        self.batch, self.done, self.log = batch, done, AnswerLog(folder)

    def run(self) -> None:
        number = self.batch.number
        assert self.batch.batch_id is not None
        try:
            remote = self.service.retrieve(self.batch.batch_id)
        except RefusedError as error:
            self._not_yet(error.message)
            return
        note_status(self.ledger, number, remote)
        if not remote.ended:
            self.done.open += 1
        elif remote.status == "failed" and not remote.output_file_id and not remote.error_file_id:
            self._refused(remote)
        else:
            try:
                self._ended(remote)
            except UnreachableError as error:
                self._not_yet(error.message)

    def _not_yet(self, why: str) -> None:
        self.done.open += 1
        self.done.problems.append(f"batch {self.batch.number}: {why}")

    def _ended(self, remote: Remote) -> None:
        number = self.batch.number
        for attempt in range(TRIES):
            if remote.output_file_id or not remote.completed:
                break
            self.service.pause(attempt)  # it counts answers, and is slow to say where they are
            remote = self.service.retrieve(remote.id)
        note_status(self.ledger, number, remote)
        output = self._fetched(remote.output_file_id, "output", remote.completed)
        errors = self._fetched(remote.error_file_id, "errors", remote.failed)
        requests = self.ledger.requests(number)
        join = Join(requests, remote.id, (self.server.engine, self.server.engine_version))

        def decided() -> Iterator[Decided]:
            for path in (output, errors):
                if path:
                    yield from join.replies(path)
            yield from join.rest(f"the batch ended as {remote.status}, and none of its files names it")

        self.done.outcomes.update(write_down(self.ledger, self.log, self.purse, requests, decided()))
        for what, names in join.odd.told():
            self.ledger.event(number, what, names)
        self.done.odd.extend(join.odd)
        self.ledger.note(number, "collected", stage="ended")
        self.done.batches.append(number)

    def _fetched(self, file_id: str | None, kind: str, at_least: int | None) -> Path | None:
        if file_id is None:
            return None
        path = batch_file(self.ledger, self.batch.number, kind)
        if path.exists():  # whole: an earlier call fetched it
            return path
        try:
            download(self.service, file_id, path, at_least, self.accept_cut)
        except RefusedError as error:
            if error.status not in _GONE:
                raise
            told = f"the service no longer has its file of {'answers' if kind == 'output' else 'errors'}"
            self.done.problems.append(f"batch {self.batch.number}: {told} ({error.message})")
            return None
        return path

    def _refused(self, remote: Remote) -> None:
        """By validation, before any of it ran: what a line is blamed for is told of it, the others were not asked."""
        number = self.batch.number
        requests = self.ledger.requests(number)
        by_line = {asked.line: asked for asked in requests.values()}
        blamed: dict[str, Asked] = {}
        words: dict[str, str] = {}
        for line, told in remote.errors:
            if line in by_line:
                blamed[by_line[line].key] = by_line[line]
                words.setdefault(by_line[line].key, told)
        answers = [
            Decided(Answer(key, asked.slot, "rejected", detail=words[key], batch_id=remote.id), billed=False)
            for key, asked in blamed.items()
        ]
        self.done.outcomes.update(write_down(self.ledger, self.log, self.purse, requests, answers))
        self.done.outcomes["not_asked"] += len(requests) - len(blamed)
        release(self.ledger, number, self.purse)
        lines = [f"line {line}: {told}" if line is not None else told for line, told in remote.errors]
        said = "; ".join(lines[:3]) + (f"; and {len(lines) - 3} more" if len(lines) > 3 else "")
        self.ledger.refuse(number, said or "the service does not say why")
        self.done.problems.append(f"batch {number} was refused as a whole: {said or 'the service does not say why'}")
        self.done.batches.append(number)


def note_status(ledger: Ledger, number: int, remote: Remote) -> None:
    ledger.note(
        number, status=remote.status, created_s=remote.created_s, expires_s=remote.expires_s,
        completed=remote.completed, failed=remote.failed, output_file_id=remote.output_file_id,
        error_file_id=remote.error_file_id,
    )  # fmt: skip
