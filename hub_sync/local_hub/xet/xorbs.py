"""Xorbs: containers of chunks that Xet clients upload, which repositories hold them, and files rebuilt from them.

An xorb is kept beside the files that were rebuilt from it, so that the chunks a client leaves out next time are at
hand. That doubles the disk a first version takes; later versions add only their new chunks and their files. It goes
with the last of a repository's files that was made of it: until then chunks of a deleted file that stand in it stay.
"""

from __future__ import annotations

import sqlite3
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import HubError
from ..folder import make_private
from ..objects import remove_unknown
from .format import ChunkReader, Segment, Xorb, hash_text, is_asked_for

SCHEMA = """
CREATE TABLE IF NOT EXISTS xorbs (
    id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, stored_bytes INTEGER NOT NULL, unpacked_bytes INTEGER NOT NULL,
    entries BLOB NOT NULL, offsets BLOB NOT NULL  -- one per chunk, see format.Xorb
) STRICT;
CREATE TABLE IF NOT EXISTS xorb_repos (  -- which repositories received an xorb; used: a file of theirs is made of it
    repo TEXT NOT NULL, xorb INTEGER NOT NULL, used INTEGER NOT NULL, PRIMARY KEY (repo, xorb)
) STRICT;
CREATE TABLE IF NOT EXISTS xorb_files (  -- which files of a repository are made of an xorb
    repo TEXT NOT NULL, sha256 TEXT NOT NULL, xorb INTEGER NOT NULL, PRIMARY KEY (repo, sha256, xorb)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS xorb_files_by_xorb ON xorb_files (repo, xorb);
CREATE TABLE IF NOT EXISTS xorb_losses (  -- how often a repository lost xorbs
    repo TEXT PRIMARY KEY, times INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS xorb_repos_by_xorb ON xorb_repos (xorb);
CREATE TABLE IF NOT EXISTS xorb_chunks (  -- only the chunks that clients ask for
    hash BLOB NOT NULL, xorb INTEGER NOT NULL, PRIMARY KEY (hash, xorb)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS xorb_chunks_by_xorb ON xorb_chunks (xorb);
"""
ANSWER_CHUNKS = 2**16  # that one answer tells of: about 4 GB of files, 3 MB of answer
_LATEST = 2**62  # no xorb comes after it
_COPY_STEP = 2**28  # bytes between two signs of life


class Xorbs:
    """The folder of xorbs, ``<root>/xorbs/ab/<hash>``, and their rows."""

    def __init__(self, root: Path) -> None:
        self._root = root / "xorbs"
        self._incoming = root / "incoming"
        make_private(self._root)
        make_private(self._incoming)

    def path(self, xorb: bytes) -> Path:
        name = hash_text(xorb)
        return self._root / name[:2] / name

    @contextmanager
    def receive(self) -> Iterator[IO[bytes]]:
        """A new file to write to and read again; gone afterwards unless `add` moved it."""
        with tempfile.NamedTemporaryFile(dir=self._incoming, delete=False) as file:
            try:
                yield file
            finally:
                Path(file.name).unlink(missing_ok=True)

    def add(self, db: sqlite3.Connection, received: Path, xorb: Xorb, repo: str) -> bool:
        """Keep a checked xorb for ``repo``: within a write transaction. False when the repository had it before."""
        target = self.path(xorb.hash)
        known = db.execute("SELECT 1 FROM xorbs WHERE hash = ?", (xorb.hash,)).fetchone()
        if not known or not target.exists():  # another client may compress the same chunks to other bytes
            target.parent.mkdir(exist_ok=True)
            received.replace(target)
            db.execute(
                "INSERT INTO xorbs (hash, stored_bytes, unpacked_bytes, entries, offsets) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (hash) DO UPDATE SET stored_bytes = excluded.stored_bytes, offsets = excluded.offsets",
                (xorb.hash, xorb.stored_bytes, xorb.unpacked_bytes, xorb.entries, xorb.offsets.tobytes()),
            )
        key = _key(db, xorb.hash)
        hashes = {xorb.chunk(index) for index in range(xorb.chunks)}
        db.executemany(
            "INSERT OR IGNORE INTO xorb_chunks VALUES (?, ?)", [(chunk, key) for chunk in hashes if is_asked_for(chunk)]
        )
        return db.execute("INSERT OR IGNORE INTO xorb_repos VALUES (?, ?, 0)", (repo, key)).rowcount == 1

    def use(self, db: sqlite3.Connection, repo: str, sha256: str, segments: list[Segment]) -> None:
        """``repo`` holds the xorbs of this file from now on: within a write transaction."""
        for xorb in {segment.xorb for segment in segments}:
            key = _key(db, xorb)
            db.execute("INSERT OR REPLACE INTO xorb_repos VALUES (?, ?, 1)", (repo, key))
            db.execute("INSERT OR IGNORE INTO xorb_files VALUES (?, ?, ?)", (repo, sha256, key))
        if segments:
            found = _found(db, segments[0].xorb)
            first = found.chunk(segments[0].first)
            db.execute("INSERT OR IGNORE INTO xorb_chunks VALUES (?, ?)", (first, _key(db, found.hash)))

    def held(self, db: sqlite3.Connection, xorb: bytes, repos: set[str]) -> Xorb | None:
        """An xorb that one of ``repos`` holds."""
        holders = db.execute(
            "SELECT repo FROM xorb_repos JOIN xorbs ON xorbs.id = xorb_repos.xorb WHERE hash = ?", (xorb,)
        )
        return _found(db, xorb) if any(row["repo"] in repos for row in holders) else None

    def near(self, db: sqlite3.Connection, chunk: bytes, repo: str, repos: set[str]) -> list[Xorb]:
        """Xorbs in which a client that has ``chunk`` probably finds more of its chunks.

        All of its own repository's, whether the chunk is known or not: a new version of a file may begin otherwise and
        have no other chunk that clients ask for. All of another repository's in ``repos`` when that knows the chunk.
        Where these are more than `ANSWER_CHUNKS`, those that came together with the chunk, or else the latest.
        """
        hits = db.execute(
            "SELECT repo, xorb FROM xorb_repos JOIN xorb_chunks USING (xorb) WHERE hash = ? AND used", (chunk,)
        ).fetchall()
        places = {repo: _LATEST, **{row["repo"]: row["xorb"] for row in hits if row["repo"] in {repo, *repos}}}
        found: dict[int, Xorb] = {}
        chunks = 0
        for holder, place in places.items():
            for (key,) in db.execute(
                "SELECT xorb FROM xorb_repos WHERE repo = ? AND used ORDER BY abs(xorb - ?)", (holder, place)
            ).fetchall():
                if key not in found and chunks < ANSWER_CHUNKS:
                    found[key] = _xorb(db.execute("SELECT * FROM xorbs WHERE id = ?", (key,)).fetchone())
                    chunks += found[key].chunks
        return [found[key] for key in sorted(found)]  # always in one order: a client keeps equal answers once

    def rebuild(
        self, segments: Iterable[Segment], xorbs: dict[bytes, Xorb], write: Callable[[bytes], None]
    ) -> Iterator[None]:
        """Write the file that ``segments`` make, chunk by chunk. Yields now and then, as a sign of life."""
        copied = 0
        for segment in segments:
            try:
                file = self.path(segment.xorb).open("rb")
            except FileNotFoundError as error:
                raise unknown_xorb(segment.xorb) from error
            with file:
                file.seek(xorbs[segment.xorb].offsets[segment.first])
                reader = ChunkReader(file)
                for _ in range(segment.first, segment.stop):
                    chunk = reader.chunk()
                    if chunk is None:
                        raise unknown_xorb(segment.xorb)
                    write(chunk)
            copied += segment.size
            if copied > _COPY_STEP:
                copied = 0
                yield

    def clear_unfinished(self, db: sqlite3.Connection) -> None:
        """Remove the files of xorbs that a killed hub had not finished taking, or deleting. Only at its start."""
        remove_unknown(self._root, {hash_text(row["hash"]) for row in db.execute("SELECT hash FROM xorbs")})

    def forget(self, db: sqlite3.Connection, repo: str) -> list[bytes]:
        """Remove the rows of a repository; returns the xorbs that nobody holds any more: within a write transaction."""
        for table in ("xorb_repos", "xorb_files", "xorb_losses"):
            db.execute(f"DELETE FROM {table} WHERE repo = ?", (repo,))  # noqa: S608 - names from the line above
        return self._unheld(db)

    def forget_files(self, db: sqlite3.Connection, repo: str, files: Iterable[str]) -> list[bytes]:
        """As `forget`, for deleted files (sha256): a repository lets go of xorbs that none of its other files has."""
        lost = 0
        for sha256 in files:
            made_of = db.execute("SELECT xorb FROM xorb_files WHERE repo = ? AND sha256 = ?", (repo, sha256)).fetchall()
            db.execute("DELETE FROM xorb_files WHERE repo = ? AND sha256 = ?", (repo, sha256))
            for (key,) in made_of:
                if not db.execute("SELECT 1 FROM xorb_files WHERE repo = ? AND xorb = ?", (repo, key)).fetchone():
                    lost += db.execute("DELETE FROM xorb_repos WHERE repo = ? AND xorb = ?", (repo, key)).rowcount
        if lost:
            db.execute("INSERT INTO xorb_losses VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1", (repo,))
        return self._unheld(db)

    def address(self, db: sqlite3.Connection, repo: str) -> str:
        """What stands for ``repo`` in the address of its storage; another one after each loss, see `cas`."""
        row = db.execute("SELECT times FROM xorb_losses WHERE repo = ?", (repo,)).fetchone()
        return f"{repo}-{row['times']}" if row else repo

    def _unheld(self, db: sqlite3.Connection) -> list[bytes]:
        """Remove the rows of xorbs that nobody holds."""
        lost = db.execute("SELECT id, hash FROM xorbs WHERE id NOT IN (SELECT xorb FROM xorb_repos)").fetchall()
        for row in lost:
            db.execute("DELETE FROM xorb_chunks WHERE xorb = ?", (row["id"],))
            db.execute("DELETE FROM xorbs WHERE id = ?", (row["id"],))
        return [row["hash"] for row in lost]

    def drop_unused(self, db: sqlite3.Connection, candidates: list[bytes]) -> None:
        """Delete the files of forgotten xorbs, unless they were received again: within a write transaction.

        After `forget` was committed: a row whose file is gone would break files, a file without a row only takes room.
        """
        for xorb in candidates:
            if not db.execute("SELECT 1 FROM xorbs WHERE hash = ?", (xorb,)).fetchone():
                self.path(xorb).unlink(missing_ok=True)


def unknown_xorb(xorb: bytes) -> HubError:
    return HubError(
        400,
        f"no repository that you may read holds the xorb {hash_text(xorb)}; if this client uploaded it to a hub that"
        " has since been emptied, its cache is stale: delete the folder 'xet' in HF_HOME and upload again",
    )


def _key(db: sqlite3.Connection, xorb: bytes) -> int:
    row = db.execute("SELECT id FROM xorbs WHERE hash = ?", (xorb,)).fetchone()
    if row is None:
        raise unknown_xorb(xorb)
    return int(row["id"])


def _found(db: sqlite3.Connection, xorb: bytes) -> Xorb:
    row = db.execute("SELECT * FROM xorbs WHERE hash = ?", (xorb,)).fetchone()
    if row is None:
        raise unknown_xorb(xorb)
    return _xorb(row)


def _xorb(row: sqlite3.Row) -> Xorb:
    offsets = array("I")
    offsets.frombytes(row["offsets"])
    return Xorb(row["hash"], row["stored_bytes"], row["unpacked_bytes"], row["entries"], offsets)
