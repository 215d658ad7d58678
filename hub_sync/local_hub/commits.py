"""One commit: the whole change of state in one write transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from . import revisions, web
from .discussions import add_event, open_discussion
from .errors import HubError, entry_not_found
from .git import Git
from .objects import granted
from .pointers import Pointer
from .store import Caller, Repo, Store

_CONFLICT = "The branch was updated since you opened this page. Please refresh and try again."


@dataclass(frozen=True)
class PutBlob:
    """A regular file: ``oid`` is the sha1 of a blob that is in the git storage."""

    path: str
    oid: str


@dataclass(frozen=True)
class PutStored:
    """A stored file; a copy is announced without its size."""

    path: str
    sha256: str
    size: int | None


@dataclass(frozen=True)
class Delete:
    """A file or a folder."""

    path: str


Change = PutBlob | PutStored | Delete


@dataclass(frozen=True)
class Done:
    """``pull_request`` is the number of the one that was opened with the commit."""

    sha: str
    pull_request: int | None = None


def apply_changes(
    hub: Store, repo: Repo, caller: Caller, rev: str, changes: list[Change], header: dict[str, Any], *, create_pr: bool
) -> Done:
    """Commit ``changes`` in their order onto the present head of ``rev``, or into a new pull request against it.

    There is one writer, so a commit that names no parent simply follows the one before it. Raises HubError: 412 when
    `parentCommit` is no longer the head, 404 for a revision or a path to delete that is not there, 422 for a stored
    file that this repository never received, 401 / 403.
    """
    summary, description = str(header["summary"]), str(header.get("description") or "")
    message = f"{summary}\n\n{description}" if description else summary
    with hub.database.write() as db:
        head = revisions.writable(db, repo.uid, rev)
        assert head.ref is not None
        if create_pr and not head.ref.startswith("refs/heads/"):
            raise HubError(404, f"Invalid rev id: {rev}", "RevisionNotFound")
        if not create_pr:
            may_move(db, repo, caller, head.ref)
        parent = header.get("parentCommit")
        if parent is not None and (not isinstance(parent, str) or revisions.expand(db, repo.uid, parent) != head.sha):
            raise HubError(412, _CONFLICT)
        git = Git(hub.git_folder(repo))
        tree = _changed_tree(db, git, repo, head.sha, changes)
        sha = git.write_commit(tree, [head.sha], caller.user or "", message)
        record_commit(db, repo, sha)
        if not create_pr:
            move_ref(db, repo, head.ref, sha)
            if head.ref.startswith("refs/pr/"):
                number = int(head.ref.removeprefix("refs/pr/"))
                add_event(db, repo, number, "commit", caller, {"subject": summary, "oid": sha})
            return Done(sha)
        number = open_discussion(db, repo, caller, summary, description, pull_request=(head.ref, sha))
        add_event(db, repo, number, "commit", caller, {"subject": summary, "oid": sha})
        return Done(sha, number)


def _changed_tree(db: sqlite3.Connection, git: Git, repo: Repo, head: str, changes: list[Change]) -> str:
    edit = git.edit(head)
    for change in changes:
        if isinstance(change, PutBlob):
            edit.put(change.path, change.oid)
        elif isinstance(change, Delete):
            if not edit.delete(change.path):
                raise entry_not_found(f"A file with this name doesn't exist: {change.path}", head)
        else:
            size = granted(db, repo.uid, change.sha256)
            if size is None or change.size not in (size, None):
                what = f"the LFS file {change.sha256} of that size"
                raise HubError(422, f"{change.path}: this repository never received {what}")
            edit.put(change.path, git.write_blob(Pointer(change.sha256, size).text))
    return str(edit.write())


def may_move(db: sqlite3.Connection, repo: Repo, caller: Caller, ref: str) -> None:
    """Pull requests are also for their authors, everything else for those who may write. Raises HubError."""
    if caller.owns(repo.namespace) and caller.role == "write":
        return
    if ref.startswith("refs/pr/"):
        row = db.execute(
            "SELECT author FROM discussions WHERE repo = ? AND num = ?", (repo.uid, ref.removeprefix("refs/pr/"))
        ).fetchone()
        if row and row["author"] == caller.user and web.may_contribute(repo, caller):
            return
    raise HubError(403, "You don't have the rights to commit here. Open a pull request instead (create_pr=1).")


def record_commit(db: sqlite3.Connection, repo: Repo, sha: str) -> None:
    """Make a commit one of this repository's."""
    db.execute("INSERT OR IGNORE INTO commits VALUES (?, ?)", (repo.uid, sha))


def move_ref(db: sqlite3.Connection, repo: Repo, ref: str, sha: str) -> None:
    db.execute("UPDATE refs SET sha = ? WHERE repo = ? AND name = ?", (sha, repo.uid, ref))
