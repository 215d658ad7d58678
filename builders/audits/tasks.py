"""Tasks as texts: which of validation are nearly one of train, and what the benchmarks are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...schemas.ids import task_words
from .counts import NAMED, Json, rounded
from .minhash import near
from .tables import SPLITS, short

NEAR = 0.65  # Jaccard similarity of runs of five characters: a word changed in a sentence of ten, or an ending
_KEPT = 2000  # characters of a task that are compared
_TOLD = 160  # characters of a task that a finding names


class Task(NamedTuple):
    """One distinct text. ``states`` and ``first`` are by split: how many states have it, and the least of their ids."""

    text: str
    group: str
    states: Mapping[str, int]
    first: Mapping[str, str]

    @property
    def place(self) -> str:
        """The id of a state that has it, of train if any is."""
        return self.first.get("train") or self.first["validation"]


class Tasks:
    """The texts of one bucket. ``partial`` is JSON, which ``merged`` adds up."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, str, dict[str, int], dict[str, str]]] = {}
        self._last: tuple[str, str] = ("", "")  # text and its key: states come episode by episode

    def add(self, text: str | None, group: str, split: str, place: str) -> None:
        if not text:
            return
        if text != self._last[0]:
            self._last = text, short(text)
        key = self._last[1]
        if key not in self._texts:
            self._texts[key] = text[:_KEPT], group[:16], {}, {}
        _, _, states, first = self._texts[key]
        states[split] = states.get(split, 0) + 1
        first[split] = min(place, first.get(split, place))

    def partial(self) -> dict[str, list[Any]]:
        return {key: list(value) for key, value in sorted(self._texts.items())}


def merged(parts: Iterable[Mapping[str, Sequence[Any]]]) -> list[Task]:
    """The distinct texts of all buckets, in the order of their keys."""
    found: dict[str, Task] = {}
    for part in parts:
        for key, values in part.items():
            task = Task(*values)
            found[key] = _together(found[key], task) if key in found else task
    return [task for _, task in sorted(found.items())]


def _together(a: Task, b: Task) -> Task:
    states = Counter(a.states) + Counter(b.states)
    first = {split: min(t.first[split] for t in (a, b) if split in t.first) for split in states}
    return a._replace(states=dict(states), first=first)


def near_tasks(tasks: Sequence[Task]) -> Json:
    """Tasks of validation that are nearly a task of train, and not the same one."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.group, []).append(task)
    known = {split: {g for g, same in groups.items() if any(split in t.states for t in same)} for split in SPLITS}
    ours = sorted(known["validation"] - known["train"])
    theirs = sorted(known["train"])

    def texts(names: Sequence[str]) -> list[str]:
        return [task_words(groups[name][0].text) for name in names]

    pairs = [
        (-similarity, groups[ours[v]][0], groups[theirs[t]][0])
        for v, t, similarity in near(texts(ours), texts(theirs), NEAR)
    ]
    pairs.sort(key=lambda pair: (pair[0], pair[1].text, pair[2].text))
    return {
        "validation": len(ours),  # tasks of validation that train has not
        "near": len(pairs),
        "named": [
            {
                "validation": cut(v.text),
                "train": cut(t.text),
                "similarity": rounded(-less),
                "states": [v.first["validation"], t.place],
            }
            for less, v, t in pairs[:NAMED]
        ],
    }


def cut(text: str) -> str:
    """A task as a finding names it."""
    return text if len(text) <= _TOLD else f"{text[: _TOLD - 1]}…"
