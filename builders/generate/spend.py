"""What was spent on one source, over all processes and all times: ``spend.sqlite`` in the folder of its log.

Before a request is sent, the most that it may cost is *reserved*; when its answer is there, what the server counted is
*settled* instead. Both are transactions on one row of sums, so that no number of processes passes the cap together. A
process that dies leaves its reservations: what they were for may have been billed, so that they go on counting.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from ...schemas.errors import ArmError, UsageError
from ...servers.endpoints import Price
from ...servers.requests import Request
from .alive import HOST, started_at, state
from .costs import NANO, Rates, Tokens, counted, most_tokens
from .spend_file import NAME, connected, create, told, transaction

_UNCOUNTED = 0  # the reservation of what has no price
_LARGEST = 1_000_000 * NANO  # of one request: sums stay within 64 bits


@dataclass(frozen=True)
class Spent:
    """What one source cost until now, in USD.

    live_usd: reserved by requests that processes of this machine have under way. ended_usd: reserved by processes that
    ended before they knew what came of their requests, which may have been billed. elsewhere_usd: reserved by processes
    of other machines, of which nothing more is known from here. batch_usd: reserved for batches under way.
    answered: answers whose tokens the server counted. unsaid: those without a count, for which the most they may have
    cost is spent. share: what the counted ones cost, as a part of the most they might have.
    over: words on an answer that cost more than that, or None.
    """

    spent_usd: float
    live_usd: float
    ended_usd: float
    elsewhere_usd: float
    batch_usd: float
    answered: int
    unsaid: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    share: float | None
    over: str | None

    @property
    def reserved_usd(self) -> float:
        return self.live_usd + self.ended_usd + self.elsewhere_usd + self.batch_usd

    def __str__(self) -> str:
        parts = [
            (self.live_usd, "by requests under way"),
            (self.batch_usd, "for batches under way"),
            (self.elsewhere_usd, "by processes of other machines"),
            (self.ended_usd, "by processes that ended, whose requests may have been billed"),
        ]
        reserved = ", ".join(f"${usd:,.4f} {what}" for usd, what in parts if usd)
        return f"${self.spent_usd:,.4f} spent" + (f"; reserved: {reserved}" if reserved else "")


class Purse:
    """What may still be spent on the source whose log is in ``folder``; use it in a ``with``, in any threads.

    price: of the model; None: nothing is counted. cap_usd: for all that was ever spent on this source; None: no cap.
    model: its name, for messages. Raises UsageError for a cap without a price, and ArmError (as everything here does)
    for a file that is damaged or of something else.
    """

    def __init__(
        self, folder: Path, price: Price | None, cap_usd: float | None = None, *, model: str = "MODEL"
    ) -> None:
        if cap_usd is not None and not (math.isfinite(cap_usd) and cap_usd >= 0):
            raise UsageError(f"a cap is a number of dollars, 0 or more, and not {cap_usd}")
        if cap_usd is not None and price is None:
            raise _no_price(model)
        self._path, self._model = folder / NAME, model
        self._rates = Rates(price) if price else None
        self._cap = None if cap_usd is None else math.floor(Fraction(repr(cap_usd)) * NANO)
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        if self._rates or self._path.exists():
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What is reserved and neither settled nor released stays so, as of a process that ended."""
        with self._lock:
            if self._db is None:
                return
            with closing(self._db), told(self._path), transaction(self._db):
                self._db.execute("UPDATE holders SET pid = 0 WHERE id = ?", (self._holder,))
            self._db = None

    def reserve(self, request: Request, batch: bool = False) -> int | None:
        """Set aside the most that ``request`` may cost. None: the cap would be passed, so that it must not be sent.

        Raises UsageError where there is a cap and the request has no bound, and ArmError where there is a cap and an
        answer cost more than its bound since this purse was opened, in whatever process.
        """
        if self._rates is None:
            return _UNCOUNTED
        tokens, unknown = most_tokens(request, self._rates.price)
        if unknown and self._cap is not None:
            raise _no_bound(unknown, self._model)
        nanos = self._rates.most(tokens, batch)
        if nanos > _LARGEST:
            raise UsageError(
                f"one request to {self._model!r} might cost ${nanos / NANO:,.0f}: look at its price and limits"
            )
        with self._writing() as db:
            if self._cap is not None:
                spent, reserved, overs, over = db.execute("SELECT spent, reserved, overs, over FROM sums").fetchone()
                if overs > self._overs:
                    raise _uncappable(over, self._model)
                if spent + reserved + nanos > self._cap:
                    return None
            db.execute("UPDATE sums SET reserved = reserved + ?", (nanos,))
            row = (self._holder, batch, *tokens[:2], nanos)
            insert = "INSERT INTO reservations (holder, batch, prompt, output, nanos) VALUES (?, ?, ?, ?, ?)"
            return db.execute(insert, row).lastrowid

    def settle(self, reservation: int, usage: Mapping[str, Any] | None) -> None:
        """The request was answered, and the server counted ``usage``; without a count, all that was reserved is spent.

        Any process may settle; what is settled or released already stays as it is.
        """
        if reservation == _UNCOUNTED:
            return
        tokens = counted(usage)
        with self._writing() as db:
            if (found := _taken(db, reservation)) is None:
                return
            batch, prompt, output, bound = found
            if tokens is None or self._rates is None:  # the price is declared no longer
                db.execute("UPDATE sums SET spent = spent + ?, unsaid = unsaid + 1", (bound,))
                return
            nanos = self._rates.nanos(tokens, bool(batch))
            db.execute(
                "UPDATE sums SET spent = spent + ?, answered = answered + 1, prompt = prompt + ?, output = output + ?, "
                "cached = cached + ?, answered_spent = answered_spent + ?, answered_bound = answered_bound + ?",
                (nanos, *tokens, nanos, bound),
            )
            if over := _over(tokens, Tokens(prompt, output), self._rates.price):
                db.execute("UPDATE sums SET overs = overs + 1, over = ?", (over,))

    def release(self, reservation: int) -> None:
        """The request was not sent, or the server refused it: it costs nothing."""
        if reservation == _UNCOUNTED:
            return
        with self._writing() as db:
            _taken(db, reservation)

    def batched(self) -> list[int]:
        """Reservations for batches that are neither settled nor released, whoever made them."""
        if self._rates is None:
            return []
        with self._writing() as db:
            return [row[0] for row in db.execute("SELECT id FROM reservations WHERE batch ORDER BY id")]

    @property
    def spent_usd(self) -> float:
        return self.report().spent_usd

    @property
    def reserved_usd(self) -> float:
        return self.report().reserved_usd

    def report(self) -> Spent:
        with self._lock:
            if self._db is None:
                return report(self._path.parent) or _NOTHING
            with told(self._path):
                return _report(self._db)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            assert self._db is not None, "the purse is closed"
            with told(self._path), transaction(self._db):
                yield self._db

    def _open(self) -> None:
        with told(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                create(self._path)
            db = connected(self._path)
            try:
                with transaction(db):
                    _forget_settled(db)
                    holder = (HOST, os.getpid(), started_at(os.getpid()))
                    insert = "INSERT INTO holders (host, pid, started) VALUES (?, ?, ?)"
                    self._holder = db.execute(insert, holder).lastrowid
                    self._overs: int = db.execute("SELECT overs FROM sums").fetchone()[0]
            except BaseException:
                db.close()
                raise
        self._db = db


def report(folder: Path) -> Spent | None:
    """What was spent on the source whose log is in ``folder``; None where nothing was ever counted."""
    path = folder / NAME
    if not path.exists():
        return None
    with told(path), closing(connected(path)) as db:
        return _report(db)


_NOTHING = Spent(0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, None, None)


def _report(db: sqlite3.Connection) -> Spent:
    with transaction(db, "DEFERRED"):
        sums = "spent, answered, unsaid, prompt, cached, output, answered_spent, answered_bound, over"
        spent, answered, unsaid, prompt, cached, output, cost, bound, over = db.execute(
            f"SELECT {sums} FROM sums"  # noqa: S608
        ).fetchone()
        rows = db.execute(
            "SELECT batch, host, pid, started, sum(nanos) FROM reservations "
            "JOIN holders ON holders.id = holder GROUP BY batch, holder"
        ).fetchall()
    reserved = {"live": 0, "ended": 0, "elsewhere": 0, "batch": 0}
    for batch, host, pid, started, nanos in rows:
        reserved["batch" if batch else state(host, pid, started)] += nanos
    usd = {name: nanos / NANO for name, nanos in reserved.items()}
    return Spent(
        spent / NANO, usd["live"], usd["ended"], usd["elsewhere"], usd["batch"], answered, unsaid, prompt, cached,
        output, cost / bound if bound else None, over,
    )  # fmt: skip


def _taken(db: sqlite3.Connection, reservation: int) -> tuple[int, int, int, int] | None:
    """Take a reservation away: (batch, prompt tokens, output tokens, nano-dollars), or None if it is not there."""
    row: tuple[int, int, int, int] | None = db.execute(
        "SELECT batch, prompt, output, nanos FROM reservations WHERE id = ?", (reservation,)
    ).fetchone()
    if row is not None:
        db.execute("DELETE FROM reservations WHERE id = ?", (reservation,))
        db.execute("UPDATE sums SET reserved = reserved - ?", (row[3],))
    return row


def _over(tokens: Tokens, bound: Tokens, price: Price) -> str | None:
    """Words on an answer that the server counted as more tokens than it could have."""
    if tokens.prompt > bound.prompt:
        said = "no `image_tokens`" if price.image_tokens is None else f"`image_tokens: {price.image_tokens:,}`"
        return (
            f"the server counted {tokens.prompt:,} prompt tokens for a request of {bound.prompt:,} at most: the price "
            f"says {said} and `added_tokens: {price.added_tokens:,}`, and one of them is too small"
        )
    if tokens.output > bound.output:
        return (
            f"the server counted {tokens.output:,} generated tokens for a request of {bound.output:,} at most: it does "
            "not keep the limit that it was given"
        )
    return None


def _forget_settled(db: sqlite3.Connection) -> None:
    """Drop processes that ended and left nothing."""
    for holder, *process in db.execute(
        "SELECT id, host, pid, started FROM holders WHERE id NOT IN (SELECT holder FROM reservations)"
    ).fetchall():
        if state(*process) == "ended":
            db.execute("DELETE FROM holders WHERE id = ?", (holder,))


def _no_price(model: str) -> UsageError:
    return UsageError(
        f"a cap needs the price of {model!r}, and none is declared",
        next_command=f"write below its server in endpoints.yaml (USD per million tokens; 0 for a server of your own):\n"
        f"    prices:\n      {model}: {{input: 2.50, output: 10.00, image_tokens: 1500}}",
    )  # fmt: skip


def _no_bound(unknown: str, model: str) -> UsageError:
    mend = f"write below prices: {model}: in endpoints.yaml: image_tokens: 1500" if "image_tokens" in unknown else None
    return UsageError(f"a cap cannot be kept for {model!r}: {unknown}", next_command=mend)


def _uncappable(over: str, model: str) -> ArmError:
    return ArmError(
        f"of {model!r}, {over}. Nothing more is sent, because a cap cannot be kept like that",
        next_command=f"mend what stands below prices: {model}: in endpoints.yaml, or go on without a cap",
    )
