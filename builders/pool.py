"""Actions chosen in other tasks, as rejected sides: a pool that is drawn once, before the buckets are built.

For each dialect and coordinate space it holds the ``KEPT`` picks with the lowest hashes, whatever their file, bucket or
order. A label takes those of other tasks that come first by a hash of label and pick. New labels displace picks: where
the pool is full, of all pairs against other tasks about as large a share changes as the new labels are of all labels.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from ..schemas.actions import Parsed, parse, relation
from ..schemas.actions.model import is_point
from ..schemas.ids import hash_order
from .ledger import Row
from .pair_rules import ruled
from .scene import Scene
from .spec import BuildSpec, SourceSpec
from .splits import split_of

KEPT = 256  # picks for each dialect and space
_SPARE = 4  # times as many are remembered: some turn out to be unreadable
NAME = "pool.json"  # in the folder of the partition

Place = tuple[int, int, int, int]  # where a candidate set is found again
Kind = tuple[str, str]  # dialect, space
_Entry = tuple[int, str, int]  # hash with its sign turned, set id, pick


class Drawing:
    """Collects the picks in the pass over the sources. Costs nothing when no negatives of other tasks are asked for."""

    def __init__(self, spec: BuildSpec) -> None:
        self._teacher = spec.labels.teacher
        self.wanted = bool(spec.pairs and spec.pairs.negatives.cross_task)
        self._sets: dict[str, tuple[Kind, Place]] = {}
        self._repeated: set[str] = set()
        self._lowest: dict[Kind, list[_Entry]] = {}  # heaps, the highest hash on top
        self._known: set[_Entry] = set()  # those in the heaps

    def set(self, set_id: str, source: SourceSpec, place: Place) -> None:
        """A candidate set that has a state."""
        if self.wanted:
            if set_id in self._sets:
                self._repeated.add(set_id)  # one of its records may be put aside, and which cannot be told yet
            self._sets[set_id] = (source.dialect or "", source.space or ""), place

    def pick(self, set_id: str, teacher: str | None, selection: int | None) -> None:
        """A label of a set that has a state."""
        if not self.wanted or selection is None or (self._teacher is not None and teacher != self._teacher):
            return
        heap = self._lowest.setdefault(self._sets[set_id][0], [])
        entry = (-int.from_bytes(hash_order("pool", set_id, selection)[:8], "big"), set_id, selection)
        if entry in self._known or (len(heap) == KEPT * _SPARE and entry < heap[0]):
            return
        self._known.add(entry)
        if len(heap) < KEPT * _SPARE:
            heapq.heappush(heap, entry)
        else:
            self._known.discard(heapq.heapreplace(heap, entry))

    def write(self, folder: Path, again: Callable[[str, Place], tuple[str, Sequence[str]]]) -> None:
        """Write the pool. ``again`` reads a set once more: (task group of its state, responses)."""
        if not self.wanted:
            return
        pool: list[Row] = []
        for (dialect, space), heap in sorted(self._lowest.items()):
            kept = 0
            for _, set_id, selection in sorted(heap, reverse=True):
                if kept == KEPT or set_id in self._repeated:
                    continue
                group, responses = again(set_id, self._sets[set_id][1])
                if 0 <= selection < len(responses) and parse(dialect, responses[selection]).parse_error is None:
                    named = {"id": f"{set_id}|{selection}", "task_group": group, "dialect": dialect, "space": space}
                    pool.append({**named, "response": responses[selection]})
                    kept += 1
        (folder / NAME).write_bytes(orjson.dumps(pool))


class _Pick(NamedTuple):
    id: str
    task_group: str
    split: str
    parsed: Parsed


class Pool:
    """The pool as a bucket uses it; empty where none was written."""

    def __init__(self, spec: BuildSpec, folder: Path) -> None:
        self._picks: dict[Kind, list[_Pick]] = {}
        path = folder / NAME
        for row in orjson.loads(path.read_bytes()) if path.exists() else ():
            split = split_of(row["task_group"], spec.split)
            pick = _Pick(row["id"], row["task_group"], split, parse(row["dialect"], row["response"]))
            self._picks.setdefault((row["dialect"], row["space"]), []).append(pick)

    def drawn(
        self, label: Row, scene: Scene, taken: Container[str], rules: Mapping[str, str], count: int
    ) -> list[Parsed]:  # fmt: skip
        """At most ``count`` actions of other tasks: none that the set holds, that points outside of the screen, or that
        a pair rule would not let stand against the chosen one. Train takes none of validation."""
        group, chosen = scene.state["task_group"], scene.parsed[label["selected_index"]]
        others = [
            pick
            for pick in self._picks.get((scene.dialect, scene.view.space), ())
            if pick.task_group != group and (label["split"] == "validation" or pick.split == "train")
        ]
        found: dict[str, Parsed] = {}
        for pick in sorted(others, key=lambda pick: hash_order("cross_task", label["label_id"], pick.id)):
            if len(found) == count:
                break
            key = pick.parsed.key
            if key in taken or key in found or not _on_screen(pick.parsed, scene):
                continue
            if ruled(relation(chosen, pick.parsed, scene.view), rules, None)[0] is None:
                found[key] = pick.parsed
        return list(found.values())


def _on_screen(parsed: Parsed, scene: Scene) -> bool:
    view = scene.view
    size = (1000, 1000) if view.space == "norm1000" else (view.width, view.height)
    points = [value for call in parsed.calls for name, value in call.arguments.items() if is_point(name, value)]
    return all(not limit or 0 <= at <= limit for point in points for at, limit in zip(point, size, strict=True))
