"""What one source asks for, as the log, the runs and the batches see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ...servers.requests import Request


class Work(Protocol):
    """Everything that one source asks for. It is sent to worker processes, so that it holds paths and plain data."""

    @property
    def folder(self) -> Path:
        """Of the log: answers, ledger, spend."""

    def requests(self, shard: int | None = None) -> Iterator[Request]:
        """Every request of one shard of the log (None: of all), always in the same order, made as they are taken: what
        has been taken and dropped is not held."""

    def total(self) -> int:
        """How many requests there are."""
