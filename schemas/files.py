"""Files that a run keeps for its next one, whatever ends it, and that one process has at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def replace_whole(path: Path, data: bytes) -> None:
    """Write ``path`` whole or not at all; it is on the disk when this returns."""
    making = path.with_name(f"{path.name}.part")
    with making.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    making.replace(path)


def take(lock: IO[str]) -> bool:
    """Whether ``lock`` is this process's alone until it is closed. True on a system without such locks. Raises OSError
    for a file system without."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
