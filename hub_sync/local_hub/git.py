"""One bare git repository as a store of blobs, trees and commits. References are rows of the database.

Nothing here moves a reference, so a write that is never named by the database is only garbage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pygit2
from pygit2.enums import FileMode, MergeFlag, RepositoryOpenFlag, SortMode

from .edits import TreeEdit
from .errors import HubError, repo_not_found

_DIFF_LIMIT = 2 * 2**20  # bytes of files compared for a patch


@dataclass(frozen=True)
class Entry:
    """A file or folder of a tree. ``oid`` is the sha1 of its blob or tree, ``path`` is relative to the root."""

    path: str
    oid: str
    is_folder: bool


@dataclass(frozen=True)
class Commit:
    """A commit; ``title`` is the first line of its message, ``body`` the rest, ``date`` as the Hub writes it."""

    sha: str
    title: str
    body: str
    author: str
    date: str
    parents: tuple[str, ...]


class Git:
    """An open repository. Not for several threads: each request opens its own."""

    def __init__(self, folder: Path) -> None:
        try:
            self._repo = pygit2.Repository(str(folder), RepositoryOpenFlag.NO_SEARCH)
        except pygit2.GitError as error:  # it was deleted after it had been looked up
            raise repo_not_found() from error

    @classmethod
    def create(cls, folder: Path) -> Git:
        folder.parent.mkdir(parents=True, exist_ok=True)
        pygit2.init_repository(str(folder), bare=True)
        return cls(folder)

    # Blobs and trees

    def write_blob(self, data: bytes) -> str:
        return str(self._repo.create_blob(data))

    def blob(self, oid: str) -> bytes:
        found = self._repo[oid]
        assert isinstance(found, pygit2.Blob)
        return found.data

    def size(self, oid: str) -> int:
        """Bytes of a blob, without reading it."""
        return self._repo.odb.read_header(pygit2.Oid(hex=oid))[1]

    def tree(self, commit: str) -> str:
        return str(self._commit(commit).tree_id)

    def entry(self, commit: str, path: str) -> Entry | None:
        """What is at ``path``; "" is the root."""
        if not path:
            return Entry("", self.tree(commit), True)
        try:
            found = self._commit(commit).tree[path]
        except (KeyError, ValueError):
            return None
        return Entry(path, str(found.id), isinstance(found, pygit2.Tree))

    def read(self, commit: str, path: str) -> bytes | None:
        """The blob at ``path``, None when there is no file."""
        found = self.entry(commit, path)
        return None if found is None or found.is_folder else self.blob(found.oid)

    def entries(self, folder: Entry, *, recursive: bool = False) -> Iterator[Entry]:
        """What a folder holds, in git's order; with ``recursive`` each folder before what is in it."""
        tree = self._repo[folder.oid]
        assert isinstance(tree, pygit2.Tree)
        for item in tree:
            path = f"{folder.path}/{item.name}" if folder.path else str(item.name)
            found = Entry(path, str(item.id), item.filemode == FileMode.TREE)
            yield found
            if recursive and found.is_folder:
                yield from self.entries(found, recursive=True)

    def files(self, commit: str) -> Iterator[Entry]:
        """All files of a commit."""
        root = Entry("", self.tree(commit), True)
        return (entry for entry in self.entries(root, recursive=True) if not entry.is_folder)

    def edit(self, commit: str | None) -> TreeEdit:
        """Changes that start from the tree of a commit, or from nothing."""
        return TreeEdit(self._repo, self._commit(commit).tree_id if commit else None)

    # Commits

    def write_commit(self, tree: str, parents: Iterable[str], author: str, message: str) -> str:
        """Write a commit object of now and return its sha."""
        signature = pygit2.Signature(author, f"{author}@users.noreply.localhost")
        text = message.replace("\0", "").encode("utf-8", "replace")
        oid = self._repo.create_commit(
            None, signature, signature, text, pygit2.Oid(hex=tree), [pygit2.Oid(hex=parent) for parent in parents]
        )
        return str(oid)

    def rewrite_commit(self, sha: str, tree: str, parents: Iterable[str]) -> str:
        """The same commit (author, time, message) with another tree and other parents."""
        old = self._commit(sha)
        oid = self._repo.create_commit(
            None, old.author, old.committer, old.raw_message, pygit2.Oid(hex=tree), [pygit2.Oid(hex=p) for p in parents]
        )
        return str(oid)

    def commit(self, sha: str) -> Commit:
        found = self._commit(sha)
        title, _, body = found.message.partition("\n")
        date = datetime.fromtimestamp(found.commit_time, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        parents = tuple(str(parent) for parent in found.parent_ids)
        return Commit(str(found.id), title, body.strip("\n"), found.author.name, date, parents)

    def log(self, sha: str) -> Iterator[Commit]:
        """The commit and all before it, newest first."""
        for found in self._repo.walk(pygit2.Oid(hex=sha), SortMode.TOPOLOGICAL | SortMode.TIME):
            yield self.commit(str(found.id))

    def last_commits(self, sha: str, paths: Iterable[str]) -> dict[str, Commit]:
        """For each path the newest commit that changed it or, for a folder, something in it. One walk for all."""
        wanted, found = set(paths), {}
        current: pygit2.Commit | None = self._commit(sha)
        while current is not None and wanted:
            parent = current.parents[0] if current.parents else None
            touched = self._touched(parent, current, wanted) if parent else set(wanted)
            if touched:
                commit = self.commit(str(current.id))
                found.update(dict.fromkeys(touched, commit))
                wanted -= touched
            current = parent
        return found

    def _touched(self, old: pygit2.Commit, new: pygit2.Commit, wanted: set[str]) -> set[str]:
        touched: set[str] = set()
        for delta in old.tree.diff_to_tree(new.tree).deltas:
            for path in {delta.old_file.path, delta.new_file.path}:
                parts = path.split("/")
                touched.update("/".join(parts[: n + 1]) for n in range(len(parts)))
        return touched & wanted

    # Comparing and merging

    def base(self, ours: str, theirs: str) -> str | None:
        """The commit both come from, None for histories that have nothing in common."""
        found = self._repo.merge_base(pygit2.Oid(hex=ours), pygit2.Oid(hex=theirs))
        return str(found) if found else None

    def merge(self, ours: str, theirs: str) -> tuple[str | None, list[str]]:
        """(tree, []) of both sides' changes, or (None, paths that both changed differently)."""
        base = self.base(ours, theirs)
        if base is None:
            return None, []
        ancestor, mine, other = (self._commit(sha).tree for sha in (base, ours, theirs))
        index = self._repo.merge_trees(ancestor, mine, other, flags=MergeFlag(0))
        if index.conflicts is not None:
            sides = [side for conflict in index.conflicts for side in conflict if side is not None]
            return None, sorted({str(side.path) for side in sides})
        return str(index.write_tree(self._repo)), []

    def patch(self, old: str, new: str) -> str | None:
        """The difference as text, None when it would be large."""
        diff = self._commit(old).tree.diff_to_tree(self._commit(new).tree)
        sides = [side for delta in diff.deltas for side in (delta.old_file, delta.new_file) if side.id.raw.strip(b"\0")]
        if sum(self.size(str(side.id)) for side in sides) > _DIFF_LIMIT:
            return None
        return diff.patch or ""

    def _commit(self, sha: str) -> pygit2.Commit:
        try:
            return self._repo[sha].peel(pygit2.Commit)
        except KeyError as error:
            raise HubError(500, f"the commit {sha} is missing from the storage of this repository") from error
