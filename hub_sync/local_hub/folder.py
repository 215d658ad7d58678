"""The folder of a hub: which one may be a hub's, and the one process that serves it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

DATABASE = "hub.sqlite"
_LONGEST_PID = 20  # digits
_PATIENCE_S = 5  # with those who only look


class ServeError(Exception):
    """Why the hub does not run, for a person."""


def require_hub_folder(folder: Path) -> None:
    """Raises ServeError for a folder with anything in it that is no hub's: a hub would tidy there as in its own."""
    if not folder.exists() or (folder / DATABASE).is_file():
        return
    if not folder.is_dir():
        raise ServeError(f"{folder} is no folder")
    if not all(_is_of_a_first_start(path) for path in folder.iterdir()):
        raise ServeError(f"{folder} is not empty and is no hub's folder: name another one with --dir")


def _is_of_a_first_start(path: Path) -> bool:
    """What is there before the database is."""
    if path.name == "lock":
        text = path.read_bytes() if path.stat().st_size <= _LONGEST_PID else b"?"
        return text == b"" or text.isdigit()
    return path.name == "hub.log"


def make_private(folder: Path) -> None:
    """Create a folder for its owner only. One that is there stays as its owner wants it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The one server of a folder; the system releases the lock when that process ends, however it ends.

    Raises ServeError when another process has it. Those who ask for the `holder` share it for a moment; they are
    waited for.
    """
    make_private(folder)
    with os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        end = time.monotonic() + _PATIENCE_S
        while True:
            # While it is shared nobody serves: what stands there is of a hub that was killed, and must be gone
            # before this one is seen to hold the lock.
            if not _take(file, fcntl.LOCK_SH) or time.monotonic() > end:
                raise ServeError(f"another hub runs on {folder}")
            file.truncate(0)
            if _take(file, fcntl.LOCK_EX):
                break
            time.sleep(0.001)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield


def holder(folder: Path) -> int | None:
    """The process that serves a folder, None when none does."""
    try:
        with (folder / "lock").open("rb", buffering=0) as file:
            for _ in range(1000):
                if _take(file, fcntl.LOCK_SH):
                    return None
                text = os.pread(file.fileno(), _LONGEST_PID, 0)
                if text.isdigit():
                    return int(text)
                time.sleep(0.001)  # it has just taken the lock, and says next who it is
    except FileNotFoundError:
        pass
    return None


def _take(file: IO[bytes], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
