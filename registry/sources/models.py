"""Models and whole builds of the Hub, by commit: fetched once, checked at every use, there without a network.

``<folder>/models/<namespace>--<name>/<commit>`` is a base model, with a note of its files beside it; ``builds/...`` is
a published dataset or checkpoint, whose manifest says what its files are.
"""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import orjson

from ...builders.gathering import Progress
from ...hub_sync import forms
from ...hub_sync.hub import Hub, RemoteFile, checked_repo_id, checked_sha
from ...hub_sync.pull import download, pull
from ...inference.base import FILES, WEIGHTS
from ...schemas import manifest as manifests
from ...schemas.errors import ArmError
from ...schemas.ids import file_sha256
from .alone import alone
from .lock import Locked

_FETCH = "run it again where the Hub can be reached"
_ONLY_PICKLES = "holds no weights as safetensors; other forms can run code when they are loaded, and are not fetched"


@dataclass(frozen=True)
class Models:
    """What was fetched, below ``folder``, which is made when it is needed. ``hub``: None fetches nothing."""

    folder: Path
    hub: Hub | None

    def base(self, repo: str, commit: str, progress: Progress = lambda *_: None) -> Path:
        """The folder of a base model at ``commit``: settings, tokenizer, templates and safetensors, no other file.

        Raises ArmError when it holds no weights of that form, or cannot be had.
        """
        place = self._place("models", repo, commit)
        if self._noted(place):
            return place
        with self._alone():
            if not self._noted(place):
                self._fetch(repo, commit, place, progress)
        return place

    def build(self, kind: str, repo: str, locked: Locked, progress: Progress = lambda *_: None) -> Path:
        """The folder of a published dataset, or checkpoint (``kind``: model), as arm.lock pins it.

        Raises ArmError when it cannot be had, or has another identity.
        """
        form = forms.CHECKPOINT if kind == "model" else forms.DATASET
        place = self._place("builds", repo, locked.commit)
        if not self._is(place, form.schema, locked):
            hub = self._hub(repo, locked.commit).of(form.repo_type)
            with self._alone():
                if not self._is(place, form.schema, locked):
                    self._clear(place)
                    pull(hub, repo, locked.commit, place, progress)
            if not self._is(place, form.schema, locked):
                raise ArmError(
                    "has another identity than arm.lock says", where=f"{hub.url(repo)} at {locked.commit}",
                    next_command="arm lock --update   # if that is what you want",
                )  # fmt: skip
        return place

    def _is(self, place: Path, schema: str, locked: Locked) -> bool:
        """Whether the build lies there as pinned, to the last file."""
        try:
            manifest = manifests.manifest_of(place, schema)
        except ArmError:
            return False
        return manifests.identity_digest(manifest["identity"]) == locked.identity_sha256 and all(
            (place / path).is_file() and file_sha256(place / path) == entry["sha256"]
            for path, entry in manifest["environment"]["files"].items()
        )

    def _fetch(self, repo: str, commit: str, place: Path, progress: Progress) -> None:
        hub = self._hub(repo, commit).of("model")
        where = f"{hub.url(repo)} at {commit}"
        files = {path: file for path, file in hub.files(repo, commit).items() if _wanted(path)}
        if "config.json" not in files:
            raise ArmError("is no model: it holds no config.json", where=where)
        if not any(fnmatch.fnmatchcase(path, WEIGHTS) for path in files):
            raise ArmError(_ONLY_PICKLES, where=where)
        _refuse_larger_than_disk(place, files, where)
        if wrong := download(hub, repo, commit, list(files.values()), place, progress):
            raise ArmError(f"arrived with other bytes than listed: {', '.join(wrong[:5])}", where=where)
        for path in place.iterdir():  # what a loader would find, and nobody fetched
            if path.name not in files:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        note = {path: file_sha256(place / path) for path in sorted(files)}
        self._note(place).write_bytes(orjson.dumps(note, option=orjson.OPT_INDENT_2))

    def _noted(self, place: Path) -> bool:
        """Whether all that was fetched lies there, and nothing else that a loader would read."""
        try:
            note = orjson.loads(self._note(place).read_bytes())
            held = {path.name for path in place.iterdir()}
            return held == set(note) and all(file_sha256(place / path) == sha for path, sha in note.items())
        except (OSError, ValueError, TypeError):
            return False

    def _note(self, place: Path) -> Path:
        return place.with_name(f"{place.name}.json")

    def _clear(self, place: Path) -> None:
        """Make room for what is fetched anew: what lies there is damaged."""
        if place.is_dir():
            shutil.rmtree(place)

    def _hub(self, repo: str, commit: str) -> Hub:
        if self.hub is None:
            raise ArmError("is not here", where=f"{repo}@{commit[:12]}", next_command=_FETCH)
        return self.hub

    def _place(self, kind: str, repo: str, commit: str) -> Path:
        place = self.folder / kind / checked_repo_id(repo).replace("/", "--") / checked_sha(commit)
        for folder in (place, self._note(place), *place.parents):
            if self.folder in folder.parents and folder.is_symlink():
                raise ArmError("is a link; what is kept here lies here", where=str(folder), next_command="delete it")
        return place

    def _alone(self) -> AbstractContextManager[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return alone(self.folder)


def _wanted(path: str) -> bool:
    """Whether a file of a base model is fetched: none in a folder, where other forms of the same weights lie."""
    return "/" not in path and any(fnmatch.fnmatchcase(path, pattern) for pattern in FILES)


def _refuse_larger_than_disk(place: Path, files: Mapping[str, RemoteFile], where: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    needed = sum(file.size for path, file in files.items() if not (place / path).is_file())
    free = shutil.disk_usage(place.parent).free
    if needed > free:
        raise ArmError(f"has {needed:,} bytes, and {free:,} are free", where=where, next_command=f"df {place.parent}")
