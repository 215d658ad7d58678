"""The server of a tiny model in a process of its own, for tests, which import no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from action_reward_models.tests.tiny_vlm import cached

MODULE = "action_reward_models.tests.tiny_vlm.server"


class TinyServer:
    """Started on entering, ended on leaving. ``url``: http://127.0.0.1:PORT/v1."""

    def __init__(self, folder: Path | None = None, *, name: str = "tiny-vlm") -> None:
        self.folder = folder or cached.made()
        self.name = name
        self.url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", MODULE, "--folder", str(self.folder), "--name", self.name]
        self._process = subprocess.Popen(command, env=cached.environment(), cwd=cached.ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        assert self._process.stdout
        self._process.stdout.close()
        self._process.wait(30)

    def received(self) -> list[dict[str, Any]]:
        """The requests that were answered, as `server.Service` understood them."""
        with urlopen(f"{self.url.removesuffix('/v1')}/received") as response:
            found: list[dict[str, Any]] = json.loads(response.read())
            return found
