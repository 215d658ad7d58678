"""One repository at one revision, as its pages show it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from starlette.requests import Request

from .. import revisions, web
from ..card_yaml import README_LIMIT
from ..content import File, describe
from ..errors import entry_not_found
from ..git import Commit, Entry, Git
from ..store import Repo, Store
from .card import Card, split_card
from .markdown import Place
from .parquet_facts import Source

MAIN = "main"
_MOST_FILES = 20_000  # of one revision that are looked at
_PLURAL = {"model": "models", "dataset": "datasets", "space": "spaces"}


@dataclass
class View:
    """``rev`` is the name in the address (a branch, a tag, `refs/pr/1`, a sha), ``commit`` what it stands for."""

    request: Request
    hub: Store
    db: sqlite3.Connection
    repo: Repo
    git: Git
    rev: str
    path: str
    commit: str

    # Addresses

    @property
    def root(self) -> str:
        return f"/{self.repo.web_path}"

    def url(self, verb: str, path: str = "", rev: str | None = None) -> str:
        """`/datasets/ns/name/tree/main/folder`; everything that does not come from us is quoted."""
        base = f"{self.root}/{verb}/{quote(rev or self.rev, safe='')}"
        return f"{base}/{quote(path)}" if path else base

    @property
    def endpoint(self) -> str:
        return web.base_url(self.request)

    def place(self, path: str) -> Place:
        """Where a Markdown file of this revision stands."""
        return Place(self.url("blob"), self.url("resolve"), path.rpartition("/")[0])

    # References

    @cached_property
    def refs(self) -> dict[str, str]:
        rows = self.db.execute("SELECT name, sha FROM refs WHERE repo = ? ORDER BY rowid", (self.repo.uid,)).fetchall()
        return {row["name"]: row["sha"] for row in rows}

    def named(self, prefix: str) -> list[str]:
        """Branches (`refs/heads/`) or tags (`refs/tags/`): `main` first, then the newest."""
        names = [name.removeprefix(prefix) for name in reversed(self.refs) if name.startswith(prefix)]
        return sorted(names, key=lambda name: name != MAIN)

    @property
    def is_named(self) -> bool:
        return self.rev.lower() != self.commit and not self.commit.startswith(self.rev.lower())

    def tags_here(self) -> list[str]:
        """Tags of the shown commit."""
        return [name for name in self.named("refs/tags/") if self.refs[f"refs/tags/{name}"] == self.commit]

    @property
    def plural(self) -> str:
        return _PLURAL[self.repo.type]

    # Files

    @cached_property
    def head(self) -> Commit:
        return self.git.commit(self.commit)

    @cached_property
    def files(self) -> dict[str, File]:
        """All files, at most `_MOST_FILES` of them."""
        found: dict[str, File] = {}
        for entry in self.git.files(self.commit):
            if len(found) >= _MOST_FILES:
                break
            found[entry.path] = self.describe(entry)
        return found

    def describe(self, entry: Entry) -> File:
        return describe(self.db, self.git, self.repo.uid, entry)

    def entry(self) -> Entry:
        """What stands at the address's path. Raises HubError 404."""
        found = self.git.entry(self.commit, self.path)
        if found is None:
            raise entry_not_found(f"{self.path} is not in {self.rev}", self.commit)
        return found

    def source(self, file: File) -> Source:
        """A file's bytes, or where they are stored."""
        return self.hub.objects.path(file.lfs.sha256) if file.lfs else self.git.blob(file.oid)

    def beginning(self, file: File, limit: int) -> bytes:
        """At most ``limit`` bytes."""
        source = self.source(file)
        if isinstance(source, bytes):
            return source[:limit]
        with source.open("rb") as stored:
            return stored.read(limit)

    @cached_property
    def card(self) -> Card | None:
        """The README of the root."""
        entry = self.git.entry(self.commit, "README.md")
        if entry is None or entry.is_folder:
            return None
        return split_card(self.beginning(self.describe(entry), README_LIMIT).decode("utf-8", "replace"))


@contextmanager
def view(request: Request, rest: str | None = None) -> Iterator[View]:
    """The repository of the address, at the revision and path in ``rest`` (still quoted), `main` without one.

    Raises HubError 404 for what is not there or must not be seen.
    """
    repo = web.repo(request, files=True)
    hub = web.store(request)
    with hub.database.read() as db:
        name, path = revisions.split(db, repo.uid, rest) if rest else (MAIN, "")
        sha = revisions.resolve(db, repo.uid, name).sha
        path = web.unquoted(path).strip("/")
        yield View(request, hub, db, repo, Git(hub.git_folder(repo)), name, path, sha)
