"""Files of batches beside the log. Their names are ours: an id that a server gives is never part of a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ....schemas.errors import ArmError
from .ledger import Ledger


def batch_file(ledger: Ledger, number: int, kind: str) -> Path:
    """Of the batch ``number``; kind: input, output or errors. A ledger that is begun anew counts from 1 again, and must
    not take what another one fetched for its own."""
    return _folder(batches_folder(ledger.folder) / ledger.id) / f"{number:05}.{kind}.jsonl"


def batches_folder(folder: Path) -> Path:
    """The folder of all files of batches below that of the log, made when it is not there."""
    return _folder(folder / "batches")


def drop_inputs(folder: Path) -> None:
    """Input files of batches that were sent or dropped, of whatever ledger."""
    for path in batches_folder(folder).glob("*/*.input.jsonl"):
        if not path.parent.is_symlink():
            path.unlink(missing_ok=True)


def submitting_elsewhere(folder: Path) -> ArmError:
    return ArmError(
        "another process is submitting batches of it", where=str(folder),
        next_command="wait until it ended, and run this again",
    )  # fmt: skip


def _folder(path: Path) -> Path:
    if path.is_symlink():
        raise ArmError("is a symbolic link, and files of batches are not written through one", where=str(path))
    try:
        path.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ArmError(f"cannot be made: {error.strerror}", where=str(path)) from error
    return path


def new_file(path: Path) -> IO[bytes]:
    """To write, for its owner alone: prompts and replies are in it. What stood there is gone."""
    try:
        path.unlink(missing_ok=True)
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise ArmError(f"cannot be written: {error.strerror}", where=str(path)) from error


@contextmanager
def locked(folder: Path, what: str, *, wait: bool) -> Iterator[bool]:
    """Hold the lock ``what`` of a log, which the system frees when a process dies; False when another holds it."""
    import fcntl

    path = batches_folder(folder) / f"{what}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ArmError(f"cannot be written: {error.strerror}", where=str(path)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(handle)
