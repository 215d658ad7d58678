"""Bring a published revision into a built directory again, every file checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256
from .hub import Hub, RemoteFile, checked_repo_id, git_blob_id
from .release import CARD, MANIFEST, manifest_at


def pull(
    hub: Hub, repo: str, revision: str, out: Path, progress: Callable[[str, int, int], None] = lambda *_: None
) -> str:
    """Download what a build made of ``repo`` at ``revision`` into the new folder ``out`` and return the commit.

    What a killed pull had fetched is fetched no second time. ``out`` appears when every file is there and has the
    bytes that the listing and the manifest say. A person's other files stay on the Hub. Raises ArmError when ``out``
    holds anything but this very revision, or when a file differs.
    """
    out = Path(os.path.abspath(out))  # noqa: PTH100 - a link stays one, and is refused below
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise ArmError("is no folder", where=str(out), next_command="--out NEW")
    commit = hub.resolve(checked_repo_id(repo), revision)
    files, manifest = manifest_at(hub, repo, commit)
    where = f"{hub.url(repo)} at {commit}"
    listed = manifest["environment"]["files"]
    names = [*sorted(listed), MANIFEST, CARD]
    if missing := [name for name in names if name not in files]:
        raise ArmError(f"lacks files of its manifest: {', '.join(missing[:5])}", where=where)
    if out.exists() and any(out.iterdir()):
        if _holds(out, names, files):
            return commit
        raise ArmError("is not empty", where=str(out), next_command="--out NEW, or move it away")
    work = out.parent / f".{out.name}.pull-{commit[:12]}"
    if wrong := download(hub, repo, commit, [files[name] for name in names], work, progress):
        raise ArmError(f"arrived with other bytes than listed: {', '.join(wrong[:5])}", where=where)
    for name, entry in listed.items():
        if file_sha256(work / name) != entry["sha256"]:
            raise ArmError(
                f"{name} is not the file that the manifest names", where=where,
                next_command=f"arm verify {repo}@{commit}   # finds all that is wrong",
            )  # fmt: skip
    if out.exists():
        out.rmdir()
    work.rename(out)
    return commit


def download(
    hub: Hub, repo: str, commit: str, files: list[RemoteFile], folder: Path, progress: Callable[[str, int, int], None]
) -> list[str]:
    """Fetch files of a commit into ``folder``, except those that lie there already.

    Returns the paths of files that arrived with other bytes than the Hub lists; they are not in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total, done, wrong = sum(file.size for file in files), 0, []
    for file in files:
        path = folder / file.path
        if not _is(path, file):
            path.unlink(missing_ok=True)  # the client's own notes would call a damaged file complete
            hub.fetch(repo, commit, file.path, folder)
            if not _is(path, file):
                path.unlink(missing_ok=True)
                wrong.append(file.path)
        done += file.size
        progress("downloading", done, total)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the client's notes about the folder
    return wrong


def _holds(folder: Path, names: list[str], files: dict[str, RemoteFile]) -> bool:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    return found == set(names) and all(_is(folder / name, files[name]) for name in names)


def _is(path: Path, file: RemoteFile) -> bool:
    """Does the local file have the bytes of the listed one?"""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    return file_sha256(path) == file.sha256 if file.sha256 else git_blob_id(path.read_bytes()) == file.blob_id
