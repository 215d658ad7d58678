"""Run a Python script in a process of its own and say what it took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Run:
    """One process with its children: CPU seconds, wall seconds, memory in MB, what it printed.

    ``peak_mb`` is the peak of their sum, ``largest_mb`` that of the largest of them.
    """

    cpu: float
    wall: float
    peak_mb: float
    largest_mb: float
    said: dict[str, Any]


def run(*command: str, env: Mapping[str, str] | None = None) -> Run:
    """Run a Python script to its end. Raises CalledProcessError when it fails."""
    started, peak = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([sys.executable, *command], stdout=output, env=env)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)  # its resources, with those of its children
            if pid:
                break
            peak = max(peak, sum(map(memory_kb, family(process.pid))))
            time.sleep(SAMPLE_SECONDS)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, text)
    wall = time.monotonic() - started
    return Run(
        usage.ru_utime + usage.ru_stime, wall, peak / 1024, usage.ru_maxrss / 1024, json.loads(text.splitlines()[-1])
    )


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:  # grows while it is walked
        try:
            for thread in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
        except OSError:  # gone meanwhile
            continue
    return found


def memory_kb(pid: int) -> int:
    """PSS: pages that several processes share count once in their sum."""
    for name, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
        except OSError:
            continue
        return next((int(line.split()[1]) for line in lines if line.startswith(field)), 0)
    return 0
