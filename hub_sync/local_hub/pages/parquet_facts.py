"""What Parquet files really hold, read by a child process: a hostile file costs it its life and the hub nothing."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import HubError

_CHILD = Path(__file__).with_name("parquet_child.py")
_SECONDS, _ALL_SECONDS = 20, 40  # one run of the child; all runs that one page needs
_WAIT_SECONDS = 20  # for the child of another page
_MOST_COUNTS, _MOST_PREVIEWS = 100_000, 4
_BLOB_LIMIT = 16 * 2**20  # bytes of a Parquet file that lies in git itself

Source = Path | bytes
_lock = threading.Lock()  # one child at a time
_UNASKED = object()
_counts: OrderedDict[str, int | None] = OrderedDict()
_previews: OrderedDict[str, dict[str, Any] | None] = OrderedDict()


def row_counts(files: Mapping[str, Source]) -> dict[str, int | None]:
    """Rows of each file by its footer, None for a file that cannot be read. The keys are digests of the contents."""
    with _one_child():
        unknown = [key for key in files if key not in _counts]
        if unknown:
            answers = _ask([files[key] for key in unknown], preview=False)
            for key, answer in zip(unknown, answers, strict=True):
                if answer is not _UNASKED:
                    _counts[key] = answer if isinstance(answer, int) and answer >= 0 else None
        found = {key: _counts.get(key) for key in files}
        _shorten(_counts, _MOST_COUNTS)
    return found


def preview(key: str, file: Source) -> dict[str, Any] | None:
    """The first rows of a file as `parquet_child` writes them; None when it cannot be read."""
    with _one_child():
        if key not in _previews:
            (answer,) = _ask([file], preview=True)
            _previews[key] = answer if isinstance(answer, dict) else None
        _previews.move_to_end(key)
        _shorten(_previews, _MOST_PREVIEWS)
        return _previews[key]


def picture(key: str, file: Source, index: int) -> tuple[bytes, str] | None:
    """(bytes, content type) of one picture of the preview."""
    pictures = (preview(key, file) or {}).get("pictures", [])
    if not 0 <= index < len(pictures):
        return None
    return base64.b64decode(pictures[index]["data"]), str(pictures[index]["kind"])


@contextmanager
def _one_child() -> Iterator[None]:
    """Raises HubError 503 rather than let all threads of the hub wait for one hostile file."""
    if not _lock.acquire(timeout=_WAIT_SECONDS):
        raise HubError(503, "The hub is reading other files: try again in a minute")
    try:
        yield
    finally:
        _lock.release()


def _ask(files: list[Source], *, preview: bool, until: float | None = None) -> list[Any]:
    """The child's answers; None for a file it died of, `_UNASKED` for files that it had no time for."""
    until = until or time.monotonic() + _ALL_SECONDS
    left = until - time.monotonic()
    if left <= 0:
        return [_UNASKED] * len(files)
    asked = [
        {"path": str(file)} if isinstance(file, Path) else {"data": base64.b64encode(file[:_BLOB_LIMIT]).decode()}
        for file in files
    ]
    environment = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-I", str(_CHILD)],
            input=json.dumps({"files": asked, "preview": preview}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=min(_SECONDS, left),
            check=True,
        )
        answers = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        if len(files) == 1:
            return [None]
        # One file that kills the reader must not hide the others: it is looked for by halves.
        half = len(files) // 2
        return [answer for part in (files[:half], files[half:]) for answer in _ask(part, preview=preview, until=until)]
    return answers if isinstance(answers, list) and len(answers) == len(files) else [None] * len(files)


def _shorten(cache: OrderedDict[str, Any], most: int) -> None:
    while len(cache) > most:
        cache.popitem(last=False)
