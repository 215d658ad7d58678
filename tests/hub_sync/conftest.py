"""A publisher with a small registry of its own, and an embedded hub to publish to."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.hub import Hub
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.hub_sync.plan import Plan, plan
from action_reward_models.hub_sync.publish import Published, publish
from action_reward_models.registry import Registry, check_build, row_digest
from action_reward_models.tests import processes

ARM = Path(sys.executable).parent / "arm"
REGISTRY = """registry: 1
namespace: lab
datasets:
  - name: {name}
    version: "{version}"
    license: mit
    sources:
      - {{kind: episodes, format: openai_messages, path: episodes.jsonl, dialect: function, space: pixel}}
      - {{kind: candidate_sets, format: first_release, path: sets.jsonl, dialect: function, space: pixel}}
      - {{kind: teacher_labels, format: first_release, path: labels.jsonl, teacher: toy}}
    split: {{validation: 0.0, seed: 1}}
    tables:
      states: {{}}
      candidate_sets: {{}}
      teacher_labels: {{}}
      selection_sft: {{prompt: selection/1, images: reference}}
"""


def png(number: int, size: int = 8) -> bytes:
    """A grey square; other numbers give other bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0))
    rows = zlib.compress((b"\0" + bytes([number % 256]) * size) * size)
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def write_pages(folder: Path, picks: dict[int, int], *, text: str = "", suffix: str = "") -> None:
    """Write episodes, candidate sets and labels: per page one step, two candidates, and the teacher's pick."""
    records: dict[str, list[dict[str, Any]]] = {"episodes": [], "sets": [], "labels": []}
    for page, pick in picks.items():
        url = f"data:image/png;base64,{base64.b64encode(png(page)).decode()}"
        content = [
            {"type": "text", "text": f"Task: Click number {page}.\n{text}"},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        reply = {"role": "assistant", "content": "<think></think>\n<action>click(1, 1)</action>"}
        episode = {"episode_id": f"e{page}", "messages": [{"role": "user", "content": content}, reply]}
        actions = [f"<think></think>\n<action>click({x}, {x})</action>" for x in (1, 7)]
        state, drawn = f"e{page}__t0", f"e{page}__t0#d0"
        records["episodes"].append(episode)
        records["sets"].append({"state_id": drawn, "base_state_id": state, "candidates": actions})
        records["labels"].append({"state_id": drawn, "selection": pick})
    for name, found in records.items():
        (folder / f"{name}{suffix}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in found))


@dataclass
class Publisher:
    """A folder with registry.yaml and a few pages; change ``picks``, ``version`` or ``name``, then ``build``."""

    folder: Path
    name: str = "toy"
    version: str = "1.0.0"
    picks: list[int] = field(default_factory=lambda: [0, 1, 0])  # one page each, with the teacher's pick
    text: str = ""  # more text of every page

    @property
    def built(self) -> Path:
        return self.folder / "build" / self.name

    def build(self) -> Path:
        """Write everything, build what changed, and return the built directory."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "registry.yaml").write_text(REGISTRY.format(name=self.name, version=self.version))
        write_pages(self.folder, dict(enumerate(self.picks)), text=self.text)
        Registry.load(self.folder).build(workers=1)
        return self.built

    def plan(self, hub: Hub, **options: Any) -> Plan:
        return plan(self.built, hub, check=check_build, row_digest=row_digest, **options)

    def push(self, hub: Hub, **options: Any) -> Published:
        """Plan and publish what is built."""
        how = {key: options.pop(key) for key in ("stage", "full", "allow_findings") if key in options}
        return publish(self.plan(hub, **options), hub, **how)


@dataclass(frozen=True)
class Running:
    """An embedded hub in a process of its own, and its owner's token."""

    folder: Path
    url: str
    token: str
    pid: int

    def client(self) -> Hub:
        return Hub(self.url, self.token)

    def env(self, home: Path, **more: str) -> dict[str, str]:
        """The environment of a client that knows this hub and nothing else."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0", "COLUMNS": "160"}
        return {**kept, **quiet, "HF_ENDPOINT": self.url, "HF_HOME": str(home), **more}

    def arm(self, *words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the command as the owner."""
        return processes.arm(words, cwd=cwd, env=self.env(cwd / "home", HF_TOKEN=self.token, **more))


def start(folder: Path) -> Running:
    running = serve.start(folder, 0)
    return Running(folder, running["url"], (folder / "token").read_text("utf-8").strip(), running["pid"])


@pytest.fixture(scope="session", autouse=True)
def read_back_quickly() -> Iterator[None]:
    """What is published in this process is read back by one that need not import everything anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("action_reward_models.hub_sync.readback.subprocess", processes.STARTS)
        yield


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One hub for all tests; each uses repositories of its own."""
    folder = tmp_path_factory.mktemp("hub")
    yield start(folder)
    assert serve.stop(folder)


@pytest.fixture
def hub(running: Running) -> Hub:
    return running.client()


@pytest.fixture
def publisher(tmp_path: Path, request: pytest.FixtureRequest) -> Publisher:
    """Publishes under a name that no other test has."""
    name = request.node.name.replace("[", "-").replace("]", "").replace("_", "-")[:60].strip("-.")
    return Publisher(tmp_path / "registry", "".join(c for c in name if c.isalnum() or c == "-"))


@pytest.fixture(scope="session")
def new_publisher() -> type[Publisher]:
    """For tests that need a publisher of their own."""
    return Publisher
