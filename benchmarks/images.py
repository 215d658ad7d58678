"""Checks of screenshots against one Pillow decode each, in CPU seconds, on the example's real screenshots.

python benchmarks/images.py [--json]
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from action_reward_models.schemas.images import ImageChecker
from PIL import Image

EPISODES = Path(__file__).resolve().parent.parent / "examples" / "miniwob" / "data" / "episodes.jsonl"
AT_LEAST_SEEN = 20.0  # times as fast as one load()
AT_MOST_FIRST = 1.3  # of one load()
ROUNDS = 5
SECONDS = 0.4  # of each measurement in a round


def screenshots() -> list[bytes]:
    """The distinct screenshots of the example episodes."""
    found: dict[bytes, None] = {}
    for line in EPISODES.read_text("utf-8").split("\n"):
        for url in _urls(json.loads(line)) if line else ():
            found[base64.b64decode(url.partition(",")[2])] = None
    assert len(found) > 20, f"only {len(found)} screenshots in {EPISODES}"
    return list(found)


def _urls(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _urls(inner)
    elif isinstance(value, str) and value.startswith("data:image/"):
        yield value


def seconds(one_pass: Callable[[], None]) -> float:
    """CPU seconds of one pass, averaged over as many as fit."""
    started, passes = time.process_time(), 0
    while (spent := time.process_time() - started) < SECONDS:
        one_pass()
        passes += 1
    return spent / passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    pictures = screenshots()
    warm = ImageChecker()

    def load() -> None:
        for data in pictures:
            Image.open(io.BytesIO(data)).load()

    def first_seen() -> None:
        checker = ImageChecker()
        for data in pictures:
            checker.check(data)

    def seen_before() -> None:
        for data in pictures:
            warm.check(data)

    seen_before()
    # In turns, so that a slow second of the machine meets all three.
    rounds = [(seconds(load), seconds(first_seen), seconds(seen_before)) for _ in range(ROUNDS)]
    decode, first, seen = (statistics.median(times) for times in zip(*rounds, strict=True))
    note = f"{len(pictures)} screenshots of {sum(map(len, pictures)) / len(pictures) / 1024:.0f} KB; load() " \
        f"{decode / len(pictures) * 1e6:.0f} us each"  # fmt: skip
    lines: list[dict[str, Any]] = [
        {"name": "images: load() / seen before, CPU", "value": decode / seen, "at_least": AT_LEAST_SEEN, "note": note},
        {"name": "images: first seen / load(), CPU", "value": first / decode, "at_most": AT_MOST_FIRST},
    ]
    if parser.parse_args().json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:45} {line['value']:10.2f}  {line.get('note', '')}")


if __name__ == "__main__":
    main()
