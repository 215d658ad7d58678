"""One end of a comparison: a built folder, or a commit of a repository whose files are downloaded when asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...hub_sync.hub import Hub, RemoteFile, checked_repo_id
from ...hub_sync.pull import download
from ...hub_sync.release import CARD, manifest_at
from ...schemas import manifest as manifests
from ...schemas.errors import ArmError
from ...schemas.ids import file_sha256

Progress = Callable[[str, int, int], None]


class Side:
    """A version of a dataset. Use it as a context, or `close` it: what was downloaded for it is then deleted.

    Attributes
    ----------
    name: what to call it: the folder, or ``namespace/name@commit`` with the commit's first 12 digits.
    manifest: its checked manifest.
    card: the text of README.md, or None without one.
    commit: the commit of a repository, None for a folder.
    verify: the command that finds all that is wrong with it.
    trusted: paths of files whose rows somebody has seen to be those of the other side.
    """

    def __init__(
        self, name: str, manifest: Mapping[str, Any], card: str | None, fetch: Callable[[str], Path],
        *, verify: str, commit: str | None = None, folder: tempfile.TemporaryDirectory[str] | None = None,
        listed: Mapping[str, RemoteFile] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.manifest, self.card, self.commit, self.verify = name, manifest, card, commit, verify
        self._fetch = fetch
        self._folder = folder
        self._listed = listed
        self.trusted: frozenset[str] = frozenset()
        self._checked: dict[str, Path] = {}

    @classmethod
    def folder(cls, path: Path) -> Side:
        """A built directory. Raises ArmError when it holds no manifest, or a card that is no text."""
        manifest = manifests.manifest_of(path)
        card = path / CARD
        data = card.read_bytes() if card.is_file() else None
        return cls(str(path), manifest, _text(data, f"{card}"), lambda file: path / file, verify=f"arm verify {path}")

    @classmethod
    def revision(cls, hub: Hub, repo: str, commit: str, progress: Progress = lambda *_: None) -> Side:
        """A repository at a commit. Raises ArmError when it holds no manifest that this version reads."""
        files, manifest = manifest_at(hub, checked_repo_id(repo), commit)
        where = f"{hub.url(repo)} at {commit}"
        data = hub.read(repo, files[CARD], commit) if CARD in files else None
        folder = tempfile.TemporaryDirectory(prefix="arm-diff-")

        def fetch(file: str) -> Path:
            return _download(hub, repo, commit, files, file, Path(folder.name), progress)

        name, verify = f"{repo}@{commit[:12]}", f"arm verify {repo}@{commit}"
        card = _text(data, f"{where}: {CARD}")
        return cls(name, manifest, card, fetch, verify=verify, commit=commit, folder=folder, listed=files)

    @property
    def is_local(self) -> bool:
        """Whether its files lie on this machine."""
        return self._folder is None

    def sha256(self, file: str) -> str | None:
        """The digest of a file's bytes as the manifest has it; None for one that it does not list."""
        entry = self.manifest["environment"]["files"].get(file)
        return entry and str(entry["sha256"])

    def expect(self, file: str) -> None:
        """Raise ArmError when what the Hub lists is another file than the manifest's: without a download."""
        if self._listed is None:
            return
        held = self._listed.get(file)
        if held is None or held.sha256 not in (None, self.sha256(file)):
            raise self.wrong(f"{file} is {'missing' if held is None else 'not the file that the manifest names'}")

    def path(self, file: str) -> Path:
        """Where a file of the manifest lies, downloaded if need be, with the bytes that the manifest says.

        Raises ArmError for one that is missing, that is damaged, or that the manifest does not list.
        """
        if file not in self._checked:
            entry = self.manifest["environment"]["files"].get(file)
            if entry is None:
                raise self.wrong(f"{file} has no hash in the manifest")
            path = self._fetch(file)
            if not path.is_file():
                raise self.wrong(f"{file} is missing")
            if file_sha256(path) != entry["sha256"]:
                raise self.wrong(f"{file} is not the file that the manifest names")
            self._checked[file] = path
        return self._checked[file]

    def wrong(self, message: str) -> ArmError:
        """The error of a side that is not what its manifest says: nothing can be said about its rows."""
        return ArmError(message, where=self.name, next_command=f"{self.verify}   # finds all that is wrong")

    def close(self) -> None:
        """Delete what was downloaded."""
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _download(
    hub: Hub, repo: str, commit: str, files: Mapping[str, RemoteFile], file: str, folder: Path, progress: Progress
) -> Path:
    where = f"{hub.url(repo)} at {commit}"
    if file not in files:
        raise ArmError(f"lacks {file} of its manifest", where=where)
    if download(hub, repo, commit, [files[file]], folder, progress):
        raise ArmError(f"{file} arrived with other bytes than listed", where=where)
    return folder / file


def _text(data: bytes | None, where: str) -> str | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArmError(f"is not UTF-8: {error.reason} at byte {error.start}", where=where) from error
