"""What the server counts, in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass
class Histogram:
    """bounds: upper ends of its buckets, included, in rising order; one more takes what is larger."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str = "") -> list[str]:
        """Its samples; ``labels`` as they stand in braces."""
        comma, seen, made = "," if labels else "", 0, []
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            seen += count
            made.append(f'{name}_bucket{{{labels}{comma}le="{bound}"}} {seen}')
        braced = f"{{{labels}}}" if labels else ""
        return [*made, f"{name}_sum{braced} {self.total:.6f}", f"{name}_count{braced} {seen}"]


@dataclass
class Metrics:
    """Of one server since its start. Only the event loop changes them."""

    requests: Counter[tuple[str, int, str]] = field(default_factory=Counter)  # route, status, outcome
    seconds: dict[str, Histogram] = field(default_factory=dict)  # by route
    candidates: int = 0
    batches: Histogram = field(default_factory=lambda: Histogram(_SIZES))
    batch_seconds: Histogram = field(default_factory=lambda: Histogram(_SECONDS))

    def request(self, route: str, status: int, outcome: str, n: int, seconds: float) -> None:
        """One was answered. n: of its candidates; 0 when nobody came to count them."""
        self.requests[route, status, outcome] += 1
        self.seconds.setdefault(route, Histogram(_SECONDS)).add(seconds)
        self.candidates += n

    def batch(self, count: int, seconds: float) -> None:
        self.batches.add(count)
        self.batch_seconds.add(seconds)

    def text(self, model: Mapping[str, str], *, inside: int, waiting: int, draining: bool) -> str:
        """``model``: labels of what is served."""
        named = ",".join(f'{key}="{_escaped(value)}"' for key, value in model.items())
        lines = [*_head("arm_model_info", "gauge", "What is served."), f"arm_model_info{{{named}}} 1"]
        lines += _head("arm_requests_total", "counter", "Requests answered, by route, HTTP status and outcome.")
        for (route, status, outcome), count in sorted(self.requests.items()):
            labels = f'route="{route}",status="{status}",outcome="{_escaped(outcome)}"'
            lines.append(f"arm_requests_total{{{labels}}} {count}")
        lines += _head("arm_request_seconds", "histogram", "From the head of a request to its answer.")
        for route, histogram in sorted(self.seconds.items()):
            lines += histogram.lines("arm_request_seconds", f'route="{route}"')
        lines += _one("arm_candidates_total", "counter", "Candidates in the requests answered.", self.candidates)
        lines += _one("arm_requests_inside", "gauge", "Requests that have a place: read, waiting or asked.", inside)
        lines += _one("arm_requests_waiting", "gauge", "Requests that wait for the model.", waiting)
        lines += _one("arm_draining", "gauge", "1 once the server was told to end.", int(draining))
        lines += _head("arm_batch_requests", "histogram", "Requests that the model was asked together.")
        lines += self.batches.lines("arm_batch_requests")
        lines += _head("arm_batch_seconds", "histogram", "Time that the model took for them.")
        lines += self.batch_seconds.lines("arm_batch_seconds")
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]


def _one(name: str, kind: str, what: str, value: int) -> list[str]:
    return [*_head(name, kind, what), f"{name} {value}"]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
