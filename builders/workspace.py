"""The folder beside a build in which it is made: one process at a time, and what a killed one had finished.

    .NAME-work/lock                      held while a process builds; the system frees it when that process ends
              /run-*/                    of one process: the partition, and buckets that are not finished
              /kept-FINGERPRINT/made/    the build as it grows: files of finished buckets
                               /results/ what each of these buckets came to
              /old/                      the former build, between the two renames that replace it

A file of `made` or `results` appears whole, by a rename, and its bucket counts as finished when its result is there. A
worker may outlive the process that started it by a moment: it writes into that run's folder, which is gone by then, or
puts equal files in the place of equal files, since the fingerprint holds everything that decides them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..schemas.errors import ArmError
from ..schemas.files import take
from ..schemas.ids import file_sha256
from ..schemas.manifest import manifest_of
from . import results
from .bucket import BucketResult


class BusyError(ArmError):
    """Another process makes the same build."""


@dataclass(frozen=True)
class Kept:
    """The finished buckets of one fingerprint."""

    folder: Path

    @property
    def made(self) -> Path:
        return self.folder / "made"

    def put(self, bucket: int, result: BucketResult, written: Path) -> None:
        """Take over the files of a bucket, written below ``written``, and then its result."""
        for file in result.files:
            target = self.made / file.path
            target.parent.mkdir(exist_ok=True)  # never its parents: the whole folder may be gone already
            (written / file.path).replace(target)
        whole = written / "result.json"
        whole.write_bytes(results.to_bytes(result))
        whole.replace(self._result(bucket))

    def get(self, bucket: int) -> BucketResult | None:
        """The result of a finished bucket; None if it has none, or if a byte of it or of its files is another."""
        try:
            result = results.of_bytes(self._result(bucket).read_bytes())
            if result and all(file_sha256(self.made / file.path) == file.sha256 for file in result.files):
                return result
        except OSError:
            pass
        return None

    def sweep(self, finished: Iterable[BucketResult]) -> None:
        """Remove whatever lies among the files and belongs to none of these buckets."""
        own = {self.made / file.path for result in finished for file in result.files}
        for path in [*self.made.rglob("*")]:
            if not path.is_dir() and path not in own:
                path.unlink()

    def _result(self, bucket: int) -> Path:
        return self.folder / "results" / f"bucket-{bucket:05d}.result.json"


@dataclass
class Workspace:
    """``keep``: whether finished buckets stay when this run ends without a build."""

    folder: Path
    run: Path
    kept: Kept | None = None
    keep: bool = False

    def adopt(self, fingerprint: str) -> Kept:
        """The finished buckets of this fingerprint; those of any other are removed."""
        folder = self.folder / f"kept-{fingerprint[:32]}"
        for other in self.folder.glob("kept-*"):
            if other != folder:
                shutil.rmtree(other)
        for name in ("made/data", "results"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.kept = Kept(folder)
        return self.kept

    def replace(self, out: Path) -> None:
        """Move what was made to ``out``, whose former content goes; it comes back if that fails."""
        assert self.kept is not None
        old = self.folder / "old"
        if out.exists():
            out.rename(old)
        try:
            self.kept.made.rename(out)
        except BaseException:
            if old.exists():
                old.rename(out)
            raise

    def close(self) -> None:
        shutil.rmtree(self.run, ignore_errors=True)
        finished = self.folder.glob("kept-*/results/*")
        if not (self.keep and any(finished)):
            _clear(self.folder)


def folder_of(out: Path) -> Path:
    """Where the build of ``out`` is made: beside it, and so on the same file system."""
    out = out.resolve()
    return out.with_name(f".{out.name}-work")


@contextmanager
def workspace(out: Path) -> Iterator[Workspace]:
    """The workspace of the build of ``out``, gone afterwards. Raises ArmError while another process has it.

    What a killed or interrupted process had finished is still there, and an old build that it had moved away is back.
    """
    folder = folder_of(out)
    lock = _locked(folder)
    try:
        old = folder / "old"
        if old.exists() and not out.exists():  # killed between the two renames
            old.rename(out)
        for left in (old, *folder.glob("run-*")):
            shutil.rmtree(left, ignore_errors=True)
        work = Workspace(folder, Path(tempfile.mkdtemp(prefix="run-", dir=folder)))
        try:
            yield work
        except (KeyboardInterrupt, SystemExit):
            work.keep = True
            raise
        finally:
            work.close()
    finally:
        lock.close()


def _locked(folder: Path) -> IO[str]:
    """The lock of the folder, as an open file. The folder is made for its owner only; its build is for all readers."""
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700, parents=True)
        if (inside := {path.name for path in folder.glob("*")}) and "lock" not in inside:
            message = "is in the way: builds are made in a folder of this name, and no build made this one"
            aside = f"mv {shlex.quote(str(folder))} {shlex.quote(str(folder.with_name(folder.name[1:] + '.old')))}"
            raise ArmError(message, where=str(folder), next_command=aside)
        try:
            file = (folder / "lock").open("a+")
        except FileNotFoundError:  # the folder went with the process that had it
            continue
        try:
            _lock(file, folder)
        except BaseException:
            file.close()
            raise
        with contextlib.suppress(FileNotFoundError):
            if (folder / "lock").stat().st_ino == os.fstat(file.fileno()).st_ino:
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                file.flush()
                return file
        file.close()  # it was the lock of a process that has just ended, and went with it


def _lock(file: IO[str], folder: Path) -> None:
    try:
        taken = take(file)
    except OSError as error:
        message = f"its file system has no locks ({error.strerror}), without which two builds could spoil each other"
        raise ArmError(message, where=str(folder), next_command="arm build --out a folder elsewhere") from error
    if not taken:
        file.seek(0)
        message = f"is being built by {file.read().strip() or 'another process'}"
        built = folder.with_name(folder.name.removeprefix(".").removesuffix("-work"))
        advice = "wait until it has ended, or name another folder with arm build --out"
        raise BusyError(message, where=str(built), next_command=advice)


def _clear(folder: Path) -> None:
    """Remove the folder, its lock last: what has no lock was made by nobody."""
    for path in folder.iterdir():
        if path.name != "lock":
            shutil.rmtree(path, ignore_errors=True)
    (folder / "lock").unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another process came in meanwhile
        folder.rmdir()


def refuse_foreign(out: Path, name: str) -> None:
    """Only a build of the same dataset is ever replaced, and only when it holds no file that no build made."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    aside = f"mv {shlex.quote(str(out))} {shlex.quote(str(out.with_name(out.name + '.old')))}"
    elsewhere = f"{aside}   # or name another folder with arm build --out"
    try:
        manifest = manifest_of(out)
    except ArmError as error:
        message = f"is not a build ({error.message}) and would be replaced"
        raise ArmError(message, where=str(out), next_command=elsewhere) from error
    if manifest["identity"]["name"] != name:
        message = f"is a build of {manifest['identity']['name']}, not of {name}"
        raise ArmError(message, where=str(out), next_command=elsewhere)
    made = {*manifest["environment"]["files"], "manifest.json", "README.md"}
    paths = {path.relative_to(out) for path in out.rglob("*") if path.is_symlink() or not path.is_dir()}
    found = {path.as_posix() for path in paths if path.parts[0] != "__pycache__"}  # of load.py, when it was imported
    if foreign := sorted(found - made):
        shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        message = f"holds files that no build made and that would be lost: {shown}"
        raise ArmError(
            message, where=str(out), next_command="move them out of it, or name another folder with arm build --out"
        )
