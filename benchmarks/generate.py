"""Live requests to a slow server: the rate beside the ideal one, and memory over many requests.

    python benchmarks/generate.py [--requests 20000] [--in-flight 256] [--latency 2] [--rounds 2] [--json]

The server is the tests' stand-in on this machine, which answers every request after the latency, so that the ideal is
``in-flight`` answers each ``latency`` seconds. Small requests have a few hundred bytes; large ones a picture of 100 kB
that does not compress, another one for each state of four requests. Each run is a fresh process; the best of the rounds
counts, since client and server share the cores with whatever else runs. Memory is the median of the client's resident
set over the second tenth of the requests and over the last; its peak depends on how many bodies leave at the same time.
glibc keeps freed blocks of a body's size for itself, and more of them for a while; it is told not to, so that what is
measured is what the program holds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action_reward_models.benchmarks.make_release import png
from action_reward_models.benchmarks.processes import memory_kb, run
from action_reward_models.builders.generate.log import shard_of
from action_reward_models.builders.generate.run import run as ask
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.servers.endpoints import Server
from action_reward_models.servers.requests import Request

MIN_SHARE = 0.9  # of the ideal rate
MAX_GROWTH = 1.1  # of memory, from the second tenth of the requests to the last
MAX_MB = 300  # for any number of requests
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # to the system, at once, from this many bytes on
DRAWS = 4  # of a state
PICTURES = 64


@dataclass(frozen=True)
class Work:
    """``requests`` requests, with a picture each where ``pictures`` has some."""

    folder: Path
    requests_in_all: int
    pictures: Mapping[str, bytes]

    def requests(self, shard: int | None = None) -> Iterator[Request]:
        names = list(self.pictures)
        for number in range(0, self.requests_in_all, DRAWS):
            group = f"state {number}"
            if shard not in (None, shard_of(group)):
                continue
            content: Any = f"Which action comes next on page {number}? " + "Some words of a task. " * 10
            if names:
                picture = {"type": "image_url", "image_url": {"url": f"sha256:{names[number // DRAWS % len(names)]}"}}
                content = [{"type": "text", "text": content}, picture]
            for draw in range(min(DRAWS, self.requests_in_all - number)):
                messages = [{"role": "user", "content": content}]
                body = {"model": "stand-in", "messages": messages, "max_tokens": 64, "seed": draw}
                yield Request(f"{group}#{draw}", group, body, self.pictures)

    def total(self) -> int:
        return self.requests_in_all


def child(url: str, folder: str, requests: int, in_flight: int, large: bool) -> dict[str, float]:
    """Ask all; seconds without the imports, and the memory on the way (MB)."""
    from action_reward_models.servers import transport

    assert transport
    pictures = [png(number, 100) for number in range(PICTURES)] if large else []
    work = Work(Path(folder), requests, {sha256_hex(picture): picture for picture in pictures})
    samples: dict[int, list[float]] = {1: [], 9: []}

    def progress(what: str, done: int, total: int) -> None:
        tenth = done * 10 // total
        if tenth in samples and not done % 10:
            samples[tenth].append(memory_kb(os.getpid()) / 1024)

    started = time.monotonic()
    ran = ask(work, Server("bench", (url,)), "stand-in", in_flight=in_flight, progress=progress)
    assert ran.answered == requests, ran
    seconds = time.monotonic() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    early, late = (statistics.median(samples[tenth]) for tenth in samples)
    return {"seconds": seconds, "early_mb": early, "late_mb": late, "peak_mb": peak}


def measure(large: bool, requests: int, in_flight: int, latency_s: float, rounds: int) -> list[dict[str, Any]]:
    from action_reward_models.tests.servers.stand_in import Script, StandIn

    ideal = math.ceil(requests / in_flight) * latency_s
    runs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, StandIn(Script(latency_s=latency_s), keep=1) as server:
            words = [server.url, folder, str(requests), str(in_flight), "large" if large else "small"]
            runs.append(run(__file__, "--child", *words, env={**os.environ, **GIVEN_BACK}))
            most = server.counts()["most_in_flight"]
    best = min(runs, key=lambda run: float(run.said["seconds"]))
    seconds = best.said["seconds"]
    name = "100 kB pictures" if large else "small"
    rate = f"{requests / seconds:.0f}/s, ideal {requests / ideal:.0f}/s; {most} at once"
    rate += f"; {best.cpu / requests * 1000:.1f} ms of CPU a request"
    early, late, peak = (best.said[f"{name}_mb"] for name in ("early", "late", "peak"))
    memory = f"{early:.0f} MB after {requests // 10:,}, {late:.0f} MB after {requests * 9 // 10:,}, peak {peak:.0f} MB"
    lines: list[dict[str, Any]] = [
        {"name": "share of the ideal rate", "value": ideal / seconds, "at_least": MIN_SHARE, "note": rate},
        {"name": "memory, last / second tenth", "value": late / early, "at_most": MAX_GROWTH, "note": memory},
        {"name": "peak memory, MB", "value": peak, "at_most": MAX_MB},
    ]
    return [line | {"name": f"generate, {name}: {line['name']}"} for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    lines = []
    for large in (False, True):
        lines += measure(large, given.requests, given.in_flight, given.latency, given.rounds)
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:50} {line['value']:10.2f}  {line.get('note', '')}".rstrip())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6] == "large")))
    else:
        main()
