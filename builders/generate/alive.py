"""Whether a process that wrote its name down is still there: its number alone may be another's by now."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

HOST = socket.gethostname()
State = Literal["live", "ended", "elsewhere"]


def state(host: str, pid: int, started: str) -> State:
    """elsewhere: on another machine, whose processes cannot be seen. ``pid`` 0: one that said that it ended."""
    if pid == 0:
        return "ended"
    if host != HOST:
        return "elsewhere"
    return "live" if (now := started_at(pid)) is not None and now == started else "ended"


def started_at(pid: int) -> str | None:
    """When the process started, in the kernel's own count; empty where the system does not say; None: no process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except ProcessLookupError:
        return None
    else:
        fields = stat[stat.rindex(b")") + 2 :].split()  # the name of the program may hold spaces and brackets
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    if os.name != "posix":  # where signal 0 is no question
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""
