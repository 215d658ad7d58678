"""Ask what has no answer through the Batch API: files as large as the service takes them, each noted before it is sent.

The order is what makes it safe to kill: the ledger knows a batch before the service does, and the batch carries the
ledger's id and the file's digest, so that one which was created and not noted is found again, not paid again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from ....schemas.errors import ArmError
from ....servers.answers import Answer
from ....servers.endpoints import Server
from ....servers.requests import Request
from ..log import Claim
from ..spend import Purse
from ..work import Work
from .drafts import Draft
from .joining import Names
from .ledger import Ledger
from .lines import input_line
from .places import batch_file, batches_folder, drop_inputs, locked, submitting_elsewhere
from .service import RefusedError, Service, UnreachableError
from .split import Part, prompt_tokens, too_large
from .wanted import Wanted

Progress = Callable[[str], object]


@dataclass
class Submitted:
    """What one call did. Numbers of requests: asked now, answered before, in batches that are open, not asked by any.

    batches: numbers of those created now; adopted: of those that an interrupted call had created.
    busy: of shards that another process is asking right now. not_asked: of those that were come to when it stopped, and
    not_seen: those after them. stopped: why not everything was asked, or "".
    """

    batches: list[int] = field(default_factory=list)
    adopted: list[int] = field(default_factory=list)
    asked: int = 0
    answered: int = 0
    open: int = 0
    too_large: Names = field(default_factory=Names)
    busy: int = 0
    not_asked: int = 0
    not_seen: int = 0
    stopped: str = ""


def submit(
    work: Work,
    server: Server,
    model: str,
    *,
    cap_usd: float | None = None,
    limit: int | None = None,
    progress: Progress = lambda message: None,
    sleep: Callable[[float], object] = time.sleep,
) -> Submitted:
    """Ask ``server`` for everything that has no answer and is in no open batch; ``limit``: at most so many requests.

    Raises ArmError when another process submits for the same log, or the service refuses for good.
    """
    price = server.prices.get(model)
    with (
        locked(work.folder, "submit", wait=False) as mine,
        Service(server, sleep) as service,
        Purse(work.folder, price, cap_usd, model=model) as purse,
    ):
        if not mine:
            raise submitting_elsewhere(work.folder)
        submission = _Submission(work, server, model, service, purse, limit, progress)
        try:
            submission.run()
        finally:
            submission.close()
        return submission.done


def adopt(ledger: Ledger, service: Service, server: Server) -> list[int]:
    """Settle what an interrupted call left: batches that it planned are found at the service, or were never created.

    The caller holds the lock ``submit``.
    """
    adopted = []
    for batch in ledger.batches("planned"):
        if batch.server != server.name:
            continue
        try:
            remote = service.find(batch.input_file_id, _metadata(ledger, batch.number, batch.sha256))
        except RefusedError as error:
            if error.next_command:  # the key, not the question, is refused
                raise
            told = f"batch {batch.number} may have been created, and the service does not say so"
            advice = f"cancel batch {batch.number}, if you know that it was not"
            raise ArmError(f"{told} ({error.message})", where=service.url, next_command=advice) from error
        if remote:
            ledger.reopen(batch.number, remote.id)
            ledger.note(batch.number, status=remote.status, created_s=remote.created_s, expires_s=remote.expires_s)
            adopted.append(batch.number)
        else:
            with Purse(ledger.folder, server.prices.get(batch.model), model=batch.model) as purse:
                release(ledger, batch.number, purse)
            ledger.refuse(batch.number, "it was never created")
    drop_inputs(ledger.folder)  # bodies are not kept, and what is asked again is written again
    return adopted


def release(ledger: Ledger, number: int, purse: Purse) -> None:
    """Nothing of the batch was billed."""
    for asked in ledger.requests(number).values():
        if asked.reservation is not None:
            purse.release(asked.reservation)


def _metadata(ledger: Ledger, number: int, sha256: str) -> dict[str, str]:
    return {"arm_ledger": ledger.id, "arm_batch": str(number), "arm_file_sha256": sha256}


class _Stop(Exception):  # noqa: N818
    """Nothing more is asked."""


class _Submission:
    def __init__(
        self, work: Work, server: Server, model: str, service: Service, purse: Purse, limit: int | None,
        progress: Progress,
    ) -> None:  # fmt: skip
        self.work, self.server, self.model, self.service, self.purse = work, server, model, service, purse
        self.limit, self.progress = limit, progress
        self.ledger, self.done = Ledger(work.folder), Submitted()
        price = server.prices.get(model)
        self.image_tokens = price.image_tokens if price else None
        self.draft: Draft | None = None
        self.wanted = Wanted(work, self.ledger, keep=lambda: self.draft is not None)

    def run(self) -> None:
        self.done.adopted = adopt(self.ledger, self.service, self.server)
        self._release_drafts()
        deferred = False
        try:
            for request, claim in self.wanted.requests():
                self._take(request, claim)
            self._flush()
            # What once spoilt a whole batch stands apart from all else.
            deferred = True
            for request, claim in self.wanted.requests(suspects=True):
                self._take(request, claim)
            self._flush()
        except _Stop:
            self.done.not_seen = 0 if deferred else self.work.total() - self.wanted.seen
        self.done.answered, self.done.open, self.done.busy = self.wanted.answered, self.wanted.open, self.wanted.busy

    def _release_drafts(self) -> None:
        """Of a process that was killed before the ledger knew its batch: nothing of that was sent."""
        reserved = self.purse.batched()  # before the ledger is read, which is written after the purse
        for reservation in sorted(set(reserved) - self.ledger.reservations()):
            self.purse.release(reservation)

    def close(self) -> None:
        """Nothing of a draft was sent."""
        if self.draft:
            self.draft.drop(self.purse)
        self.wanted.let_go()

    def _take(self, request: Request, claim: Claim) -> None:
        line = input_line(request)
        tokens = prompt_tokens(request, self.image_tokens)
        if why := too_large(self.server.batch, len(line), tokens):
            self._leave_out(request, claim, why)
            return
        if self.limit is not None and self.done.asked + (self.draft.part.requests if self.draft else 0) >= self.limit:
            self._stop("")
        if self.draft and self.draft.part.full(len(line), tokens) in ("requests", "bytes"):
            self._flush()
        if not self.draft:
            self.draft = Draft(batches_folder(self.work.folder) / "draft.jsonl", self._new_part())
        if self.draft.part.full(len(line), tokens) == "tokens":
            self._stop(f"{self.server.batch.tokens:,} prompt tokens are enqueued; go on when batches have ended")
        reservation = self.purse.reserve(request, batch=True)
        if reservation is None:
            self._stop("the cap on spending would be passed")
        self.draft.add(request, line, tokens, reservation)

    def _new_part(self) -> Part:
        most = self.server.batch.tokens
        left = None if most is None else most - self.ledger.open_tokens(self.server.name, self.model)
        return Part(self.server.batch, left)

    def _leave_out(self, request: Request, claim: Claim, why: str) -> None:
        self.done.too_large.add(request.key)
        if claim.answers.get(request.key) != "rejected":
            claim.append(Answer(request.key, request.slot, "rejected", detail=f"not sent in a batch: {why}"))

    def _stop(self, why: str) -> NoReturn:
        self.done.not_asked += 1
        self.done.stopped = why
        self._flush()
        raise _Stop

    def _flush(self) -> None:
        draft, self.draft = self.draft, None
        if draft is None:
            return
        if not draft.part.requests:
            draft.drop(self.purse)
            return
        try:
            number = draft.plan(self.ledger, "service", self.server.name, self.model)
        except BaseException:
            draft.drop(self.purse)
            raise
        path = batch_file(self.ledger, number, "input")
        draft.path.replace(path)
        self._send(number, draft.sha256, path, draft.part.requests)

    def _send(self, number: int, sha256: str, path: Path, requests: int) -> None:
        metadata = _metadata(self.ledger, number, sha256)
        file_id = None
        try:
            file_id = self.service.upload(path, f"arm-{metadata['arm_ledger']}-{number:05}.jsonl")
            self.ledger.note(number, "uploaded", input_file_id=file_id)
            remote = self.service.create(file_id, metadata)
        except RefusedError as error:
            release(self.ledger, number, self.purse)
            self.ledger.refuse(number, error.message)
            path.unlink()
            if file_id:
                self.service.delete_file(file_id)
            if error.status != 429:
                raise
            self.done.not_asked += requests
            self.done.stopped = error.message
            raise _Stop from error
        except UnreachableError as error:
            told = f"whether batch {number} was created is not known: {error.message}"
            raise ArmError(
                told, where=error.where, next_command="submit again: the service is asked first which batches it has"
            ) from error
        self.ledger.note(
            number, "created", stage="open", batch_id=remote.id, status=remote.status, created_s=remote.created_s,
            expires_s=remote.expires_s,
        )  # fmt: skip
        path.unlink()
        self.done.batches.append(number)
        self.done.asked += requests
        self.progress(f"batch {number}: {requests:,} requests")
