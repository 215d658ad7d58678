"""What was asked in which batch, and what became of it: an SQLite file that any number of processes share.

A change is one transaction, so that a process that is killed leaves the state before or after it. The file holds ids
and counts; bodies, pictures and keys are never in it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ....schemas.errors import ArmError

FILE = "batches.sqlite"
# Of a request in a batch. asked: it may still be answered. not_asked: the batch was refused before any of it ran.
State = Literal["asked", "answered", "rejected", "failed", "expired", "missing", "not_asked"]
# planned: it may have been created, or not. open: created. ended: all its requests have an outcome. refused: never ran.
Stage = Literal["planned", "open", "ended", "refused"]
Kind = Literal["service", "files"]

_VERSION = 1
_WAIT_S = 60.0  # for another process's transaction
# The journal is not a write-ahead log: that needs memory shared by all processes, which two machines do not have.
_SCHEMA = f"""
CREATE TABLE ledger (id TEXT NOT NULL) STRICT;
CREATE TABLE batches (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, stage TEXT NOT NULL, server TEXT NOT NULL, model TEXT NOT NULL,
    sha256 TEXT NOT NULL, requests INTEGER NOT NULL, bytes INTEGER NOT NULL, tokens INTEGER NOT NULL,
    planned_s REAL NOT NULL, input_file_id TEXT, batch_id TEXT UNIQUE, status TEXT, created_s REAL, expires_s REAL,
    completed INTEGER, failed INTEGER, output_file_id TEXT, error_file_id TEXT, detail TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE requests (
    batch INTEGER NOT NULL, line INTEGER NOT NULL, key TEXT NOT NULL, slot TEXT NOT NULL, shard INTEGER NOT NULL,
    n INTEGER NOT NULL, reservation INTEGER, state TEXT NOT NULL, detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (batch, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_by_key ON requests (key);
CREATE INDEX requests_by_shard ON requests (shard, state);
CREATE TABLE events (at_s REAL NOT NULL, batch INTEGER NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
PRAGMA user_version = {_VERSION};
"""
_NOTED = {
    "stage", "input_file_id", "batch_id", "status", "created_s", "expires_s", "completed", "failed", "output_file_id",
    "error_file_id", "detail",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One request of a batch. line: 1-based, of the input file. n: choices asked for. reservation: of the purse."""

    key: str
    slot: str
    shard: int
    n: int
    reservation: int | None
    line: int
    state: State = "asked"
    detail: str = ""
    batch: int = 0  # its number, once it has one


@dataclass(frozen=True)
class Batch:
    """Times are seconds since 1970. ``status`` is the service's word; ``completed`` and ``failed`` its counts."""

    number: int
    kind: Kind
    stage: Stage
    server: str
    model: str
    sha256: str  # of the input file
    requests: int
    bytes: int
    tokens: int  # of the prompts, as estimated
    planned_s: float
    input_file_id: str | None
    batch_id: str | None
    status: str | None
    created_s: float | None
    expires_s: float | None
    completed: int | None
    failed: int | None
    output_file_id: str | None
    error_file_id: str | None
    detail: str


class Ledger:
    """The ledger below ``folder``, which is made when something is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE

    def exists(self) -> bool:
        return self.path.exists()

    @cached_property
    def id(self) -> str:
        """Random; stands in the metadata of its batches, so that none of another ledger is taken for ours. Files of
        batches lie in a folder of this name: a ledger that came from elsewhere must not say where that is."""
        with self._write() as db:
            found = str(db.execute("SELECT id FROM ledger").fetchone()[0])
        if len(found) != 16 or set(found) - set("0123456789abcdef"):
            raise ArmError("is damaged: its id is none that was ever given", where=str(self.path))
        return found

    def plan(
        self, kind: Kind, server: str, model: str, sha256: str, size: int, tokens: int, requests: Iterable[Asked]
    ) -> int:
        """Note a batch before anything is sent; its number, from 1."""
        with self._write() as db:
            db.execute(
                "INSERT INTO batches (kind, stage, server, model, sha256, requests, bytes, tokens, planned_s)"
                " VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)",
                (kind, "planned" if kind == "service" else "open", server, model, sha256, size, tokens, time.time()),
            )
            number = int(db.execute("SELECT last_insert_rowid()").fetchone()[0])
            db.executemany(
                "INSERT INTO requests (batch, line, key, slot, shard, n, reservation, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'asked')",
                ((number, r.line, r.key, r.slot, r.shard, r.n, r.reservation) for r in requests),
            )
            db.execute(
                "UPDATE batches SET requests = (SELECT COUNT(*) FROM requests WHERE batch = number) WHERE number = ?",
                (number,),
            )
            _event(db, number, "planned", f"sha256 {sha256}")
        return number

    def note(self, number: int, event: str = "", /, **values: Any) -> None:
        """Set columns of a batch; an event says what happened when its status or stage changed."""
        assert set(values) <= _NOTED
        with self._write() as db:
            row = db.execute("SELECT * FROM batches WHERE number = ?", (number,)).fetchone()
            changed = {name: value for name, value in values.items() if row[name] != value}
            for name, value in changed.items():
                db.execute(f"UPDATE batches SET {name} = ? WHERE number = ?", (value, number))  # noqa: S608
            if event or changed.keys() & {"status", "stage"}:
                told = ", ".join(f"{name} {value}" for name, value in changed.items() if name != "detail")
                _event(db, number, event or "noted", told)

    def event(self, number: int, what: str, details: Iterable[str]) -> None:
        with self._write() as db:
            for detail in details:
                _event(db, number, what, detail)

    def decide(self, number: int, outcomes: Mapping[str, tuple[State, str]]) -> None:
        """Set state and detail of requests of a batch. One that is answered stays so."""
        with self._write() as db:
            db.executemany(
                "UPDATE requests SET state = ?, detail = ? WHERE batch = ? AND key = ? AND state != 'answered'",
                ((state, detail, number, key) for key, (state, detail) in outcomes.items()),
            )

    def refuse(self, number: int, detail: str) -> None:
        """Nothing of the batch ran: what it would have asked is not asked."""
        with self._write() as db:
            db.execute("UPDATE requests SET state = 'not_asked' WHERE batch = ? AND state = 'asked'", (number,))
            db.execute("UPDATE batches SET stage = 'refused', detail = ? WHERE number = ?", (detail, number))
            _event(db, number, "refused", detail)

    def reopen(self, number: int, batch_id: str) -> None:
        """The service has it after all."""
        with self._write() as db:
            db.execute("UPDATE requests SET state = 'asked' WHERE batch = ? AND state = 'not_asked'", (number,))
            db.execute("UPDATE batches SET stage = 'open', batch_id = ? WHERE number = ?", (batch_id, number))
            _event(db, number, "found at the service", batch_id)

    def batches(self, *stages: Stage, kind: Kind = "service") -> list[Batch]:
        """Those of these stages (none: of all), in the order of their numbers."""
        marks = ",".join("?" * len(stages))
        where = f" AND stage IN ({marks})" if stages else ""
        with self._read() as db:
            query = f"SELECT * FROM batches WHERE kind = ?{where} ORDER BY number"  # noqa: S608
            return [Batch(**dict(row)) for row in db.execute(query, (kind, *stages))] if db else []

    def batch(self, number: int) -> Batch:
        with self._read() as db:
            row = db and db.execute("SELECT * FROM batches WHERE number = ?", (number,)).fetchone()
        if not row:
            raise ArmError(f"there is no batch {number}", where=str(self.path))
        return Batch(**dict(row))

    def requests(self, number: int) -> dict[str, Asked]:
        """Key -> request, of one batch, in the order of its input file."""
        query = (
            "SELECT key, slot, shard, n, reservation, line, state, detail, batch FROM requests"
            " WHERE batch = ? ORDER BY line"
        )
        with self._read() as db:
            return {row["key"]: Asked(**dict(row)) for row in db.execute(query, (number,))} if db else {}

    def open_keys(self, shard: int, kind: Kind = "service") -> set[str]:
        """What an open batch may still answer, of one shard of the log. Of a service it is not to be asked again."""
        query = (
            "SELECT key FROM requests JOIN batches ON number = batch WHERE shard = ? AND state = 'asked' AND kind = ?"
        )
        with self._read() as db:
            return {row[0] for row in db.execute(query, (shard, kind))} if db else set()

    def reservations(self) -> set[int]:
        """Of the purse, for what may still be answered."""
        query = "SELECT DISTINCT reservation FROM requests WHERE state = 'asked' AND reservation IS NOT NULL"
        with self._read() as db:
            return {row[0] for row in db.execute(query)} if db else set()

    def holders(self, keys: Iterable[str], kind: Kind) -> dict[str, list[int]]:
        """Key -> numbers of the batches of this kind in which it stands, for those that do."""
        found: dict[str, list[int]] = {}
        query = "SELECT batch FROM requests JOIN batches ON number = batch WHERE key = ? AND kind = ? ORDER BY batch"
        with self._read() as db:
            for key in keys:
                if db is None:
                    break
                if numbers := [row[0] for row in db.execute(query, (key, kind))]:
                    found[key] = numbers
        return found

    def suspects(self, shard: int) -> set[str]:
        """What made a service refuse the whole batch that it stood in."""
        query = (
            "SELECT key FROM requests JOIN batches ON number = batch"
            " WHERE shard = ? AND state = 'rejected' AND stage = 'refused'"
        )
        with self._read() as db:
            return {row[0] for row in db.execute(query, (shard,))} if db else set()

    def open_tokens(self, server: str, model: str) -> int:
        """Estimated prompt tokens of all batches that have not ended."""
        query = (
            "SELECT COALESCE(SUM(tokens), 0) FROM batches"
            " WHERE kind = 'service' AND stage IN ('planned', 'open') AND server = ? AND model = ?"
        )
        with self._read() as db:
            return int(db.execute(query, (server, model)).fetchone()[0]) if db else 0

    def states(self, kind: Kind = "service") -> dict[str, int]:
        """State -> number of requests: answered, if one ever was; asked, if it is now; or else its last state."""
        query = (
            "SELECT CASE WHEN answered THEN 'answered' WHEN asked THEN 'asked' ELSE state END AS word, COUNT(*) FROM"
            " (SELECT SUM(state = 'answered') AS answered, SUM(state = 'asked') AS asked, MAX(batch), state"
            "  FROM requests JOIN batches ON number = batch WHERE kind = ? GROUP BY key) GROUP BY word ORDER BY word"
        )
        with self._read() as db:
            return dict(map(tuple, db.execute(query, (kind,)))) if db else {}

    def history(self, key: str) -> list[tuple[int, State, str]]:
        """(batch, state, detail) of every batch that a request ever stood in."""
        query = "SELECT batch, state, detail FROM requests WHERE key = ? ORDER BY batch"
        with self._read() as db:
            return [tuple(row) for row in db.execute(query, (key,))] if db else []

    def events(self, number: int) -> list[tuple[str, str]]:
        with self._read() as db:
            query = "SELECT what, detail FROM events WHERE batch = ? ORDER BY rowid"
            return [tuple(row) for row in db.execute(query, (number,))] if db else []

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._named_errors(), closing(self._connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                if not _version(db):
                    for statement in _SCHEMA.split(";\n"):
                        db.execute(statement)
                    db.execute("INSERT INTO ledger VALUES (?)", (secrets.token_hex(8),))
                self._check(db)
                yield db
            except BaseException:
                db.rollback()
                raise
            db.commit()

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection | None]:
        """A consistent view; None when nothing was ever written."""
        if not self.exists():
            yield None
            return
        with self._named_errors(), closing(self._connect()) as db:
            db.execute("BEGIN")
            if not _version(db):  # made, and nothing written yet
                yield None
                return
            self._check(db)
            yield db

    def _connect(self) -> sqlite3.Connection:
        if self.path.is_symlink():
            raise ArmError("is a symbolic link, and the ledger is not written through one", where=str(self.path))
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        db = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)
        db.row_factory = sqlite3.Row
        return db

    def _check(self, db: sqlite3.Connection) -> None:
        if (version := _version(db)) != _VERSION:
            message = f"is a ledger of version {version}, and this program knows version {_VERSION}"
            raise ArmError(message, where=str(self.path), next_command="pip install --upgrade action-reward-models")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:
                message = f"another process has been writing to it for {_WAIT_S:.0f} seconds"
            elif code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) or code is None:
                message = f"cannot be written: {error}"
            else:
                message = f"is damaged ({error}); which requests are in open batches is known from it alone"
                raise ArmError(message, where=str(self.path), next_command="restore it from a backup") from error
            raise ArmError(message, where=str(self.path)) from error


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _event(db: sqlite3.Connection, number: int, what: str, detail: str) -> None:
    db.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (time.time(), number, what, detail))
