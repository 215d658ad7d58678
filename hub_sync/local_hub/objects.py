"""Stored files, each under the sha256 of its bytes. Which repository may use one is a row of the database."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import HubError
from .folder import make_private

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def checked_sha256(value: object) -> str:
    """``value`` when it is 64 lower-case hex digits; it then names a file safely. Raises HubError 422 otherwise."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise HubError(422, "an oid is 64 lower-case hex digits")
    return value


class Incoming:
    """A file that is being received: hashed while it is written, moved into place only when it is what was said."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.path = path
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def finish(self) -> str:
        """Close the file and return the sha256 of what was written."""
        self._file.close()
        return self._digest.hexdigest()


class Objects:
    """The folder of stored files: ``<root>/objects/ab/cd/<sha256>``; ``<root>/incoming`` for unfinished ones."""

    def __init__(self, root: Path) -> None:
        self._root = root / "objects"
        self._incoming = root / "incoming"
        make_private(self._root)
        make_private(self._incoming)

    def path(self, sha256: str) -> Path:
        checked = checked_sha256(sha256)
        return self._root / checked[:2] / checked[2:4] / checked

    def size(self, sha256: str) -> int | None:
        """Bytes of a stored file, None when there is none."""
        try:
            return self.path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    @contextmanager
    def receive(self) -> Iterator[Incoming]:
        """A new file to write to; gone afterwards unless `place` moved it."""
        handle, name = tempfile.mkstemp(dir=self._incoming)
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                yield Incoming(file, path)
        finally:
            path.unlink(missing_ok=True)

    def place(self, db: sqlite3.Connection, incoming: Incoming, sha256: str, repo: str) -> None:
        """Move a finished file into place and grant it to ``repo``: within a write transaction.

        Raises HubError 400 when the bytes are not those of ``sha256``.
        """
        if incoming.finish() != checked_sha256(sha256):
            raise HubError(400, "the bytes received do not have the sha256 they were announced with")
        target = self.path(sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        incoming.path.replace(target)
        grant(db, repo, sha256, incoming.size)

    def clear_unfinished(self, db: sqlite3.Connection) -> None:
        """Remove what a killed hub had not finished receiving, or deleting. Only for the one server of this folder."""
        shutil.rmtree(self._incoming)
        make_private(self._incoming)
        remove_unknown(self._root, {row["sha256"] for row in db.execute("SELECT sha256 FROM objects")})

    def drop_unused(self, db: sqlite3.Connection, candidates: list[str]) -> None:
        """Delete those of the files that no repository has any more: within a write transaction."""
        for sha256 in candidates:
            if not db.execute("SELECT 1 FROM objects WHERE sha256 = ?", (sha256,)).fetchone():
                self.path(sha256).unlink(missing_ok=True)


def remove_unknown(root: Path, known: set[str]) -> None:
    """Delete the files under ``root`` that are named by a hash which nothing knows."""
    for folder, _, names in os.walk(root):
        for name in names:
            if name not in known and _SHA256.fullmatch(name):
                Path(folder, name).unlink()


def grant(db: sqlite3.Connection, repo: str, sha256: str, size: int) -> None:
    """Let ``repo`` commit a stored file."""
    db.execute("INSERT OR IGNORE INTO objects VALUES (?, ?, ?)", (repo, sha256, size))


def granted(db: sqlite3.Connection, repo: str, sha256: str) -> int | None:
    """Bytes of a file that ``repo`` received, None when it did not."""
    row = db.execute("SELECT size FROM objects WHERE repo = ? AND sha256 = ?", (repo, sha256)).fetchone()
    return row and int(row["size"])
