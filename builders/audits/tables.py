"""What rows of validation share with rows of train, in the states and in each table of training rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...schemas.ids import sha256_hex
from .counts import NAMED, Json
from .screenshots import alike

Row = Mapping[str, Any]
Facts = dict[str, set[str]]  # fact -> distinct values, as the first 16 hex digits of their hash
SPLITS = ("train", "validation")
OF_ROWS = ("state", "episode", "task", "screenshot")  # facts of training rows; states have content and host, too


def short(text: str) -> str:
    """16 hex digits for a text: enough that no two of some millions meet."""
    return sha256_hex(text)[:16]


class Tables:
    """Distinct values per table, split and fact. ``partial`` is JSON, which ``merged`` adds up."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Facts] = {}
        self._rows: dict[tuple[str, str], tuple[set[str | None], set[str]]] = {}  # (table, split) -> units, pictures
        # A unit is a state, by its id, or a ready-made row: its state, episode and task.
        self._units: dict[str | None, tuple[str | None, str | None, str]] = {}

    def add_state(self, row: Row, content: str) -> None:
        """A state. ``content`` stands for all that a prompt could show of it."""
        _, episode, task = self.add_unit(row)
        facts = self._found.setdefault(("states", row["split"]), {})
        screenshot, host = row["screenshot_sha256"], row["host"]
        for fact, value in (
            ("content", content),
            ("episode", episode),
            ("task", task),
            ("screenshot", screenshot and screenshot[:16]),
            ("host", host and short(host)),
        ):
            if value:
                facts.setdefault(fact, set()).add(value)

    def add_unit(self, row: Row) -> tuple[str, str, str]:
        """A state that rows may name; of another bucket, where it is counted, unless `add_state` takes it."""
        unit = short(row["state_id"]), short(row["episode_id"]), row["task_group"][:16]
        self._units[row["state_id"]] = unit
        return unit

    def add_ready(self, row_id: str, state_id: str | None, group: str) -> None:
        """A row that came ready-made: of its state nothing is known but, perhaps, the id."""
        self._units[row_id] = state_id and short(state_id), None, group[:16]

    def add_row(self, table: str, row: Row, row_id: str) -> None:
        """A training row that was written."""
        key = table, row["split"]
        if key not in self._rows:
            self._rows[key] = set(), set()
        units, pictures = self._rows[key]
        units.add(row_id if row_id in self._units else row.get("state_id"))
        pictures.update(row["images"])

    def partial(self) -> list[list[Any]]:
        """[table, split, fact, values], in order."""
        for (table, split), (units, pictures) in self._rows.items():
            facts = self._found.setdefault((table, split), {})
            known = [self._units[unit] for unit in units if unit in self._units]
            for place, fact in enumerate(OF_ROWS[:3]):
                facts[fact] = {value for unit in known if (value := unit[place])}
            facts["screenshot"] = {picture.removeprefix("sha256:")[:16] for picture in pictures}
        self._rows.clear()
        return [
            [table, split, fact, sorted(values)]
            for (table, split), facts in sorted(self._found.items())
            for fact, values in sorted(facts.items())
            if values
        ]


def merged(parts: Iterable[Sequence[Sequence[Any]]]) -> dict[str, dict[str, Facts]]:
    """Table -> split -> fact -> distinct values of all buckets."""
    found: dict[str, dict[str, Facts]] = {}
    for part in parts:
        for table, split, fact, values in part:
            found.setdefault(table, {}).setdefault(split, {}).setdefault(fact, set()).update(values)
    # Items of a bench are only ever validation: what they share with training rows of any kind is their leak.
    if "bench_items" in found:
        train: Facts = found["bench_items"].setdefault("train", {})
        for table, splits in found.items():
            if table != "states":
                for fact, values in splits.get("train", {}).items():
                    train.setdefault(fact, set()).update(values)
    return found


def overlap(splits: Mapping[str, Facts], looks: Mapping[str, Sequence[str]]) -> tuple[Json, list[tuple[str, str, int]]]:
    """Per fact, the distinct values of validation and how many of them train has, too; and the screenshots alike.

    ``looks`` are (look, id of a state or row) by screenshot. A screenshot alike is (of validation, of train, bits).
    """
    train, validation = (splits.get(split, {}) for split in SPLITS)
    made: Json = {}
    for fact, values in sorted(validation.items()):
        made[fact] = {"validation": len(values), "both": len(values & train.get(fact, set()))}
    shown, known = (facts.get("screenshot", set()) for facts in (validation, train))
    queries = sorted(s for s in shown - known if s in looks)
    others = sorted(s for s in known if s in looks)
    found = [
        (queries[q], others[k], bits)
        for q, k, bits in alike([looks[s][0] for s in queries], [looks[s][0] for s in others])
    ]
    if "screenshot" in made:
        made["screenshot"]["near"] = len(found)
    return made, found


def named(found: Sequence[tuple[str, str, int]], looks: Mapping[str, Sequence[str]]) -> list[Json]:
    """The first screenshots alike, with ids of ours."""
    pairs = sorted((looks[v][1], looks[t][1], bits) for v, t, bits in found)
    return [{"validation": v, "train": t, "bits": bits} for v, t, bits in pairs[:NAMED]]
