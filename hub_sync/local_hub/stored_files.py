"""The stored files of a repository's whole history, and how they are made to be forgotten."""

from __future__ import annotations

import sqlite3
from typing import Any

from .commits import move_ref, record_commit
from .content import describe
from .git import Git
from .store import Repo


def list_files(db: sqlite3.Connection, git: Git, repo: Repo) -> list[dict[str, Any]]:
    """Each stored file once, with the newest commit and the reference it was found in."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for row in _heads(db, repo):
        for commit in git.log(row["sha"]):
            tree = git.tree(commit.sha)
            if tree in seen:
                continue
            seen.add(tree)
            for entry in git.files(commit.sha):
                file = describe(db, git, repo.uid, entry)
                if file.lfs and file.lfs.sha256 not in found:
                    found[file.lfs.sha256] = {
                        "fileOid": file.lfs.sha256,
                        "oid": file.lfs.sha256,
                        "filename": file.path,
                        "pushedAt": commit.date,
                        "ref": row["name"],
                        "size": file.lfs.size,
                    }
    return list(found.values())


def forget_files(db: sqlite3.Connection, git: Git, repo: Repo, wanted: set[str], *, rewrite: bool) -> None:
    """Take back the grants of ``wanted``; with ``rewrite`` no commit of any reference has their pointers any more."""
    if rewrite:
        renewed: dict[str, str] = {}
        for row in _heads(db, repo):
            for commit in reversed(list(git.log(row["sha"]))):
                if commit.sha in renewed:
                    continue
                edit, changed = git.edit(commit.sha), False
                for entry in list(git.files(commit.sha)):
                    file = describe(db, git, repo.uid, entry)
                    if file.lfs and file.lfs.sha256 in wanted:
                        changed = edit.delete(entry.path)
                parents = tuple(renewed[parent] for parent in commit.parents)
                renewed[commit.sha] = (
                    git.rewrite_commit(commit.sha, str(edit.write()), parents)
                    if changed or parents != commit.parents
                    else commit.sha
                )
                record_commit(db, repo, renewed[commit.sha])
            move_ref(db, repo, row["name"], renewed[row["sha"]])
    for sha256 in wanted:
        db.execute("DELETE FROM objects WHERE repo = ? AND sha256 = ?", (repo.uid, sha256))


def _heads(db: sqlite3.Connection, repo: Repo) -> list[sqlite3.Row]:
    order = "name <> 'refs/heads/main', name"
    return db.execute(f"SELECT name, sha FROM refs WHERE repo = ? ORDER BY {order}", (repo.uid,)).fetchall()  # noqa: S608
