"""A work of small requests, and a server for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from action_reward_models.builders.generate.batches.collect import Collected, collect
from action_reward_models.builders.generate.batches.ledger import Ledger
from action_reward_models.builders.generate.batches.submit import Submitted, submit
from action_reward_models.builders.generate.log import SHARDS, AnswerLog, shard_of
from action_reward_models.builders.generate.spend import Spent, report
from action_reward_models.servers.endpoints import BatchLimits, Price, Server
from action_reward_models.servers.requests import Request
from action_reward_models.tests.servers.stand_in import StandIn

MODEL = "stand-in"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(1_000)


@dataclass(frozen=True)
class Questions:
    """``count`` requests about as many states. texts: what further ones ask. pictures: of 1 kB, on each."""

    folder: Path
    count: int
    texts: tuple[str, ...] = ()
    pictures: bool = False
    n: int = 1
    made: list[str] = field(default_factory=list, compare=False)  # keys, as they are taken

    def requests(self, shard: int | None = None) -> Iterator[Request]:
        for index, text in enumerate((*(f"Candidates: 4. selection {i}" for i in range(self.count)), *self.texts)):
            group = f"ep/{index}#__t0"
            if shard in (None, shard_of(group)):
                request = self.request(index, group, text)
                self.made.append(request.key)
                yield request

    def total(self) -> int:
        return self.count + len(self.texts)

    def request(self, index: int, group: str, text: str) -> Request:
        content: Any = text
        if self.pictures:
            image = {"type": "image_url", "image_url": {"url": "sha256:ab"}}
            content = [{"type": "text", "text": text}, image]
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 50}
        body |= {"n": self.n, "temperature": 0.5} if self.n > 1 else {}
        return Request(f"set-{index}|0", group, body, {"ab": PICTURE} if self.pictures else {})

    def keys(self) -> set[str]:
        return {request.key for request in self.requests()}


def server_of(stand_in: StandIn, *, price: bool = False, **limits: Any) -> Server:
    """With declared limits of a batch."""
    prices = {MODEL: Price(1_000.0, 1_000.0, batch=0.5, image_tokens=1_000)} if price else {}
    return Server("teacher", (stand_in.url,), timeout_s=20.0, prices=prices, batch=BatchLimits(**limits))


def submitted(work: Questions, server: Server, **more: Any) -> Submitted:
    return submit(work, server, MODEL, sleep=Waits(), **more)


def collected(work: Questions, server: Server, *, looks: int = 4, **more: Any) -> Collected:
    """Look often enough for batches of the stand-in to end; what the looks found, together."""
    done = Collected()
    for _ in range(looks):
        found = collect(work, server, sleep=Waits(), **more)
        done.batches += found.batches
        done.adopted += found.adopted
        done.outcomes.update(found.outcomes)
        done.odd.extend(found.odd)
        done.problems += found.problems
        done.open = found.open
        if not found.open:
            break
    return done


class Waits(list[float]):
    """Instead of sleeping: how long it would have been."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def outcomes(work: Questions) -> Counter[str]:
    """Outcome -> number of requests, from the log."""
    log = AnswerLog(work.folder)
    return Counter(outcome for shard in range(SHARDS) for outcome in log.outcomes(shard).values())


def spent(work: Questions) -> Spent:
    found = report(work.folder)
    assert found is not None
    return found


def lines_of_log(work: Questions) -> int:
    return sum(path.read_bytes().count(b"\n") for path in work.folder.glob("shard-*.jsonl"))


def states(work: Questions) -> dict[str, int]:
    return Ledger(work.folder).states()
