"""The stand-in as tests hold it: starts the process, speaks with it, ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from action_reward_models.tests.servers.stand_in.script import Script

_SERVER = "action_reward_models.tests.servers.stand_in.server"


@dataclass(frozen=True)
class Received:
    """A request as it came. ``body`` is None where it was no JSON; names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    sha256: str  # of the bytes of the body


class StandIn:
    """A loopback OpenAI-compatible server in a process of its own.

    ``keep``: of how many requests, the newest ones, `received` tells; beyond 256 MB of bodies of fewer.
    Leaving the `with` block raises when the server itself had an error (its traceback is on stderr).
    """

    def __init__(self, script: Script | None = None, *, keep: int = 2_000) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a signal to the group of what is tested is not for it
        )
        self._write({"script": (script or Script()).to_json(), "keep": keep, "parent": os.getpid()})
        self.origin = f"http://127.0.0.1:{self._read()}"
        self.url = f"{self.origin}/v1"

    @property
    def pid(self) -> int:
        return self._process.pid

    def received(self, path: str = "") -> list[Received]:
        """Requests to paths that end with ``path``, in order of arrival."""
        return [Received(**one) for one in self._do("received") if one["path"].endswith(path)]

    def counts(self) -> dict[str, int]:
        """Requests by route (chat, models, version, files, content, batches: created ones, batch, cancel, ...);
        ``distinct:<route>`` of other bodies, ``status:<n>`` answered, ``fault:<kind>`` met by one; in_flight now,
        most_in_flight at once. Names that are not there count 0.
        """
        counts: dict[str, int] = self._do("counts")
        return _Counts(counts)

    def change(self, script: Script) -> None:
        """Requests that come from now on meet this one."""
        self._do("change", script=script.to_json())

    def reset(self) -> None:
        """Forget what was received and counted, and with it how often a body was tried."""
        self._do("reset")

    def file(self, id_: str) -> str:
        """Of an uploaded or made file, the text."""
        text: str = self._do("file", id=id_)
        return text

    def batches(self) -> list[dict[str, Any]]:
        """Every batch that was made, the oldest first, without being counted as a look at it."""
        made: list[dict[str, Any]] = self._do("batches")
        return made

    def disconnect(self) -> None:
        """End all connections at once."""
        self._do("disconnect")

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        try:
            errors = self.counts().get("errors", 0) if self._process.poll() is None else 0
        finally:
            self.close()
        assert not errors, f"the stand-in had {errors} errors of its own"

    def _do(self, name: str, **more: Any) -> Any:
        with self._lock:
            self._write({"do": name, **more})
            said = self._read()
        if "error" in said:
            raise RuntimeError(said["error"])
        return said["ok"]

    def _write(self, data: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(data).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout
        size = self._process.stdout.read(8)
        if len(size) < 8:
            raise RuntimeError(f"the stand-in ended with status {self._process.wait(30)}")
        return json.loads(self._process.stdout.read(int.from_bytes(size)))


class _Counts(dict[str, int]):
    def __missing__(self, name: str) -> int:
        return 0
