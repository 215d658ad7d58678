"""Which items a page of limited size has room for, counted in the bytes that each adds to the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from . import context
from .found import Found

Row = dict[str, Any]
_BLOCK = 300  # bytes around a picture in the file and around an entry of the data, at most


@dataclass
class Fitting:
    """The parts of a page so far. ``room`` is what is left of its size, in bytes."""

    found: Found
    room: int
    states: dict[str, Row] = field(default_factory=dict)
    sets: dict[str, Row] = field(default_factory=dict)
    labels: dict[str, Row] = field(default_factory=dict)
    pictures: set[str] = field(default_factory=set)  # hex sha256

    def take(self, item: Row) -> bool:
        """Add an item and what it shows that is not there yet; False, and nothing changed, when it does not fit."""
        state = self._new(self.states, item["state_id"], self.found.states, context.state)
        of = self.found.states.get(item["state_id"] or "")
        set_ = self._new(self.sets, item["set_id"], self.found.sets, lambda row: context.candidate_set(row, of))
        label = self._new(self.labels, item["label_id"], self.found.labels, context.label)
        shown = [*(one["screenshot"] for one in state.values() if one["screenshot"]), *item["images"]]
        facts = self.found.pictures.facts
        pictures = {sha256 for sha256 in shown if sha256 in facts} - self.pictures
        cost = sum(map(weight, [item, *state.items(), *set_.items(), *label.items()]))
        cost += sum(4 * (facts[sha256]["bytes"] + 2) // 3 + _BLOCK for sha256 in pictures)
        if cost > self.room:
            return False
        self.room -= cost
        self.states |= state
        self.sets |= set_
        self.labels |= label
        self.pictures |= pictures
        return True

    @staticmethod
    def _new(
        known: dict[str, Row], key: str | None, rows: dict[str, Row], shown: Callable[[Row], Row]
    ) -> dict[str, Row]:
        return {key: shown(rows[key])} if key in rows and key not in known else {}


def weight(value: Any) -> int:
    """Bytes of a value in the page, in which no ``<`` stands as itself."""
    written = orjson.dumps(value)
    return len(written) + 5 * written.count(b"<") + 8
