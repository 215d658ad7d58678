"""Changes to a git tree: applied in memory in their order, then written, unchanged folders as they are."""

from __future__ import annotations

import pygit2
from pygit2.enums import FileMode

from .errors import HubError


class TreeEdit:
    """A tree that is being changed. Only folders on the way to a change are read."""

    def __init__(self, repo: pygit2.Repository, tree: pygit2.Oid | None) -> None:
        self._repo = repo
        self._root = _Folder(repo, tree)

    def put(self, path: str, blob: str) -> None:
        """Add or replace a file. Raises HubError 422 where a file would become a folder, or a folder a file."""
        *parents, name = path.split("/")
        folder = self._root
        for parent in parents:
            found = folder.entries.get(parent)
            if found is None:
                found = folder.entries[parent] = _Folder(self._repo, None)
            if not isinstance(found, _Folder):
                raise HubError(422, f"{path!r} cannot be added: {parent!r} is a file")
            found.changed = folder.changed = True
            folder = found
        if isinstance(folder.entries.get(name), _Folder):
            raise HubError(422, f"{path!r} cannot be added as a file: it is a folder")
        folder.entries[name] = pygit2.Oid(hex=blob)
        folder.changed = True

    def delete(self, path: str) -> bool:
        """Remove a file or a folder with all in it; folders left empty go, too. False when there is no such path."""
        *parents, name = path.split("/")
        way = [self._root]
        for parent in parents:
            found = way[-1].entries.get(parent)
            if not isinstance(found, _Folder):
                return False
            way.append(found)
        if way[-1].entries.pop(name, None) is None:
            return False
        for folder in way:
            folder.changed = True
        for folder, parent in zip(reversed(way[:-1]), reversed(parents), strict=True):
            child = folder.entries[parent]
            if isinstance(child, _Folder) and not child.entries:
                del folder.entries[parent]
        return True

    def write(self) -> pygit2.Oid:
        """Write what changed and return the new tree."""
        return self._root.write()


class _Folder:
    """A folder; ``entries`` maps a name to a blob or a folder and is read on first use."""

    def __init__(self, repo: pygit2.Repository, tree: pygit2.Oid | None) -> None:
        self._repo = repo
        self._tree = tree
        self._entries: dict[str, pygit2.Oid | _Folder] | None = {} if tree is None else None
        self.changed = tree is None

    @property
    def entries(self) -> dict[str, pygit2.Oid | _Folder]:
        if self._entries is None:
            assert self._tree is not None
            tree = self._repo[self._tree]
            assert isinstance(tree, pygit2.Tree)
            self._entries = {
                str(entry.name): _Folder(self._repo, entry.id) if entry.filemode == FileMode.TREE else entry.id
                for entry in tree
            }
        return self._entries

    def write(self) -> pygit2.Oid:
        if not self.changed and self._tree is not None:
            return self._tree
        builder = self._repo.TreeBuilder()
        for name, entry in self.entries.items():
            if isinstance(entry, _Folder):
                builder.insert(name, entry.write(), FileMode.TREE)
            else:
                builder.insert(name, entry, FileMode.BLOB)
        return builder.write()
