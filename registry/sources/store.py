"""Files of the Hub that sources rest on: fetched once by commit, checked at every use, there without a network.

``<folder>/<namespace>--<name>/<commit>/<path>`` holds raw files, ``.../<identity>/<table>.jsonl`` the tables of a
version, each beside a note with its digest. A note says that a table is what was once written here, and whoever writes
the one can write the other; ``.../<identity>/published`` keeps what was fetched, which the identity itself covers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ...builders.gathering import Progress
from ...builders.importers import IMPORTERS, RECORDS
from ...hub_sync.hub import Hub, checked_repo_id, checked_sha
from ...hub_sync.pull import download
from ...hub_sync.release import manifest_at
from ...schemas import manifest as manifests
from ...schemas.errors import ArmError, Issue
from ...schemas.ids import file_sha256
from .alone import alone
from .tables import write_table

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_KEPT = "published"
_FETCH = "run it again where the Hub can be reached"


@dataclass(frozen=True)
class Store:
    """What was fetched, below ``folder``, which is made when it is needed."""

    folder: Path

    def raw(
        self, hub: Hub | None, repo: str, commit: str, files: Mapping[str, tuple[str, int]],
        progress: Progress = lambda *_: None,
    ) -> dict[str, Path]:  # fmt: skip
        """Path in the repository -> local file, for ``files``: path -> (sha256, bytes) as pinned.

        What lies here with the right bytes is used without the network. ``hub`` None: nothing is fetched. Raises
        ArmError that names every file that is missing here, or that arrives with other bytes than pinned.
        """
        folder = self._repo(repo) / checked_sha(commit)
        title = f"{repo}@{commit[:12]}"
        if unsafe := [path for path in files if not manifests.is_safe_path(path)]:
            raise ArmError(f"{unsafe[0]!r} is no path that every system can hold below a folder", where=title)
        self._refuse_links(*(folder / path for path in files))
        if missing := _differing(folder, files):
            if hub is None:
                raise ArmError.of(title, [Issue(path, 0, "$", why) for path, why in missing.items()], _FETCH)
            with self._alone():
                if missing := _differing(folder, files):  # another process may have fetched them meanwhile
                    self._fetch(hub, repo, commit, {path: files[path] for path in missing}, folder, progress)
        return {path: folder / path for path in files}

    def table(
        self, hub: Hub | None, repo: str, version: str, commit: str | None, identity_sha256: str, kind: str,
        built: Path | None, progress: Progress = lambda *_: None, *, proven: bool = False,
    ) -> Path:  # fmt: skip
        """The table ``kind`` of the version of ``repo`` that has this identity, as records of the format ``table``.

        It is read from the folder ``built`` when that is this very build, else from what was fetched before, else from
        the Hub at ``commit`` (None: at the tag ``v<version>``), and every row is held against the identity. A table
        that was made so before is used on the word of its note, unless it has to be ``proven``: then it is made again.
        Raises ArmError when it is not here and there is no ``hub``, when the Hub has another build there, and when the
        rows are not those of the identity.
        """
        if not _DIGEST.fullmatch(identity_sha256) or kind not in RECORDS:
            raise ArmError(f"{kind!r} of {identity_sha256!r} is no table of a version", where=repo)
        place = self._repo(repo) / identity_sha256 / f"{kind}.jsonl"
        self._refuse_links(place, place.with_suffix(".json"))
        if not proven and _noted(place):
            return place
        title = f"{repo}@v{version}"
        with self._alone():
            if not proven and _noted(place):
                return place
            manifest = _manifest_of_build(built, identity_sha256)
            if manifest is not None and built is not None:
                self._convert(manifest, built, kind, place, title, progress)
            elif not self._again(identity_sha256, kind, place, title, progress):
                if hub is None:
                    what = "is not here, has other bytes than noted, or is of another form, and there is no such build"
                    raise ArmError(f"the table {kind} {what}", where=title, next_command=_FETCH)
                self._import(hub, repo, version, commit, identity_sha256, kind, place, progress)
        return place

    def _repo(self, repo: str) -> Path:
        return self.folder / checked_repo_id(repo).replace("/", "--")

    def _refuse_links(self, *places: Path) -> None:
        """Raise ArmError where a link below ``folder`` leads elsewhere: a registry may come with such a store."""
        for folder in {step for place in places for step in (place, *place.parents) if self.folder in step.parents}:
            if folder.is_symlink():
                raise ArmError("is a link; what is kept here lies here", where=str(folder), next_command="delete it")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with alone(self.folder):
            yield

    def _fetch(
        self, hub: Hub, repo: str, commit: str, files: Mapping[str, tuple[str, int]], folder: Path, progress: Progress
    ) -> None:
        """Fetch into a folder beside ``folder``, which a killed fetch leaves to the next, and move what is right."""
        work = folder.with_name(f".{commit}")
        self._refuse_links(work, *work.rglob("*"))
        total, done, wrong = sum(size for _, size in files.values()), 0, []
        for path, pinned in files.items():
            if _differing(work, {path: pinned}):
                (work / path).unlink(missing_ok=True)  # the client's own notes would call it complete
                hub.fetch(repo, commit, path, work)
                if why := _differing(work, {path: pinned}).get(path):
                    (work / path).unlink(missing_ok=True)
                    wrong.append(Issue(path, 0, "$", f"{why}: nothing else is ever taken for it"))
                    continue
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).replace(folder / path)
            done += pinned[1]
            progress("fetching", done, total)
        shutil.rmtree(work, ignore_errors=True)
        if wrong:
            raise ArmError.of(f"{hub.url(repo)} at {commit}", wrong)

    def _import(
        self, hub: Hub, repo: str, version: str, commit: str | None, identity_sha256: str, kind: str, place: Path,
        progress: Progress,
    ) -> None:  # fmt: skip
        commit = checked_sha(commit) if commit else hub.resolve(repo, f"v{version}")
        where = f"{hub.url(repo)} at {commit}"
        files, manifest = manifest_at(hub, repo, commit)
        if (found := manifests.identity_digest(manifest["identity"])) != identity_sha256:
            message = f"is the build {found[:12]}…, and {identity_sha256[:12]}… was asked for"
            raise ArmError(message, where=where, next_command="arm lock --update   # if that is what you want")
        says = manifest["identity"]["version"]
        if says != version:
            raise ArmError(f"is version {says}, and {version} was asked for", where=where)
        names = _names(manifest, kind)
        if absent := [name for name in names if name not in files]:
            raise ArmError(f"lacks files of its manifest: {', '.join(absent[:5])}", where=where)
        kept = place.with_name(_KEPT)
        self._refuse_links(kept, *kept.rglob("*"))
        if wrong := download(hub, repo, commit, [files[name] for name in names], kept, progress):
            raise ArmError(f"arrived with other bytes than listed: {', '.join(wrong[:5])}", where=where)
        self._convert(manifest, kept, kind, place, where, progress)
        (kept / manifests.NAME).write_bytes(orjson.dumps(manifest))

    def _again(self, identity_sha256: str, kind: str, place: Path, where: str, progress: Progress) -> bool:
        """Make the table from what was fetched for it before, if that is all there and what the identity says."""
        kept = place.with_name(_KEPT)
        self._refuse_links(kept, *kept.rglob("*"))
        manifest = _manifest_of_build(kept, identity_sha256)
        if manifest is None or not all((kept / name).is_file() for name in _names(manifest, kind)):
            return False
        try:
            self._convert(manifest, kept, kind, place, where, progress)
        except ArmError:  # damaged since; what the Hub has is another matter
            return False
        return True

    def _convert(
        self, manifest: Mapping[str, Any], folder: Path, kind: str, place: Path, where: str, progress: Progress
    ) -> None:
        """Write the table and its note; the table stands at its place when it is complete."""
        place.parent.mkdir(parents=True, exist_ok=True)
        work = place.with_name(f".{place.name}")
        try:
            records = write_table(manifest, folder, kind, work, where, progress)
            note = {"form": _form(kind), "sha256": file_sha256(work), "bytes": work.stat().st_size, "records": records}
            place.with_suffix(".json").write_bytes(orjson.dumps(note, option=orjson.OPT_INDENT_2))
            work.replace(place)
        finally:
            work.unlink(missing_ok=True)


def _differing(folder: Path, files: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Those of ``files`` that ``folder`` does not hold with these bytes, and why not."""
    found = {}
    for path, (sha256, size) in files.items():
        place = folder / path
        if not place.is_file():
            found[path] = "is not here"
        elif (there := place.stat().st_size) != size:
            found[path] = f"has {there:,} bytes, and {size:,} are pinned"
        elif (digest := file_sha256(place)) != sha256:
            found[path] = f"has sha256 {digest}, and {sha256} is pinned"
    return found


def _noted(place: Path) -> bool:
    """Is the table here, in the form that this version reads, with the bytes of its note?"""
    try:
        note = orjson.loads(place.with_suffix(".json").read_bytes())
        known = note["form"] == _form(place.stem) and (note["sha256"], note["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(known) and not _differing(place.parent, {place.name: known})


def _form(kind: str) -> str:
    return IMPORTERS[kind, "table"].schema


def _manifest_of_build(built: Path | None, identity_sha256: str) -> dict[str, Any] | None:
    """The manifest of ``built`` if that is a finished build with this identity."""
    try:
        manifest = manifests.manifest_of(built) if built else None
    except ArmError:
        return None
    same = manifest and manifests.identity_digest(manifest["identity"]) == identity_sha256
    return manifest if same else None


def _names(manifest: Mapping[str, Any], kind: str) -> list[str]:
    splits = manifest["identity"]["tables"].get(kind, {"splits": {}})["splits"]
    return [file["path"] for split in splits.values() for file in split["files"]]
