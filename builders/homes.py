"""Where rows are made that come ready-made or that somebody reviewed: what may share an id is made in one bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..schemas.ids import heads, sha256_hex
from .gathering import CopiedRow, EpisodeEnd, SeenState
from .spec import READY


def bucket_of(key: str, buckets: int) -> int:
    """Range of the hash ``key`` (hex) that falls in: 0..buckets-1."""
    return (int(key[:8], 16) * buckets) >> 32


def nearest(row_id: str, *known: Mapping[str, SeenState]) -> SeenState | None:
    """The state of the longest known id that ``row_id`` is, or begins with up to one of its bars; None without one."""
    return next((states[head] for head in heads(row_id) for states in known if head in states), None)


class Homes:
    """Buckets by the ids of rows. ``sets`` are the states of candidate sets by set id, ``labels`` those of labels whose
    id does not lead to them, ``ends`` the last states of the episodes that are compared."""

    def __init__(
        self, states: Mapping[str, SeenState], sets: Mapping[str, SeenState], labels: Mapping[str, SeenState],
        ends: Mapping[str, EpisodeEnd], buckets: int,
    ) -> None:  # fmt: skip
        self._states, self._sets, self._labels, self._ends, self._buckets = states, sets, labels, ends, buckets
        self._ready: dict[tuple[str, str], int] = {}  # (kind, id) -> bucket

    def take(self, kind: str, rows: Iterable[CopiedRow]) -> None:
        """Learn of all ready-made rows of a kind."""
        for row in rows:
            row_id = str(row.about["row_id"])
            bucket = self._nearest(row, row_id)
            # Those of one id meet, whatever they show: they are one row, or a conflict.
            self._ready[kind, row_id] = min(bucket, self._ready.get((kind, row_id), bucket))

    def ready(self, kind: str, row: CopiedRow) -> int:
        """The bucket of a ready-made row that was taken."""
        return self._ready[kind, str(row.about["row_id"])]

    def reviewed(self, item: str) -> list[int]:
        """The buckets that ask for reviews of ``item``, that of its first table first; there is always one."""
        home = self._made(item)
        if home is not None:
            return [home]
        ready = [self._ready[kind, item] for kind in READY if (kind, item) in self._ready]
        return list(dict.fromkeys(ready)) or [bucket_of(sha256_hex(item), self._buckets)]

    def _nearest(self, row: CopiedRow, row_id: str) -> int:
        """With the rows of ours that may have its id, else with those of its state, else with those of its pictures."""
        home = self._made(row_id)
        if home is not None:
            return home
        state = self._sets.get(row.about["set_id"] or "") or self._states.get(row.about["state_id"] or "")
        return state.bucket if state else bucket_of(row.key, self._buckets)

    def _made(self, row_id: str) -> int | None:
        """Where a row of ours with this id would be made: ids begin with that of a label, set or state, and those of
        pairs of episodes with both of theirs. None where it can be no row of ours."""
        parts = row_id.split("|")
        if (group := self._compared(parts)) is not None:
            return bucket_of(group, self._buckets)
        state = nearest(row_id, self._labels, self._sets, self._states)
        return state.bucket if state else None

    def _compared(self, parts: list[str]) -> str | None:
        """The task group of two episodes that a pair is named after, if it is."""
        if not self._ends:
            return None
        for n in range(1, len(parts) - 1):
            better, worse = self._ends.get("|".join(parts[:n])), self._ends.get("|".join(parts[n:-1]))
            if better and worse and better.task_group == worse.task_group:
                return better.task_group
        return None
