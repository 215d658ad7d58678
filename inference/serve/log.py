"""One line of JSON for each request: when, which route, what came of it and how long it took.

No text of a request, no picture, no id of its own and no key is ever in it. Of what failed here it says the type and
the places in the code; the words only of an error of ours, which is about the model or its server: those of others may
quote a request.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import orjson

from ...schemas.errors import ArmError

_PLACES = 6  # of the code, the innermost ones


@dataclass
class Entry:
    """What is known of a request so far.

    id: ours, also in the answer's header ``x-request-id``. n: its candidates. batch: requests asked together with it.
    """

    id: str
    route: str
    outcome: str = ""
    n: int = 0
    batch: int = 0
    error: BaseException | None = None


@dataclass
class RequestLog:
    """stream: None writes nothing."""

    stream: TextIO | None

    def write(self, entry: Entry, method: str, status: int, seconds: float) -> None:
        if self.stream is None:
            return
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "request": entry.id,
            "method": method,
            "route": entry.route,
            "status": status,
            "outcome": entry.outcome,
            "n": entry.n,
            "milliseconds": round(1000 * seconds, 1),
            "batch": entry.batch,
        }
        if entry.error is not None:
            line |= {"error": type(entry.error).__name__, "at": places(entry.error)}
            if isinstance(entry.error, ArmError):
                line["told"] = entry.error.message
        try:
            self.stream.write(orjson.dumps(line).decode() + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            self.stream = None  # nobody reads it any more; the answers matter more


def places(error: BaseException) -> list[str]:
    """Where in the code it was raised, the innermost place last: ``scalar.py:90 score_encoded``."""
    frames = traceback.extract_tb(error.__traceback__)[-_PLACES:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
