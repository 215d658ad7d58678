"""Publishers that can be killed: a process that has imported everything forks one `arm push` after another. What
they publish is read back by forks, too (`tests.processes`).

As a process it reads lines ``{"words": [...], "env": {...}, "output": FILE, "errors": FILE}`` and answers each with
two lines: the new process's id, then its exit status once it has ended. It never starts a thread: what is forked is
whole.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

from action_reward_models.tests import processes

WAITS_S = (0.02, 0.05, 0.1, 0.2, 0.4)  # between tries, where a person's publisher waits up to 8 s


@dataclass(frozen=True)
class Ended:
    """``status`` is the exit status, or minus the signal. ``output`` is what the command printed for machines."""

    status: int
    output: dict[str, Any] | None
    errors: str

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Forks:
    """A fork server; ``push`` runs one publisher at a time."""

    def __init__(self, folder: Path, *, xet: bool) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
        quiet |= {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        mode = {} if xet else {"HF_HUB_DISABLE_XET": "1"}
        (folder / "tmp").mkdir(parents=True)  # killed processes leave their temporary files
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, __file__, processes.server(processes.STOCK).path], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**kept, **quiet, **mode, "TMPDIR": str(folder / "tmp")},
        )  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        self._ask, self._answers = self._process.stdin, self._process.stdout

    def push(
        self,
        built: Path,
        repo: str,
        endpoint: str,
        token: str,
        *words: str,
        started: Callable[[int], None] = lambda _: None,
    ) -> Ended:
        """`arm push` of ``built`` to ``repo``, to its end; ``started`` gets the id of its process."""
        output, errors = self._folder / "output", self._folder / "errors"
        home = self._folder.parent / "homes" / repo.replace("/", "-")  # the cache of Xet knows one repository only
        job = {
            "words": ["push", str(built), "--repo", repo, "--yes", "--json", *words],
            "env": {"HF_ENDPOINT": endpoint, "HF_TOKEN": token, "HF_HOME": str(home)},
            "output": str(output),
            "errors": str(errors),
        }
        self._ask.write(json.dumps(job) + "\n")
        pid = int(self._answers.readline())
        started(pid)
        status = int(self._answers.readline())
        with suppress(ProcessLookupError):  # the process that reads back ends with its publisher
            os.killpg(pid, signal.SIGKILL)
        printed, said = output.read_text("utf-8"), errors.read_text("utf-8")
        assert token not in printed + said
        return Ended(status, json.loads(printed) if printed and status >= 0 else None, said)

    def close(self) -> None:
        self._ask.close()
        self._answers.close()
        try:
            assert self._process.wait(30) == 0
        finally:
            self._process.kill()


class Victim:
    """The process that faults of a proxy kill: its id is known a moment after it has started."""

    def __init__(self) -> None:
        self._pid: Future[int] = Future()

    def started(self, pid: int) -> None:
        self._pid.set_result(pid)

    def kill(self, _number: int = 0) -> None:
        """Returns when it has been killed, or is gone already."""
        with suppress(ProcessLookupError):
            os.kill(self._pid.result(timeout=30), signal.SIGKILL)


class Pool:
    """Several fork servers for tests that run many publishers: as many at a time as there are CPUs."""

    def __init__(self, folder: Path, *, xet: bool, size: int) -> None:
        with ExitStack() as stack:
            self._free: Queue[Forks] = Queue()
            for number in range(size):
                forks = Forks(folder / str(number), xet=xet)
                stack.callback(forks.close)
                self._free.put(forks)
            self._stack = stack.pop_all()
        self.size = size

    @contextmanager
    def one(self) -> Iterator[Forks]:
        forks = self._free.get()
        try:
            yield forks
        finally:
            self._free.put(forks)

    def close(self) -> None:
        self._stack.close()


# What a push imports when it needs it; but not hf_xet, which starts threads.
_IMPORTED = (
    "cli",
    "cli.push",
    "hub_sync.publish",
    "registry",
    "registry.staleness",
)
_FOREIGN = ("datasets", "huggingface_hub.hf_api", "huggingface_hub.repocard", "huggingface_hub.hf_file_system", "rich")


def serve() -> None:
    """What the process does."""
    for name in (*(f"action_reward_models.{own}" for own in _IMPORTED), *_FOREIGN):
        importlib.import_module(name)
    processes.know(sys.argv[1])
    for module in ("hub", "commit", "publish"):
        vars(sys.modules[f"action_reward_models.hub_sync.{module}"])["WAITS_S"] = WAITS_S
    # The client waits on its own, too: 1 s, 2 s, ...
    impatient = {**vars(time), "sleep": lambda seconds: time.sleep(seconds / 20)}
    vars(sys.modules["huggingface_hub.utils._http"])["time"] = SimpleNamespace(**impatient)
    assert threading.active_count() == 1
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            os.setsid()
            _redirect(0, "/dev/null", os.O_RDONLY)
            _redirect(1, job["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            _redirect(2, job["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.environ |= job["env"]
            sys.argv = ["arm", *job["words"]]
            sys.modules["action_reward_models.cli"].main()
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _redirect(number: int, path: str, flags: int) -> None:
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, number)
    os.close(opened)


if __name__ == "__main__":
    serve()
