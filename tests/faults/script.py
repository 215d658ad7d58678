"""What goes wrong, and when: the script that a fault proxy follows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

KINDS = {
    "drop": "the connection ends before anything reaches the hub",
    "drop_after": "the hub did it, and the client never hears",
    "delay": "`seconds` pass before the request goes on",
    "repeat": "the request reaches the hub twice; the client hears the second answer",
    "repeat_first": "the request reaches the hub twice; the client hears the first answer",
    "status": "an answer with `status` (412, 429, 500), and nothing reaches the hub",
    "status_after": "the hub did it, and the client hears `status`",
    "truncate": "the whole answer is announced, half of its body comes",
    "redirect": "307 to the same path at `origin`",
    "stop": "the hook is called, and nothing reaches the hub",
    "stop_during": "the hub has the whole request, the hook is called, no answer is waited for",
    "stop_after": "the hub did it, the hook is called, and the client never hears",
}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong with one request. ``kind`` is a key of KINDS; the rest serves some of the kinds.

    ``seconds`` is the length of a delay, and the Retry-After of an answer (None: no such header).
    """

    kind: str
    status: int = 500
    seconds: float | None = None
    origin: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no fault; there are {', '.join(KINDS)}")
        if (self.kind == "redirect") != (self.origin is not None):
            raise ValueError("a redirect, and nothing else, names an origin")
        if self.kind == "delay" and self.seconds is None:
            raise ValueError("a delay names its seconds")


@dataclass(frozen=True)
class Rule:
    """Which requests a fault meets.

    ``number`` counts all requests of the proxy from 1. ``method`` and ``path`` (a pattern found anywhere in the raw
    path with its query) narrow it down; ``nth`` is the occurrence, from 1, among the requests that match those, and
    None means every one.
    """

    fault: Fault
    number: int | None = None
    method: str | None = None
    path: str | None = None
    nth: int | None = 1

    def matches(self, number: int, method: str, path: str) -> bool:
        if self.number is not None and self.number != number:
            return False
        if self.method is not None and self.method != method:
            return False
        return self.path is None or re.search(self.path, path) is not None


class Script:
    """Rules with their counts. Of the rules that meet a request, the first one counts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._seen = [0] * len(self.rules)

    def fault(self, number: int, method: str, path: str) -> Fault | None:
        """The fault of this request. Every request is to be asked about once, in the order of the numbers."""
        found = None
        for index, rule in enumerate(self.rules):
            if rule.matches(number, method, path):
                self._seen[index] += 1
                if found is None and rule.nth in (None, self._seen[index]):
                    found = rule.fault
        return found


def from_json(items: Sequence[dict[str, Any]]) -> list[Rule]:
    """Rules from plain data: ``{"number": 3, "fault": {"kind": "drop"}}``."""
    return [Rule(Fault(**item["fault"]), **{k: v for k, v in item.items() if k != "fault"}) for item in items]


# Where a fault hurts most. Each pattern meets few requests of a publication, whatever their order.
_PLACES: tuple[tuple[str, str], ...] = (
    ("POST", r"/commit/"),
    ("POST", r"/preupload/"),
    ("POST", r"/tag/"),
    ("GET", r"/refs"),
    ("POST", r"/info/lfs/objects/batch"),
    ("PUT", r"."),
    ("GET", r"/xet-write-token/"),
    ("POST", r"/v1/xorbs/"),
    ("POST", r"/shards"),
    ("GET", r"/resolve/"),
    ("POST", r"/repos/create"),
)
_RANDOM = (
    Fault("drop"),
    Fault("drop_after"),
    Fault("delay", seconds=0.3),
    Fault("repeat"),
    Fault("repeat_first"),
    Fault("status", 412),
    Fault("status", 429, seconds=1),
    Fault("status", 500),
    Fault("status_after", 500),
    Fault("status", 503),
    Fault("truncate"),
)


def random_script(seed: int, requests: int = 40, faults: int = 3) -> list[Rule]:
    """One to ``faults`` rules, the same for the same seed, each of which strikes once.

    Half of them strike at a number up to ``requests``, half at one of the places of a publication. Because no rule
    strikes twice, a client that tries again a few times gets through, or fails with a reason; none can loop.
    """
    draw = random.Random(seed)
    rules = []
    for _ in range(draw.randint(1, faults)):
        fault = draw.choice(_RANDOM)
        if draw.random() < 0.5:
            rules.append(Rule(fault, number=draw.randint(1, requests)))
        else:
            method, path = draw.choice(_PLACES)
            rules.append(Rule(fault, method=method, path=path, nth=draw.randint(1, 2)))
    return rules
