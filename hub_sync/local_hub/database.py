"""The one mutable truth of the hub: an SQLite database. One write is one transaction, and there is one writer.

A hub that is killed at any moment leaves the state before or after a transaction; git objects and stored files are
content-addressed and written before the transaction that names them.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY COLLATE NOCASE, fullname TEXT NOT NULL, email TEXT NOT NULL,
    is_org INTEGER NOT NULL,    -- organisations own repositories and have no tokens
    is_owner INTEGER NOT NULL,  -- whose hub it is: may write in every namespace
    private_by_default INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS members (org TEXT NOT NULL, user TEXT NOT NULL, PRIMARY KEY (org, user)) STRICT;
CREATE TABLE IF NOT EXISTS tokens (
    sha256 TEXT PRIMARY KEY, user TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('read', 'write'))
) STRICT;
CREATE TABLE IF NOT EXISTS storage_tokens (  -- what a client may do with the storage of one repository, for a while
    sha256 TEXT PRIMARY KEY, repo TEXT NOT NULL, user TEXT NOT NULL, scope TEXT NOT NULL, expires INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS repos (
    id TEXT PRIMARY KEY,  -- random; names its folder
    type TEXT NOT NULL CHECK (type IN ('model', 'dataset', 'space')),
    namespace TEXT NOT NULL COLLATE NOCASE, name TEXT NOT NULL COLLATE NOCASE,
    private INTEGER NOT NULL, gated TEXT NOT NULL DEFAULT '', sdk TEXT, created TEXT NOT NULL,
    UNIQUE (type, namespace, name)
) STRICT;
CREATE TABLE IF NOT EXISTS redirects (  -- former names of moved repositories
    type TEXT NOT NULL, namespace TEXT NOT NULL COLLATE NOCASE, name TEXT NOT NULL COLLATE NOCASE, repo TEXT NOT NULL,
    PRIMARY KEY (type, namespace, name)
) STRICT;
CREATE TABLE IF NOT EXISTS refs (  -- refs/heads/*, refs/tags/*, refs/pr/<num>; sha is always that of a commit
    repo TEXT NOT NULL, name TEXT NOT NULL, sha TEXT NOT NULL, message TEXT, PRIMARY KEY (repo, name)
) STRICT;
CREATE TABLE IF NOT EXISTS commits (repo TEXT NOT NULL, sha TEXT NOT NULL, PRIMARY KEY (repo, sha)) STRICT;
CREATE TABLE IF NOT EXISTS objects (  -- which stored files a repository received, and may therefore commit
    repo TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (repo, sha256)
) STRICT;
CREATE INDEX IF NOT EXISTS objects_by_sha256 ON objects (sha256);
CREATE TABLE IF NOT EXISTS discussions (
    repo TEXT NOT NULL, num INTEGER NOT NULL, title TEXT NOT NULL, author TEXT NOT NULL, is_pr INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('draft', 'open', 'closed', 'merged')),
    target TEXT, merge_commit TEXT, created TEXT NOT NULL, PRIMARY KEY (repo, num)
) STRICT;
CREATE TABLE IF NOT EXISTS events (  -- what happened in a discussion; data is JSON by kind
    id TEXT PRIMARY KEY, repo TEXT NOT NULL, num INTEGER NOT NULL, kind TEXT NOT NULL, author TEXT NOT NULL,
    created TEXT NOT NULL, data TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS events_by_discussion ON events (repo, num);
"""
_WAIT_S = 60  # for another writer


class Database:
    """Connections to one SQLite file. ``extra`` is the schema of what else is kept in it."""

    def __init__(self, path: Path, extra: str = "") -> None:
        self.path = path
        path.touch(0o600)  # SQLite gives its other files the rights of this one
        # One connection stays open: when the last one closes, SQLite writes its log back, 15 ms after each transaction.
        held = self._connect(check_same_thread=False)
        weakref.finalize(self, held.close)
        held.execute("PRAGMA journal_mode = WAL")
        held.executescript(_SCHEMA + extra)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A consistent view: what other connections write meanwhile is not seen."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """The one writer; commits at the end, and changes nothing when the block raises."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _connect(self, *, check_same_thread: bool = True) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=check_same_thread
        )
        connection.row_factory = sqlite3.Row
        # A killed process loses nothing that the system has; only a power cut would.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection
