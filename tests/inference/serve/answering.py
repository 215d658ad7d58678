"""`arm serve` within the test, on a model that does what it is told and keeps what it was asked."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from action_reward_models.inference.choice import Choice
from action_reward_models.inference.choosing import Chooser, How
from action_reward_models.inference.rendering import Renderer, Shown
from action_reward_models.inference.request import Request
from action_reward_models.inference.serve import run
from action_reward_models.inference.serve.app import Service, create_app
from action_reward_models.inference.serve.bodies import Limits
from action_reward_models.inference.serve.engine import Engine
from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import Rendered, load_prompt

NAME = "owner/arm"
STATE = {"task": "Buy milk", "url": "https://shop.example/"}
QUESTION: dict[str, Any] = {"state": STATE, "candidates": ["click(3, 4)", "scroll(0, 5)"]}
HOW, LIMITS = How(), Limits()


class Told(Chooser):
    """Picks the last candidate, or makes the next of ``choices``. asked: requests. shown: the prompts of those with a
    screenshot."""

    kind = "selection_arm"
    folder: Path | None = None

    def __init__(self) -> None:
        spoken = [{"dialect": "function", "space": "pixel"}]
        self.contract: Any = {"candidates": {"spoken": spoken, "merge": True, "shuffle": True}}
        self.choices: list[Choice] = []
        self.asked: list[Request] = []
        self.shown: list[Rendered] = []
        self._renderer = Renderer(load_prompt("selection/1", PromptOptions()))

    def choose_many(
        self, requests: Sequence[Request], how: How = HOW, *, renderer: Renderer | None = None
    ) -> list[Choice]:
        for one in requests:
            self.asked.append(one)
            if one.pictures:  # which the prompt shows
                order = Shown.to(self.contract).order(one.set_row)
                self.shown.append(self._renderer.selection(one.state, one.set_row, order))
        return [self.choices.pop(0) if self.choices else Choice(one.id, "ok", one.n - 1, "model") for one in requests]

    def _pick(self, requests: Sequence[Request], how: How, renderer: Renderer) -> list[Choice]:
        raise NotImplementedError


class Said(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def error(self) -> dict[str, Any]:
        found = self.body["error"]
        assert sorted(found) == ["code", "message", "param", "type"], found
        assert isinstance(found["message"], str)
        assert found["message"]
        assert "Traceback" not in found["message"]
        assert " at 0x" not in found["message"]
        assert str(Path(__file__).parents[3]) not in found["message"]
        return dict(found)


class Answering(NamedTuple):
    port: int
    model: Told

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, data: Any, headers: Mapping[str, str] | None = None) -> Said:
        """``data``: bytes are sent as they are, an iterator of bytes in chunks, and anything else as JSON."""
        raw = data if isinstance(data, bytes | Iterator) else json.dumps(data).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", path, raw, {"Content-Type": "application/json", **(headers or {})})
            reply = connection.getresponse()
            return Said(reply.status, json.loads(reply.read()), {k.lower(): v for k, v in reply.getheaders()})
        finally:
            connection.close()


@contextmanager
def answering(limits: Limits = LIMITS, model: Chooser | None = None, how: How = HOW) -> Iterator[Answering]:
    """A server in a thread of its own."""
    bound, told, ready = run.bind("127.0.0.1", 0), model or Told(), threading.Event()
    ends: list[Any] = []

    async def serve() -> None:
        engine = Engine(told, how)
        app = create_app(Service(engine, NAME, 1, limits))
        server = uvicorn.Server(
            uvicorn.Config(app, http=run.Connection, ws="none", lifespan="off", log_level="warning")
        )
        loop, ending = asyncio.get_running_loop(), asyncio.Event()
        ends.append(lambda: loop.call_soon_threadsafe(ending.set))
        engine.start()
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:
            await asyncio.sleep(0.005)
        ready.set()
        await ending.wait()
        await engine.end()
        server.should_exit = True
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield Answering(bound.getsockname()[1], told)  # type: ignore[arg-type]
    finally:
        ends[0]()
        thread.join(20)
        assert not thread.is_alive()
