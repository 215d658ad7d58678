"""A folder with a registry whose candidates and labels are made by a stand-in, and `arm` as it is typed there."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.cli import _run
from action_reward_models.tests.registry.generated_world import Generated
from action_reward_models.tests.servers.stand_in import Script, StandIn

PRICES = "prices: {stand-in: {input: 1, output: 2, image_tokens: 500, batch: 0.5}}"


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """Both streams, with one space between words: tables are wide."""
        return " ".join(f"{self.out} {self.err}".split())


def typed(line: str, capsys: pytest.CaptureFixture[str]) -> Done:
    """``arm`` as it is typed, in this process: importing a client takes longer than asking."""
    capsys.readouterr()
    status = _run(shlex.split(line)[1:])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return Done(status, said.out, said.err)


@dataclass(frozen=True)
class Shell:
    """``world`` is the folder in which commands are typed; what they ask, ``server`` hears."""

    world: Generated
    server: StandIn
    capsys: pytest.CaptureFixture[str]

    @property
    def folder(self) -> Path:
        return self.world.folder

    def run(self, line: str) -> Done:
        return typed(line, self.capsys)

    def serve(self, more: str = "") -> None:
        """Declare the stand-in beside the registry; ``more`` fields of both servers."""
        where = f"urls: ['{self.server.url}']{more and ', '}{more}"
        self.world.endpoints(f"  actor: {{{where}}}\n  teacher: {{{where}}}\n")

    def restart(self, script: Script) -> None:
        self.server.change(script)
        self.server.reset()


def shell(
    like: Generated, tmp_path: Path, server: StandIn, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:  # fmt: skip
    """In a copy of a registry."""
    shutil.copytree(like.folder, tmp_path / "registry")
    made = Shell(Generated(tmp_path / "registry"), server, capsys)
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ARM_ENDPOINTS", raising=False)
    made.restart(Script())
    made.serve()
    return made
