"""What a run listens to, and what it tells while workers do it: signals, and the log as it grows."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from .log import SHARDS, AnswerLog
from .work import Work

_TOLD_S = 1.0  # between two looks at the log


class Signals:
    """SIGINT and SIGTERM call ``what``, where this thread may say so."""

    def __init__(self, what: Callable[[], None]) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._set: list[tuple[int, object]] = []
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before is signal.SIG_IGN:  # as in workers, whose parent decides
                continue
            with suppress(NotImplementedError):  # a loop that takes no signals, as of Windows; then they interrupt
                self._loop.add_signal_handler(number, self._what)
                self._set.append((number, before))

    def __exit__(self, *_: object) -> None:
        for number, before in self._set:
            self._loop.remove_signal_handler(number)
            signal.signal(number, before)  # type: ignore[arg-type]


class Watch:
    """Tells how many lines the log has while workers write it: each is a request with an outcome."""

    def __init__(self, work: Work, progress: Callable[[str, int, int], None]) -> None:
        self._log, self._progress = AnswerLog(work.folder), progress
        self._total, self._ended = work.total(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        ends, lines = [0] * SHARDS, 0
        while not self._ended.wait(_TOLD_S):
            for shard in range(SHARDS):
                with suppress(FileNotFoundError), self._log.path(shard).open("rb") as file:
                    file.seek(ends[shard])
                    while block := file.read(1 << 20):
                        lines += block.count(b"\n")
                        ends[shard] += len(block)
            self._progress("asking", min(lines, self._total), self._total)
