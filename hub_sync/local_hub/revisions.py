"""From what a client calls a revision to a commit: a branch, a tag, a full reference, a sha or its beginning."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from urllib.parse import unquote

from .errors import revision_not_found

_SHA = re.compile(r"[0-9a-f]{5,40}", re.ASCII)
_FULL = 40  # digits of a sha
_SPECIAL = ("refs/pr/", "refs/convert/")


@dataclass(frozen=True)
class Revision:
    """``sha`` is a commit of the repository; ``ref`` the full reference it was found by, None for a plain sha."""

    sha: str
    ref: str | None


def resolve(db: sqlite3.Connection, repo: str, name: str) -> Revision:
    """As git does: a full sha is that commit, a tag comes before a branch of its name, a sha's beginning last.

    Raises HubError 404 RevisionNotFound.
    """
    if len(name) == _FULL and (sha := expand(db, repo, name)):
        return Revision(sha, None)
    for ref in _refs(name):
        row = db.execute("SELECT sha FROM refs WHERE repo = ? AND name = ?", (repo, ref)).fetchone()
        if row:
            return Revision(row["sha"], ref)
    sha = expand(db, repo, name)
    if sha is None:
        raise revision_not_found(name)
    return Revision(sha, None)


def expand(db: sqlite3.Connection, repo: str, prefix: str) -> str | None:
    """The one commit of this repository whose sha begins so."""
    prefix = prefix.lower()
    if not _SHA.fullmatch(prefix):
        return None
    found = db.execute(
        "SELECT sha FROM commits WHERE repo = ? AND sha >= ? AND sha < ? LIMIT 2", (repo, prefix, prefix + "g")
    ).fetchall()
    return found[0]["sha"] if len(found) == 1 else None


def writable(db: sqlite3.Connection, repo: str, name: str) -> Revision:
    """A branch, or another reference that a commit may move: no tag and no plain sha. Raises HubError 404."""
    for ref in _refs(name):
        if ref.startswith("refs/tags/"):
            continue
        row = db.execute("SELECT sha FROM refs WHERE repo = ? AND name = ?", (repo, ref)).fetchone()
        if row:
            return Revision(row["sha"], ref)
    raise revision_not_found(name)


def branch_ref(name: str) -> str:
    """The full reference of a branch; `refs/convert/...` and `refs/pr/...` are full already."""
    return name if name.startswith((*_SPECIAL, "refs/heads/")) else f"refs/heads/{name}"


def split(db: sqlite3.Connection, repo: str, rest: str) -> tuple[str, str]:
    """(revision, still quoted path) of a quoted ``rev/path``. A reference whose slashes came unquoted is found, too."""
    parts = rest.split("/")
    for count in range(1, min(len(parts), 5) + 1):
        name = unquote("/".join(parts[:count]))
        for ref in _refs(name):
            if db.execute("SELECT 1 FROM refs WHERE repo = ? AND name = ?", (repo, ref)).fetchone():
                return name, "/".join(parts[count:])
    return unquote(parts[0]), "/".join(parts[1:])


def _refs(name: str) -> list[str]:
    """The full references a name may stand for, in the order they are tried."""
    full = [name] if name.startswith("refs/") else []
    return [*full, f"refs/tags/{name}", f"refs/heads/{name}"]
