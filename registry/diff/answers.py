"""Picks that people put in the place of a teacher's: the label stays as it was, and the rows behind it are others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .files import DataFile
from .model import Answer

_COLUMNS = ("item_id", "selected_index", "previous_index")


class _Said(NamedTuple):
    person: int
    teacher: int | None


def answers(before: Sequence[DataFile], after: Sequence[DataFile]) -> list[Answer]:
    """The labels whose rows follow another pick, by what stands in the tables `reviews` of two versions, sorted.

    Where a version has no person's pick for a label it is taken to have the teacher's, as the other one recorded it.
    """
    equal = {file.content for file in before} & {file.content for file in after}
    old, new = ([file for file in files if file.content not in equal] for files in (before, after))
    then, now = _said(old), _said(new)
    found = []
    for label_id in sorted(then.keys() | now.keys()):
        first, last = then.get(label_id), now.get(label_id)
        was = first.person if first else last.teacher if last else None
        became = last.person if last else first.teacher if first else None
        if was != became:
            found.append(Answer(label_id, was, became))
    return found


def _said(files: Sequence[DataFile]) -> dict[str, _Said]:
    said = {}
    for file in files:
        columns = file.read(_COLUMNS)
        rows = zip(*(columns.column(name).to_pylist() for name in _COLUMNS), strict=True)
        said.update({item: _Said(index, previous) for item, index, previous in rows if index is not None})
    return said
