"""Labels with another verdict, and the actions that they named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .arrays import integers, strings
from .files import DataFile, Reader
from .model import Flip, Listed, Verdict

if TYPE_CHECKING:
    import pyarrow as pa

Column = Callable[[str], "pa.Array"]


class Flips:
    """All flipped labels by id, and the first of them with their verdicts."""

    def __init__(self, limit: int) -> None:
        self.listed: Listed[Flip] = Listed(limit)
        self._ids: list[str] = []
        self._known: pa.Array | None = None  # the same for Arrow
        self._files: set[str] = set()  # names of files that hold listed ones; candidates mostly stand in one alike

    def note(self, places: Sequence[int], before: Column, after: Column, file: str) -> None:
        """Note the labels at ``places`` of the columns of two parts of `teacher_labels`."""
        if not places:
            return
        ids, sets = (after(name).take(integers(places)).to_pylist() for name in ("label_id", "set_id"))
        verdicts = [
            [
                Verdict(status, index, None)
                for status, index in zip(
                    *(column(name).take(integers(places)).to_pylist() for name in ("status", "selected_index")),
                    strict=True,
                )
            ]
            for column in (before, after)
        ]
        if self.listed.room:
            self._files.add(file.rpartition("/")[2])
        self.listed.add(map(Flip, ids, sets, *verdicts), len(ids))
        self._ids += ids
        self._known = None

    def follow(self, label_ids: Sequence[str]) -> None:
        """Rows of these labels follow from something, too, though the labels are as they were."""
        self._ids += label_ids
        self._known = None

    def count(self, label_ids: pa.Array | pa.ChunkedArray) -> int:
        """How many of ``label_ids`` are those of flipped labels, or of others that rows follow from."""
        import pyarrow.compute as pc

        if not self._ids:
            return 0
        if self._known is None:
            self._known = strings(self._ids)
        return int(pc.sum(pc.is_in(label_ids, value_set=self._known), min_count=0).as_py())

    def name_actions(self, before: Iterable[DataFile], after: Iterable[DataFile]) -> None:
        """Add the actions of the listed flips, from the files of `candidate_sets` of both sides."""
        if not self.listed.first:
            return
        wanted = {flip.set_id for flip in self.listed.first}
        found = [self._actions(files, wanted) for files in (before, after)]
        self.listed.first = [
            replace(
                flip,
                before=_named(flip.before, found[0].get(flip.set_id)),
                after=_named(flip.after, found[1].get(flip.set_id)),
            )
            for flip in self.listed.first
        ]

    def _actions(self, files: Iterable[DataFile], wanted: set[str]) -> dict[str, list[str]]:
        """Set id -> action of each candidate. Reads no more files than hold the sets, when shards agree."""
        import pyarrow.compute as pc

        actions: dict[str, list[str]] = {}
        ids = strings(sorted(wanted))
        for file in sorted(files, key=lambda file: file.path.rpartition("/")[2] not in self._files):
            if len(actions) == len(wanted):
                break
            with Reader(file) as reader:
                for group in range(len(reader.group_rows)):
                    sets = reader.read(group, ["set_id"])["set_id"]
                    places = pc.indices_nonzero(pc.is_in(sets, value_set=ids))
                    if not len(places):
                        continue
                    candidates = reader.read(group, ["candidates"])["candidates"].take(places).to_pylist()
                    for set_id, row in zip(sets.take(places).to_pylist(), candidates, strict=True):
                        actions[set_id] = [candidate["action"] for candidate in row]
        return actions


def _named(verdict: Verdict, actions: list[str] | None) -> Verdict:
    index = verdict.selected_index
    known = actions is not None and index is not None and 0 <= index < len(actions)
    return replace(verdict, action=actions[index]) if known and actions is not None and index is not None else verdict
