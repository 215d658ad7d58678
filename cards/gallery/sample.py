"""Which items are looked at: some of every kind, the same ones whenever the same build is asked."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable

from ...schemas.ids import hash_order
from .choice import TABLES
from .units import Unit

Stratum = tuple[str, bool, str, str]  # Unit.stratum


class Sample:
    """A stratified sample of units, in memory that depends on ``most`` and not on how many there are."""

    def __init__(self, units: Iterable[Unit], most: int) -> None:
        """``most`` units of each stratum are kept: those with the lowest hash of their id."""
        self.counts: Counter[Stratum] = Counter()
        self._kept: dict[Stratum, list[tuple[int, str, Unit]]] = {}
        for unit in units:
            stratum = unit.stratum
            self.counts[stratum] += 1
            heap = self._kept.setdefault(stratum, [])
            # The heap's first is the one to give way, hence the sign.
            entry = (-int.from_bytes(hash_order("gallery", unit.id)), unit.id, unit)
            if len(heap) < most:
                heapq.heappush(heap, entry)
            elif entry[:2] > heap[0][:2]:
                heapq.heapreplace(heap, entry)

    def sequence(self) -> list[Unit]:
        """The kept units, one of each stratum in turn: the first N of them are the sample of N."""
        queues = [
            [entry[2] for entry in sorted(self._kept[stratum], key=lambda e: e[:2], reverse=True)]
            for stratum in sorted(self._kept, key=listed)
        ]
        rounds = max(map(len, queues), default=0)
        return [queue[n] for n in range(rounds) for queue in queues if n < len(queue)]


def listed(stratum: Stratum) -> tuple[int, bool, str, str]:
    """The order of strata on the page: table by table, rows before what was excluded."""
    return TABLES.index(stratum[0]), *stratum[1:]
