"""A small work, and time that passes when somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from action_reward_models.builders.generate.log import shard_of
from action_reward_models.servers.caller import Clock
from action_reward_models.servers.endpoints import Server
from action_reward_models.servers.requests import Request


@dataclass(frozen=True)
class ToyWork:
    """``each`` requests for each of ``states`` states; ``text`` is said in all of them."""

    folder: Path
    states: int = 4
    each: int = 2
    text: str = "which"
    model: str = "stand-in"
    n: int = 1

    def requests(self, shard: int | None = None) -> Iterator[Request]:
        for state in range(self.states):
            group = f"state/{state}"
            if shard in (None, shard_of(group)):
                yield from (self.request(group, draw) for draw in range(self.each))

    def request(self, group: str, draw: int) -> Request:
        messages = [{"role": "user", "content": f"{self.text} {group} {draw}"}]
        body = {"model": self.model, "messages": messages, "max_tokens": 16, "seed": draw, "n": self.n}
        return Request(f"{group}#{draw}", group, body)

    def total(self) -> int:
        return self.states * self.each


class FastClock(Clock):
    """Its hours pass at once; ``waited`` are the waits."""

    def __init__(self) -> None:
        self.time, self.waited = 0.0, list[float]()

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def served(*urls: str, **others: object) -> Server:
    return Server("actor", urls, **others)  # type: ignore[arg-type]
