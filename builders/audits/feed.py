"""What a bucket tells the audits while it is built, each thing at one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...schemas.actions import Parsed, View
from ...schemas.images import CheckedImage
from ...schemas.store import ID_FIELDS
from .. import selection_sft, teacher_labels
from ..scene import Scene
from ..spec import BuildSpec
from ..views import load
from . import agreement, baselines, choices, conflicts, distributions
from .counts import Counts, Json
from .screenshots import look
from .tables import Tables
from .tasks import Tasks

Row = dict[str, Any]


class Audits:
    """The audits of one bucket. ``partial`` is what `report` adds up over all of them, as JSON."""

    def __init__(self, spec: BuildSpec) -> None:
        self._spec = spec
        self._counts: Counts = Counter()
        self._told = distributions.Distributions()
        self._tables, self._tasks = Tables(), Tasks()
        self._looks: dict[str, tuple[str, str]] = {}  # screenshot -> look, least id of what shows it
        self._refused: set[str] = set()  # screenshots without a look
        self._named: list[list[str]] = []  # contradicting labels
        self._outcomes: dict[str, str] = {}  # by label whose row is not written yet
        # Hosts whose screenshots may resemble one of validation, None for all: a look costs a decoded picture.
        self.hosts: frozenset[str | None] | None = None
        self._compared = spec.split.validation > 0 or "bench_items" in spec.tables  # else pictures meet no others
        selection = spec.selection
        self._merged = selection is not None and selection.duplicates == "merge"
        self._thoughts = selection is None or load(selection.prompt).options.candidate_reasoning

    # -- what is built ----------------------------------------------------------------------------------------------

    def state(self, row: Row, content: str, image: CheckedImage | None) -> None:
        """A state; ``content`` stands for all that a prompt could show of it."""
        self._tables.add_state(row, content)
        self._tasks.add(row["task"], row["task_group"], row["split"], row["state_id"])
        self._counts["hosts", row["host"] or "-"] += 1
        if image and (self.hosts is None or row["host"] in self.hosts):
            self._picture(image, row["state_id"])

    def compared(self, states: Iterable[Row]) -> None:
        """The last states of episodes that are compared; most stand in other buckets."""
        for state in states:
            self._tables.add_unit(state)

    def ready(self, table: str, row: Row, task: str | None, group: str, images: Iterable[CheckedImage]) -> None:
        """A training row that came ready-made; its group decided its split."""
        unit = row[ID_FIELDS[table]]
        self._tables.add_ready(unit, row.get("state_id"), group)
        if table != "bench_items":
            self._tasks.add(task, group, row["split"], unit)
        for image in images:
            self._picture(image, unit)

    def candidate_set(self, row: Row, parsed: Sequence[Parsed], view: View) -> None:
        choices.add_set(self._counts, parsed, view)
        self._told.candidates([c["response"] for c in row["candidates"]], parsed)

    def judged(self, scenes: Sequence[tuple[Sequence[Row], Scene]]) -> dict[str, str]:
        """The labels of all candidate sets whose states look the same, before rows are made of them.

        Returns which of them go to quarantine: label id -> detail.
        """
        picks: list[conflicts.Pick] = []
        draws: dict[str, list[tuple[frozenset[str], str]]] = {}
        for labels, scene in scenes:
            asked = [scene.answered.get(label["label_id"], label) for label in labels]  # what teachers said
            agreement.add_repeats(self._counts, asked, scene.parsed, scene.view)
            for label, reason in teacher_labels.choose(labels, scene.parsed, self._spec.labels, scene.answered):
                if reason is None:
                    pick = self._usable(label, scene)
                    picks.append(pick)
                    draws.setdefault(label["state_id"], []).append((pick.actions, pick.key))
        for same in draws.values():
            agreement.add_draws(self._counts, same)
        found = conflicts.conflicting(picks)
        conflicts.add(self._counts, found)
        self._named = conflicts.least([*self._named, *conflicts.examples(found)])
        if self._spec.labels.conflicting == "keep":
            return {}
        return {pick.label_id: conflicts.detail(pick, group) for group in found for pick in group}

    def row(self, table: str, row: Row) -> None:
        """A training row that was written."""
        self._tables.add_row(table, row, row[ID_FIELDS[table]])
        self._told.row(table, row)
        if table == "selection_sft":
            if row["order"] is not None:
                self._shown(row)
            if outcome := self._outcomes.pop(row["label_id"], None):
                self._counts["baselines", "selection_sft", row["split"], outcome] += 1

    def partial(self) -> Json:
        return {
            "counts": [[list(path), n] for path, n in sorted((self._counts + self._told.counts()).items())],
            "tables": self._tables.partial(),
            "tasks": self._tasks.partial(),
            "looks": {screenshot: list(found) for screenshot, found in sorted(self._looks.items())},
            "conflicts": self._named,
        }

    # -- one thing --------------------------------------------------------------------------------------------------

    def _picture(self, image: CheckedImage, unit: str) -> None:
        key = image.sha256[:16]
        if not self._compared or key in self._refused:
            return
        if known := self._looks.get(key):
            self._looks[key] = known[0], min(known[1], unit)
        elif (found := look(image)) is None:
            self._refused.add(key)
        else:
            self._looks[key] = found, unit

    def _usable(self, label: Row, scene: Scene) -> conflicts.Pick:
        """A label that would feed training rows."""
        counts, parsed, picked = self._counts, scene.parsed, label["selected_index"]
        counts["slots", "sampled", str(len(parsed)), str(picked)] += 1
        self._told.pick(parsed[picked])
        kinds = choices.equivalents(parsed, picked, scene.view)
        choices.add_pick(counts, kinds)
        actions = frozenset([p.key for p in parsed])
        shown = None
        if self._merged and len(actions) < len(parsed):
            shown = sorted({p.key: i for i, p in reversed(list(enumerate(parsed)))}.values())  # the first of each
        sampled, as_shown = baselines.outcomes(scene.state["task"], parsed, kinds, shown, thoughts=self._thoughts)
        counts["baselines", "labels", sampled] += 1
        if self._spec.selection:
            self._outcomes[label["label_id"]] = as_shown
        return conflicts.Pick(label["label_id"], actions, parsed[picked].key, parsed[picked].action)

    def _shown(self, row: Row) -> None:
        self._counts["slots", "shown", str(len(row["order"])), str(selection_sft.shown_slot(row) - 1)] += 1
