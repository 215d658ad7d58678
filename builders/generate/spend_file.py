"""``spend.sqlite``: a file that is whole from its first moment, and that no process takes for new when it is not.

It is made for many processes on a shared disk: SQLite's rollback journal (its write-ahead log needs one machine)
without waiting for the disk, 0.05 ms instead of milliseconds. Killed processes lose nothing by that. A machine that
loses power may leave a damaged file, which is told.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from ...schemas.errors import ArmError

NAME = "spend.sqlite"
_APPLICATION = 0x41524D53  # in the head of the file: it is ours
_VERSION = 1
_WAIT_S = 60  # for other processes
_SCHEMA = """
CREATE TABLE sums (  -- one row; money in nano-dollars
    id INTEGER PRIMARY KEY CHECK (id = 1), spent INTEGER NOT NULL, reserved INTEGER NOT NULL,
    answered INTEGER NOT NULL, prompt INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
    answered_spent INTEGER NOT NULL, answered_bound INTEGER NOT NULL,
    unsaid INTEGER NOT NULL,                  -- answers without a count of tokens: their bounds are spent
    overs INTEGER NOT NULL, over TEXT         -- answers that cost more than their bound, and words on the last
) STRICT;
INSERT INTO sums VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL);
CREATE TABLE holders (  -- processes that reserve; started: what tells a process from a later one of the same number
    id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL
) STRICT;
CREATE TABLE reservations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, holder INTEGER NOT NULL, batch INTEGER NOT NULL,
    prompt INTEGER NOT NULL, output INTEGER NOT NULL, nanos INTEGER NOT NULL
) STRICT;
"""

# (how many rows of sums that can be, how many reservations that cannot)
_SOUND = """
SELECT (SELECT count(*) FROM sums WHERE min(spent, reserved, answered_spent, answered_bound, overs) >= 0),
    (SELECT count(*) FROM reservations WHERE min(prompt, output, nanos) < 0)
"""


def create(path: Path) -> None:
    """Make the file whole and then give it its name: one that is empty or cut off is damaged, and not new."""
    work = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with closing(sqlite3.connect(work, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = MEMORY")
            db.executescript(_SCHEMA)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {_VERSION}")
        with suppress(FileExistsError):  # another process was first
            os.link(work, path)
    finally:
        work.unlink(missing_ok=True)


def connected(path: Path) -> sqlite3.Connection:
    """A connection to our file. Raises ArmError for any other one."""
    if path.is_symlink():  # to the ledger of another source, say
        raise _unreadable(path, "is a symbolic link, and the ledger is not written through one")
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
    )
    try:
        db.execute("PRAGMA synchronous = OFF")
        ours = path.stat().st_size and db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION
        if not ours:
            raise _unreadable(path, "is not what `arm sample` and `arm label` write of spending")
        if (version := db.execute("PRAGMA user_version").fetchone()[0]) != _VERSION:
            raise _unreadable(path, f"has the version {version}, and this program knows {_VERSION}")
        db.execute("PRAGMA journal_mode = PERSIST")
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise _unreadable(path, "is damaged")
        if _tables(db) != _expected():  # a trigger, say, of somebody who sent it along with a registry
            raise _unreadable(path, "is damaged: its tables are not as they were made")
        if db.execute(_SOUND).fetchone() != (1, 0):
            raise _unreadable(path, "is damaged: its sums cannot be")
    except BaseException:
        db.close()
        raise
    return db


def _tables(db: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(db.execute("SELECT type, name, sql FROM sqlite_master"))


@cache
def _expected() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_SCHEMA)
        return _tables(db)


@contextmanager
def transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    db.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # the first error says more
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


_OF_THE_DISK = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_NOMEM")


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the disk, in our words."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")  # what sqlite3 raises itself has none
        if name.startswith("SQLITE_BUSY"):
            said, mend = f"is held by another process for more than {_WAIT_S} s", "look after that process, and repeat"
        elif name.startswith(_OF_THE_DISK):
            said, mend = f"cannot be used: {error}", "look after that disk and its rights, and repeat"
        else:
            raise _unreadable(path, f"is damaged: {error}") from error
        raise ArmError(said, where=str(path), next_command=mend) from error
    except OSError as error:
        raise ArmError(f"cannot be used: {error.strerror}", where=str(path)) from error


def _unreadable(path: Path, said: str) -> ArmError:
    return ArmError(
        f"{said}: what was spent on this source is not known from it, and nothing is sent", where=str(path),
        next_command=f"restore {path.name} from a copy, or move it away, read from the server's bill what was spent, "
        "and set the cap to what is left",
    )  # fmt: skip
