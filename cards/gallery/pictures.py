"""The pictures of a page: sizes of all that were met, bytes of those that fit into memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...schemas.images import ImageError, measured


class Pictures:
    """Collects pictures as rows are read, by the hex sha256 of their bytes; at most ``most`` bytes are held."""

    def __init__(self, most: int) -> None:
        self.facts: dict[str, dict[str, Any]] = {}  # of pictures that a browser shows: type, bytes, width, height
        self.held: dict[str, bytes] = {}
        self.wanted: Collection[str] | None = None  # what else is met is not held; None: everything
        self._room = most
        self._refused: set[str] = set()

    def keep(self, reference: str, data: bytes) -> None:
        """Take note of an embedded picture, ``sha256:<hex>`` and its bytes."""
        sha256 = reference.removeprefix("sha256:")
        if sha256 in self._refused or sha256 in self.held or (self.wanted is not None and sha256 not in self.wanted):
            return
        if sha256 not in self.facts:
            try:
                kind, width, height = measured(data)
            except ImageError:
                self._refused.add(sha256)
                return
            self.facts[sha256] = {"type": kind, "bytes": len(data), "width": width, "height": height}
        if len(data) <= self._room:
            self._room -= len(data)
            self.held[sha256] = data

    def only(self, wanted: Collection[str]) -> set[str]:
        """Let go of all but ``wanted``, and hold those from now on. Returns which of them have to be read again."""
        self.held = {sha256: data for sha256, data in self.held.items() if sha256 in wanted}
        self.wanted = wanted
        missing = {sha256 for sha256 in wanted if sha256 in self.facts and sha256 not in self.held}
        self._room = sum(self.facts[sha256]["bytes"] for sha256 in missing)
        return missing
