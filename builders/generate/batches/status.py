"""How far batches are, and stopping them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....schemas.errors import ArmError, UsageError
from ....servers.answers import Answer
from ....servers.endpoints import Server
from ..log import AnswerLog
from ..spend import Purse
from ..work import Work
from .collect import note_status
from .joining import Decided
from .ledger import Batch, Ledger
from .outcomes import write_down
from .places import batch_file, locked, submitting_elsewhere
from .service import ENDED, RefusedError, Service, UnreachableError
from .submit import adopt, release


@dataclass(frozen=True)
class BatchStanding:
    """One batch. age_s: since it was planned. expires_in_s: until the service gives it up; None where it does not say,
    or it has ended. problem: why the service could not be asked, or "".
    """

    batch: Batch
    age_s: float
    expires_in_s: float | None
    problem: str = ""


@dataclass(frozen=True)
class Status:
    """requests: state -> number, of all that ever stood in a batch. to_collect: batches that ended and wait for it."""

    batches: tuple[BatchStanding, ...]
    requests: dict[str, int]
    to_collect: int


@dataclass(frozen=True)
class Cancelled:
    """batches: those that were told to stop; what they have answered by then is billed, and is collected when they have
    ended. never_created: those that the service never had; their requests are not asked. lost: those that it no longer
    knows; their requests are missing.
    """

    batches: tuple[BatchStanding, ...]
    never_created: tuple[int, ...]
    lost: tuple[int, ...]


def status(work: Work, server: Server, *, sleep: Callable[[float], object] = time.sleep) -> Status:
    """Ask the service about every open batch of ``server``."""
    ledger = Ledger(work.folder)
    problems: dict[int, str] = {}
    with Service(server, sleep) as service:
        for batch in ledger.batches("open"):
            if batch.server != server.name:
                problems[batch.number] = f"it is at the server {batch.server!r}, and {server.name!r} is declared now"
                continue
            assert batch.batch_id is not None
            try:
                note_status(ledger, batch.number, service.retrieve(batch.batch_id))
            except RefusedError as error:
                problems[batch.number] = error.message
    return known_status(work, problems)


def known_status(work: Work, problems: dict[int, str] | None = None) -> Status:
    """The same from the ledger alone, as the service told it last."""
    ledger = Ledger(work.folder)
    standings = tuple(_standing(batch, (problems or {}).get(batch.number, "")) for batch in ledger.batches())
    waiting = sum(s.batch.stage == "open" and s.batch.status in ENDED for s in standings)
    return Status(standings, ledger.states(), waiting)


def cancel(
    work: Work,
    server: Server,
    numbers: Sequence[int] | None = None,
    *,
    sleep: Callable[[float], object] = time.sleep,
) -> Cancelled:
    """Stop open batches: those of these numbers, or all. Raises UsageError for one that is not open."""
    ledger = Ledger(work.folder)
    mine = [b for b in ledger.batches("open", "planned") if b.server == server.name]
    if unknown := sorted(set(numbers or ()) - {batch.number for batch in mine}):
        known = ", ".join(str(batch.number) for batch in mine) or "none"
        raise UsageError(f"no batch {unknown[0]} is open at {server.name!r}; open: {known}", where=str(ledger.path))
    chosen = [batch for batch in mine if numbers is None or batch.number in numbers]
    stopped: list[BatchStanding] = []
    never: list[int] = []
    lost: list[int] = []
    with Service(server, sleep) as service:
        if planned := [batch for batch in chosen if batch.stage == "planned"]:
            never = _never_created(ledger, work, service, server, planned, named=numbers is not None)
        for number in (batch.number for batch in chosen if batch.number not in never):
            batch = ledger.batch(number)
            assert batch.batch_id is not None
            try:
                note_status(ledger, number, service.cancel(batch.batch_id))
                stopped.append(_standing(ledger.batch(number), ""))
            except RefusedError as error:
                if error.status not in (404, 410) or numbers is None:
                    raise
                _lose(ledger, work, server, batch, error.message)
                lost.append(number)
    return Cancelled(tuple(stopped), tuple(never), tuple(lost))


def _never_created(
    ledger: Ledger, work: Work, service: Service, server: Server, planned: list[Batch], *, named: bool
) -> list[int]:
    """Of those that an interrupted call planned. Where the service cannot tell, whoever names one knows."""
    with locked(work.folder, "submit", wait=False) as mine:
        if not mine:
            raise submitting_elsewhere(work.folder)
        try:
            adopt(ledger, service, server)
        except UnreachableError:
            raise
        except ArmError:
            if not named:
                raise
            for batch in planned:
                with _purse(work, server, batch) as purse:
                    release(ledger, batch.number, purse)
                ledger.refuse(batch.number, "said to be never created")
                batch_file(ledger, batch.number, "input").unlink(missing_ok=True)
    return [batch.number for batch in planned if ledger.batch(batch.number).stage == "refused"]


def _lose(ledger: Ledger, work: Work, server: Server, batch: Batch, words: str) -> None:
    """What the service may have answered, and billed, is not to be had."""
    requests = ledger.requests(batch.number)
    why = f"the service does not know the batch any more ({words})"
    answers = (
        Answer(key, asked.slot, "missing", detail=why, batch_id=batch.batch_id) for key, asked in requests.items()
    )
    with _purse(work, server, batch) as purse:
        decided = (Decided(answer, billed=True) for answer in answers)
        write_down(ledger, AnswerLog(work.folder), purse, requests, decided)
    ledger.note(batch.number, "lost", stage="ended", detail=why)


def _purse(work: Work, server: Server, batch: Batch) -> Purse:
    return Purse(work.folder, server.prices.get(batch.model), model=batch.model)


def _standing(batch: Batch, problem: str) -> BatchStanding:
    now_s = time.time()
    waiting = batch.stage == "open" and batch.status not in ENDED
    expires_in_s = batch.expires_s - now_s if waiting and batch.expires_s is not None else None
    return BatchStanding(batch, now_s - batch.planned_s, expires_in_s, problem)
