"""32 clients at once: bounded, batched, flat in memory, drained. Seconds with a model without weights; two minutes
with a real one in the slow tier."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from action_reward_models.tests.cli import served_by_a_fake
from action_reward_models.tests.inference import process
from action_reward_models.tests.tiny_vlm import cached

from .load import Heard, load, post
from .loaded import NEW_TOKENS

CLIENTS = 32
BATCH = 16
ROOT = Path(__file__).parents[3]


@dataclass
class Server:
    """A running server. memory: its resident memory, in MiB, at each second."""

    process: subprocess.Popen[str]
    url: str
    memory: list[float] = field(default_factory=list)

    def load(self, requests: Sequence[bytes], seconds: float, heard: Heard | None = None) -> Heard:
        watching = threading.Event()
        thread = threading.Thread(target=self._watch, args=(watching,))
        thread.start()
        try:
            return asyncio.run(load(self.url, requests, CLIENTS, seconds, heard))
        finally:
            watching.set()
            thread.join()

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(1.0):
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
            self.memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


@dataclass(frozen=True)
class Kind:
    """How servers are started, with which words and environment, and what they are asked."""

    words: Sequence[str]
    env: Mapping[str, str]
    requests: Sequence[bytes]

    @contextmanager
    def serving(self, *more: str) -> Iterator[Server]:
        running = subprocess.Popen(
            [sys.executable, *self.words, "--port", "0", *more], env=dict(self.env), cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert running.stdout
        try:
            yield Server(running, running.stdout.readline().strip())
        finally:
            running.kill()
            running.communicate()

    def rate(self, seconds: float, *more: str) -> float:
        """Answers in a second. Nothing but answers comes."""
        with self.serving(*more) as server:
            server.load(self.requests, seconds / 5)  # what is slow the first time
            heard = server.load(self.requests, seconds)
        assert set(heard.answers) == {"200"}
        assert not heard.lost
        return heard.per_second


def exercise(kind: Kind, seconds: float) -> dict[str, Any]:
    """All of it. seconds: of the longest part; the others take a quarter of it each."""
    with kind.serving("--batch", str(BATCH)) as server:
        server.load(kind.requests, seconds / 10)
        heard = server.load(kind.requests, seconds)
        assert set(heard.answers) == {"200"}
        assert not heard.lost
        last = _drained(server, kind.requests)
    with kind.serving("--batch", "1", "--queue", "2") as small:  # also a slow machine sends more than that
        refused = small.load(kind.requests, seconds / 4)
    assert set(refused.answers) == {"200", "503 queue_full"}
    assert not refused.lost
    assert all(1 <= wait_s <= 120 for wait_s in refused.waits_s)
    alone, together = (kind.rate(seconds / 4, "--batch", str(batch)) for batch in (1, BATCH))
    return {
        "answers": heard.answers["200"], "memory": server.memory, "drained": dict(last.answers),
        "refused": dict(refused.answers), "alone": alone, "together": together,
    }  # fmt: skip


def _drained(server: Server, requests: Sequence[bytes]) -> Heard:
    """SIGTERM while all clients ask: each is answered to its last request, and the server ends well."""
    heard, began = Heard(), time.monotonic()

    def end() -> None:
        while heard.answers["200"] < CLIENTS and time.monotonic() - began < 50:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)

    ending = threading.Thread(target=end)
    ending.start()
    server.load(requests, 60, heard)
    ending.join()
    assert heard.seconds < 50, "the server said that it was about to end"
    assert not heard.lost
    assert set(heard.answers) <= {"200", "503 draining"}
    assert server.process.wait(20) == 0
    return heard


def test_32_clients_for_a_moment() -> None:
    """Each call of the model takes 30 ms, whatever is in it, so that batches are all that counts: 33 answers in a
    second without them, and with them as many as the machine manages, up to 533."""
    state = {"task": "Buy milk", "observation_text": "x" * 2000}
    asked = [json.dumps({"state": state, "candidates": [f"click({at}, 4)", "stop()"]}).encode() for at in range(8)]
    words = ["-m", served_by_a_fake.__name__, "serve", "fake"]
    found = exercise(
        Kind(words, {**os.environ, "FAKE_SECONDS": "0.03"}, [post("/select", data) for data in asked]), 0.8
    )
    assert found["together"] >= 2 * found["alone"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_32_clients_for_two_minutes(tmp_path: Path) -> None:
    """A real ARM that reads pictures and writes as much as one that reasons: on a processor the arithmetic of long
    prompts costs the same in batches as alone, and what batches save is the cost of each call."""
    base = process.base()
    process.run("serve.loaded", tmp_path / "arm", base)
    env = {name: value for name, value in cached.environment().items() if name != "USE_TORCH"}
    code = "from action_reward_models.cli import main; main()"
    words = ["-c", code, "serve", str(tmp_path / "arm"), "--base", str(base), "--max-new-tokens", str(NEW_TOKENS)]
    found = exercise(Kind(words, env, [post("/select", data) for data in questions()]), 120)
    print(found)  # what `pytest -rP` shows
    _, middle, last = (
        found["memory"][at * len(found["memory"]) // 3 :][: len(found["memory"]) // 3] for at in range(3)
    )
    grown = median(last) - median(middle)  # single values rise and fall with what a batch holds
    assert grown < 20, f"{grown:.0f} MiB more in the last third than in the middle: {found['memory']}"
    assert found["together"] >= 2 * found["alone"], found


def questions() -> list[bytes]:
    """48 of them: pictures of several colours, texts of several lengths, five candidates each."""
    from action_reward_models.tests.inference.made import png

    made = []
    for at in range(48):
        picture = base64.b64encode(png(f"rgb({5 * at}, 20, {200 - 3 * at})", 96)).decode()
        state = {"task": f"Click the button number {at}" + ", then scroll" * (at % 5),
                 "screenshot": f"data:image/png;base64,{picture}"}  # fmt: skip
        made.append(json.dumps({"state": state, "candidates": [f"click({at}, {n})" for n in range(5)]}).encode())
    return made
