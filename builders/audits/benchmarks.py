"""Tasks of declared benchmarks among ours: the same text, the same words, or nearly the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...schemas.errors import ArmError
from ...schemas.ids import sha256_hex, task_words
from ...schemas.jsonl import JsonError, loads
from ..spec import BenchmarkSpec
from .counts import NAMED, Json, rounded
from .tasks import Task, cut

FIELDS = ("task", "intent", "confirmed_task", "question", "instruction")  # of a record, the first that it has
HOW = ("exact", "normalised", "near")
_RUN = 3  # words


def read(benchmark: BenchmarkSpec) -> list[str]:
    """The tasks of a list: lines of text, or as its name says an array (`.json`) or lines (`.jsonl`) of JSON.

    An item is the text or a record that names it in one of FIELDS. Raises ArmError for a file that changed since it was
    declared, that is none of these, or holds no task.
    """
    try:
        data = benchmark.path.read_bytes()
    except OSError as error:
        raise ArmError(f"the tasks of {benchmark.name} cannot be read: {error.strerror}", where=str(benchmark.path)) \
            from error  # fmt: skip
    if sha256_hex(data) != benchmark.sha256:
        raise ArmError(f"the tasks of {benchmark.name} changed while they were read", where=str(benchmark.path))
    tasks = [text for place, item in _items(data, benchmark) if (text := _task(item, place, benchmark).strip())]
    if not tasks:
        raise ArmError(f"the tasks of {benchmark.name}: the file holds none", where=str(benchmark.path))
    return tasks


def match(ours: Sequence[Task], benchmark: BenchmarkSpec, theirs: Sequence[str]) -> Json:
    """Which of our tasks the benchmark has, each by the closest way in which it has it."""
    exact = set(theirs)
    same = {task_words(text): text for text in sorted(set(theirs), reverse=True)}
    listed = sorted(same)  # distinct by words
    runs = [_runs(words) for words in listed]
    index: dict[str, list[int]] = {}
    for number, found in enumerate(runs):
        for run in found:
            index.setdefault(run, []).append(number)
    matches: list[tuple[int, float, Task, str]] = []
    for task in ours:
        words = task_words(task.text)
        if task.text.strip() in exact:
            matches.append((0, 1.0, task, task.text.strip()))
        elif words in same:
            matches.append((1, 1.0, task, same[words]))
        elif nearest := _nearest(_runs(words), runs, index, benchmark.near):
            matches.append((2, nearest[0], task, same[listed[nearest[1]]]))
    matches.sort(key=lambda m: (m[0], -m[1], m[2].text, m[2].place))
    states: Counter[str] = Counter()
    for _, _, task, _ in matches:
        states.update(task.states)
    return {
        "name": benchmark.name,
        "tasks": len(listed),  # of the benchmark, distinct by their words
        **{how: sum(m[0] == place for m in matches) for place, how in enumerate(HOW)},  # distinct texts of ours
        "states": {split: states[split] for split in ("train", "validation")},  # that have one of these tasks
        "named": [
            {
                "ours": cut(task.text),
                "theirs": cut(text),
                "how": HOW[how],
                "similarity": rounded(similarity),
                "state": task.place,
            }
            for how, similarity, task, text in matches[:NAMED]
        ],
    }


def _items(data: bytes, benchmark: BenchmarkSpec) -> Iterator[tuple[str, Any]]:
    """(where, item): of `.json` the elements of its array, of `.jsonl` its lines as JSON, of all else its lines."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArmError(f"the tasks of {benchmark.name} are not UTF-8: {error}", where=str(benchmark.path)) from error
    form = benchmark.path.suffix.lower()
    if form == ".json":
        listed = _json(text, "", benchmark)
        if not isinstance(listed, list):
            raise ArmError(f"the tasks of {benchmark.name} are no array", where=str(benchmark.path))
        yield from ((f"[{number}]", item) for number, item in enumerate(listed))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f":{number}", _json(line, f":{number}", benchmark) if form == ".jsonl" else line


def _json(text: str, place: str, benchmark: BenchmarkSpec) -> Any:
    try:
        return loads(text.encode())
    except JsonError as error:
        message = f"the tasks of {benchmark.name} are not JSON: {error}"
        raise ArmError(message, where=f"{benchmark.path}{place}") from error


def _task(item: Any, place: str, benchmark: BenchmarkSpec) -> str:
    if isinstance(item, Mapping):
        item = next((item[name] for name in FIELDS if name in item), None)
    if not isinstance(item, str):
        message = f"the tasks of {benchmark.name}: a task is a text, or a record with {', '.join(FIELDS)}"
        raise ArmError(message, where=f"{benchmark.path}{place}")
    return item


def _runs(words: str) -> frozenset[str]:
    """All runs of three words; fewer words are one run."""
    parts = words.split()
    return frozenset(" ".join(parts[i : i + _RUN]) for i in range(max(1, len(parts) - _RUN + 1)))


def _nearest(
    own: frozenset[str], runs: Sequence[frozenset[str]], index: Mapping[str, Sequence[int]], near: float
) -> tuple[float, int] | None:
    """(similarity, number) of the most similar of ``runs``, the first of several, if it is similar enough."""
    shared = Counter(number for run in own for number in index.get(run, ()))
    found = ((both / (len(own) + len(runs[number]) - both), -number) for number, both in shared.items())
    best = max(found, default=None)
    return (best[0], -best[1]) if best and best[0] >= near else None
