"""What a repository holds at a commit: files with their sizes, and the stored files that pointers stand for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .git import Commit, Entry, Git
from .objects import granted
from .pointers import LONGEST, Pointer, parse_pointer

_blobs: dict[str, tuple[int, Pointer | None]] = {}  # by sha1 of the content, so that nothing in it ever gets stale
_MOST_BLOBS = 200_000


@dataclass(frozen=True)
class File:
    """A file: the blob in the tree (``oid``), and the stored file ``lfs`` it stands for, None for a regular file."""

    path: str
    oid: str
    blob_size: int
    lfs: Pointer | None

    @property
    def size(self) -> int:
        return self.lfs.size if self.lfs else self.blob_size

    @property
    def digest(self) -> str:
        """What names the bytes: the sha256 of a stored file, the sha1 of a blob."""
        return self.lfs.sha256 if self.lfs else self.oid


def describe(db: sqlite3.Connection, git: Git, repo: str, entry: Entry) -> File:
    """A pointer counts only when the repository received that very file; otherwise it is a text like any other."""
    known = _blobs.get(entry.oid)
    if known is None:
        size = git.size(entry.oid)
        known = (size, parse_pointer(git.blob(entry.oid)) if size <= LONGEST else None)
        if len(_blobs) >= _MOST_BLOBS:
            _blobs.clear()
        _blobs[entry.oid] = known
    size, pointer = known
    if pointer is not None and granted(db, repo, pointer.sha256) != pointer.size:
        pointer = None
    return File(entry.path, entry.oid, size, pointer)


def entry_json(
    db: sqlite3.Connection, git: Git, repo: str, entries: Iterable[Entry], commits: dict[str, Commit] | None
) -> list[dict[str, Any]]:
    """Entries as `tree` and `paths-info` list them; ``commits`` are the last ones that changed each path."""
    found = []
    for entry in entries:
        if entry.is_folder:
            item: dict[str, Any] = {"type": "directory", "oid": entry.oid, "size": 0, "path": entry.path}
        else:
            file = describe(db, git, repo, entry)
            item = {"type": "file", "oid": file.oid, "size": file.size, "path": file.path}
            if file.lfs:
                item["lfs"] = {"oid": file.lfs.sha256, "size": file.lfs.size, "pointerSize": file.blob_size}
        if commits is not None and (last := commits.get(entry.path)):
            item["lastCommit"] = {"id": last.sha, "title": last.title, "date": last.date}
        found.append(item)
    return found


def siblings(db: sqlite3.Connection, git: Git, repo: str, commit: str, *, blobs: bool) -> list[dict[str, Any]]:
    """All files of a commit as a repository's info lists them; with ``blobs`` with their sizes."""
    found = []
    for entry in git.files(commit):
        item: dict[str, Any] = {"rfilename": entry.path}
        if blobs:
            file = describe(db, git, repo, entry)
            item |= {"blobId": file.oid, "size": file.size}
            if file.lfs:
                item["lfs"] = {"sha256": file.lfs.sha256, "size": file.lfs.size, "pointerSize": file.blob_size}
        found.append(item)
    return found
