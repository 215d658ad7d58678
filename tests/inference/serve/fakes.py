"""A model without weights, which tests hold back, break and look at; and requests for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from action_reward_models.inference.choice import Choice
from action_reward_models.inference.choosing import Chooser, How
from action_reward_models.inference.contract import Kind
from action_reward_models.inference.rendering import Renderer
from action_reward_models.inference.request import Request, Spoken, read
from action_reward_models.schemas.errors import ArmError

HOW = How()
SPOKEN = [Spoken("function", "pixel")]


def body(task: str = "Buy milk", n: int = 3) -> dict[str, Any]:
    """As a client sends it; its best candidate is the last."""
    return {"state": {"task": task}, "candidates": [f"click({index}, 4)" for index in range(n)]}


def request(task: str = "Buy milk", n: int = 3) -> Request:
    return read(body(task, n), SPOKEN)


@dataclass
class Fake(Chooser):
    """Later candidates are better. The tasks ``fail`` and ``damaged`` make it raise, and ``error`` gives no reply. Each
    call takes ``seconds``, and until ``go`` is set."""

    kind: ClassVar[Kind] = "scalar"
    seconds: float = 0.0
    go: threading.Event = field(default_factory=threading.Event)
    asked: list[list[str]] = field(default_factory=list)  # tasks of each call
    threads: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.contract = {"candidates": {"spoken": [one._asdict() for one in SPOKEN], "merge": True, "shuffle": True}}
        self.go.set()

    @property
    def folder(self) -> Path | None:
        return None

    def choose_many(
        self, requests: Sequence[Request], how: How = HOW, *, renderer: Renderer | None = None
    ) -> list[Choice]:
        tasks = [one.state["task"] for one in requests]
        self.asked.append(tasks)
        self.threads.add(threading.get_ident())
        assert self.go.wait(20)
        time.sleep(self.seconds)
        if "damaged" in tasks:
            raise ArmError("the weights are damaged", where="/some/folder")
        if "fail" in tasks:
            raise RuntimeError("the secret words of a request")
        return [self._one(one) for one in requests]

    def _one(self, asked: Request) -> Choice:
        task = asked.state["task"]
        if task in ("tie", "too_long", "error"):
            scores = (0.5,) * asked.n if task == "tie" else None
            return Choice(asked.id, task, None, None, scores, detail="in words")
        scores = tuple(float(index) for index in range(asked.n)) if self.kind == "scalar" else None
        return Choice(asked.id, "ok", asked.n - 1, "model", scores)

    def _pick(self, requests: Sequence[Request], how: How, renderer: Renderer) -> list[Choice]:
        raise NotImplementedError


class FakeARM(Fake):
    """Gives no scores."""

    kind: ClassVar[Kind] = "selection_arm"


def held_back(fake: Fake) -> Fake:
    """In a process of its own: each call takes FAKE_SECONDS, and as long as the file that HOLD names is there."""
    fake.seconds = float(os.environ.get("FAKE_SECONDS", "0"))
    if path := os.environ.get("HOLD"):
        fake.go.wait = lambda timeout=None: _is_gone(Path(path))  # type: ignore[method-assign]
    return fake


def _is_gone(path: Path) -> bool:
    while path.exists():
        time.sleep(0.005)
    return True
