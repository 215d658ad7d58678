"""Clients in places that have no way out: a namespace, a client line, Xet on or off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.tests.clients.sealed import Ran, Sealed, unshare

ROOT = Path(__file__).parents[2]
NEWEST, OLDEST = "2.4.0", "1.33.0"  # of huggingface_hub: what constraints.txt installs, and the other line
REPO = "your-name/action-reward-models-data"
# The variables of the guide that keep clients quiet.
QUIET = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}


def interpreter(line: str) -> Path:
    """The Python of a client line, with this project installed; that of the older line is made once."""
    if line == NEWEST:
        assert metadata.version("huggingface_hub") == NEWEST
        return Path(sys.executable)
    folder = ROOT / "build" / "clients" / f"venv-{line}"  # ignored by git
    pins = [pin for pin in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "huggingface_hub" not in pin]
    wanted = "\n".join([*pins, f"huggingface_hub=={line}", (ROOT / "pyproject.toml").read_text("utf-8")])
    stamp, python = folder / "complete", folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pins_file = folder / "pins.txt"
        pins_file.write_text("\n".join([*pins, f"huggingface_hub=={line}"]), "utf-8")
        options = ["--quiet", "--disable-pip-version-check", "-c", str(pins_file), "-e", f"{ROOT}[hub]"]
        subprocess.run([str(python), "-m", "pip", "install", *options], check=True)
        stamp.write_text(wanted, "utf-8")
    return python


@dataclass(frozen=True)
class Place:
    """A namespace, and a client line in it with Xet on or off. Commands know a home of their own and what is given."""

    sealed: Sealed
    folder: Path
    line: str
    xet: str

    @property
    def python(self) -> Path:
        return interpreter(self.line)

    def run(self, *words: str, home: str = "home", seconds: float = 120, **env: str) -> Ran:
        """Run a command with HF_HOME in ``home``, and nothing of the person who runs the tests."""
        path = self.folder / home
        path.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        base = {**kept, "HOME": str(path), "HF_HOME": str(path / "hf"), "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
        off = {"HF_HUB_DISABLE_XET": "1"} if self.xet == "off" else {}
        return self.sealed.run(words, {**base, **off, **env}, self.folder, seconds)

    def arm(self, *words: str, **options: Any) -> Ran:
        return self.run(str(self.python.parent / "arm"), *words, **options)

    def code(self, code: str, *words: str, **options: Any) -> Ran:
        return self.run(str(self.python), "-P", "-c", code, *words, **options)


@dataclass(frozen=True)
class Demo:
    """What ``arm demo`` left: a hub at ``url`` with ``token``, and its folder."""

    ran: Ran
    folder: Path
    url: str
    token: str
    said: dict[str, Any]


def demo(place: Place, **options: Any) -> Demo:
    folder = place.folder / "demo"
    ran = place.arm("demo", "--dir", str(folder), "--json", **options)
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    return Demo(ran, folder, said["hub"], (folder / "hub" / "token").read_text("utf-8").strip(), said)


@pytest.fixture
def sealed() -> Iterator[Sealed]:
    """A watched namespace."""
    if why := unshare()[1]:
        pytest.skip(why)
    with Sealed() as made:
        yield made


@pytest.fixture
def closed() -> Iterator[Sealed]:
    """A namespace without any route beside loopback."""
    if why := unshare()[1]:
        pytest.skip(why)
    with Sealed(watched=False) as made:
        yield made
