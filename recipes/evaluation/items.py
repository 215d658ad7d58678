"""What is asked: candidate sets of a split that have a reference, for a scalar model pairs, too; others by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...inference.orders import several
from ...inference.rendering import Renderer, Shown
from ...prompts.render import Prompt
from ...prompts.view import Unrenderable
from ...schemas.actions import Parsed, View, relation
from ...schemas.built import BuiltTables
from ...schemas.errors import ArmError
from ...schemas.ids import hash_order
from . import baselines
from .references import References, parsed_candidates

Row = Mapping[str, Any]
Progress = Callable[[str, int, int], None]
NEEDED = ("states", "candidate_sets", "teacher_labels")
_STATE = ("state_id", "task_group", "split")
SEVERAL = "several"  # verb of an action whose calls have more than one


@dataclass(frozen=True)
class Item:
    """One candidate set. ``orders``: each a list of candidates (0-based), the one that training showed first.

    facts: what every prediction of it repeats (`eval_prediction/1`).
    """

    set_row: Row
    state: Row
    orders: Sequence[Sequence[int]]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """One row of bt_pairs; ``facts`` as of an item."""

    row: Row
    facts: Mapping[str, Any]


@dataclass
class Items:
    """left_out, pairs_left_out: those that are not asked, by reason. teacher: whose picks are the references."""

    sets: list[Item] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    pairs_left_out: Counter[str] = field(default_factory=Counter)
    teacher: str | None = None

    def facts(self) -> list[Mapping[str, Any]]:
        """Of everything that is asked, in the order of the predictions."""
        return [*(item.facts for item in self.sets), *(pair.facts for pair in self.pairs)]


class Pictures:
    """Bytes of pictures by their sha256, in a folder: those of a split may be more than memory holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, reference: str, data: bytes) -> None:
        path = self._folder / reference.removeprefix("sha256:")
        if not path.exists():
            path.write_bytes(data)

    def get(self, references: Sequence[str]) -> list[bytes]:
        """Raises ArmError for one that the build names and does not hold."""
        found = []
        for reference in references:
            path = self._folder / reference.removeprefix("sha256:")
            if not path.exists():
                raise ArmError(
                    f"the picture {reference} is in none of the tables that are read",
                    next_command="images: embed   # of states, in registry.yaml",
                )
            found.append(path.read_bytes())
        return found


@dataclass(frozen=True)
class Reading:
    """How items are read. ``trained``: task groups that the model was trained on, which are not asked about."""

    dataset: Path
    split: str
    kind: str  # selection_arm or scalar
    prompt: Prompt | None  # None: of rows that came ready-made, of which only pairs can be asked
    prompt_sha256: str | None
    orders: int
    max_items: int | None
    trained: Collection[str]
    pictures: Pictures
    progress: Progress = lambda *_: None

    def read(self) -> Items:
        """Raises ArmError for a build without the tables, and for one that shows a set otherwise than the renderer."""
        whole = BuiltTables.of(self.dataset, self.progress, "reading")
        held = whole.of_split(self.split)
        scored = self.kind == "scalar" and held.has("bt_pairs")
        missing = [name for name in NEEDED if not whole.has(name)]
        if missing and not scored:
            raise ArmError(
                f"has no table {', '.join(missing)}", where=str(self.dataset),
                next_command=f"tables: {{{missing[0]}: {{}}}}   # of the dataset, in registry.yaml",
            )  # fmt: skip
        items = Items()
        renderer = Renderer(self.prompt, whole.identity) if self.prompt else None
        sets = {row["set_id"]: row for row in held.rows("candidate_sets")} if renderer and not missing else {}
        pairs = list(held.rows("bt_pairs", self.pictures.keep)) if scored else []
        wanted = {row["state_id"] for row in (*sets.values(), *pairs)} - {None}
        found = whole.some("states", "state_id", wanted, self.pictures.keep) if whole.has("states") else ()
        states = {row["state_id"]: row for row in found}
        if renderer and not missing:
            self._sets(renderer, held, sets, states, items)
        self._pairs(renderer, pairs, states, items)
        return items

    def _sets(
        self, renderer: Renderer, held: BuiltTables, sets: Mapping[str, Row], states: Mapping[str, Row], items: Items
    ) -> None:
        references = References.of(held, "selection_sft" if self.kind == "selection_arm" else "bt_pairs")
        shown = Shown.of(held.identity)
        teachers: set[str | None] = set()
        for set_id in sorted(sets, key=lambda name: hash_order("item", name)):
            found = self._item(sets[set_id], states, references, renderer, shown)
            if isinstance(found, tuple) and self.max_items is not None and len(items.sets) >= self.max_items:
                found = "over_max_items"
            if isinstance(found, str):
                items.left_out[found] += 1
            else:
                items.sets.append(found[0])
                teachers.add(found[1])
        items.sets.sort(key=lambda item: (item.set_row["state_id"], item.set_row["set_id"]))
        items.teacher = ", ".join(sorted(name for name in teachers if name is not None)) or None

    def _item(
        self, set_row: Row, states: Mapping[str, Row], references: References, renderer: Renderer, shown: Shown
    ) -> tuple[Item, str | None] | str:
        """The item of a set and the teacher of its reference, or the reason why there is none."""
        state = states.get(set_row["state_id"])
        if state is None:
            return "no_state"
        if state["task_group"] in self.trained:
            return "task_in_train"
        parsed = parsed_candidates(set_row)
        view = View(set_row["space"], state["width"], state["height"], state["elements"])
        reference = references.of_set(set_row, parsed, view)
        if isinstance(reference, str):
            return reference
        if set_row["distinct_actions"] < 2:
            return "single_distinct_action"
        row = references.rows.get(set_row["set_id"])
        order = list(row["order"]) if row is not None and row["order"] else shown.order(set_row)
        try:
            if self.kind == "selection_arm":
                rendered = renderer.selection(state, set_row, order)
                if row is not None:
                    renderer.refuse_other(rendered, row, row["row_id"])
            else:
                rendered = renderer.scalar(state, set_row)
        except Unrenderable as error:
            return error.reason
        self.pictures.get(rendered.images)
        facts = _facts(state, parsed, view, reference.index, thoughts=renderer.prompt.options.candidate_reasoning)
        facts |= {"item_id": set_row["set_id"], "unit": "set", "repeats": dict(reference.repeats)}
        orders = (
            list(several(set_row["set_id"], order, self.orders))
            if self.kind == "selection_arm"
            else [range(len(parsed))]
        )
        return Item(set_row, state, orders, facts), reference.teacher

    def _pairs(self, renderer: Renderer | None, pairs: Sequence[Row], states: Mapping[str, Row], items: Items) -> None:
        asked = {item.set_row["set_id"]: item for item in items.sets}
        for row in sorted(pairs, key=lambda row: hash_order("item", row["pair_id"])):
            item = asked.get(row["set_id"])
            state = states.get(row["state_id"])
            if row["prompt_sha256"] != self.prompt_sha256:
                reason = "other_prompt"
            elif state is not None and state["task_group"] in self.trained:
                reason = "task_in_train"
            elif self.max_items is not None and (
                item is None if row["set_id"] is not None else len(items.pairs) >= self.max_items
            ):
                reason = "over_max_items"
            else:
                verb = item.facts["verb"] if item else None
                if item and renderer:
                    renderer.refuse_other(renderer.scalar(item.state, item.set_row), row, row["pair_id"])
                items.pairs.append(Pair(row, _pair_facts(row, state, verb)))
                continue
            items.pairs_left_out[reason] += 1
        items.pairs.sort(key=lambda pair: (pair.row["state_id"] or "", pair.row["pair_id"]))


def trained_groups(dataset: Path, split: str) -> set[str]:
    """Task groups that a split of a build holds. Raises ArmError for a build without states."""
    return groups_of(BuiltTables.of(dataset, lambda *_: None, "reading"), split)


def groups_of(tables: BuiltTables, split: str) -> set[str]:
    """The same of tables wherever they lie."""
    if not tables.has("states"):
        raise ArmError("has no table states, which says what the tasks are", where=str(tables.folder))
    return {row["task_group"] for row in tables.columns("states", _STATE) if row["split"] == split}


def _facts(state: Row, parsed: Sequence[Parsed], view: View, reference: int, *, thoughts: bool) -> dict[str, Any]:
    keys = [candidate.key for candidate in parsed]
    action_index = [keys.index(key) for key in keys]
    picks = baselines.picks(state["task"], parsed, action_index, thoughts=thoughts)
    return {
        **_of_state(state),
        "verb": _verb(parsed[reference]),
        "reference_index": reference,
        "action_index": action_index,
        "near_index": [
            index for index, candidate in enumerate(parsed)
            if relation(parsed[reference], candidate, view) == "near_coordinates"
        ],
        "picks": [{"name": name, "index": index} for name, index in zip(baselines.PICKERS, picks, strict=True)],
    }  # fmt: skip


def _pair_facts(row: Row, state: Row | None, verb: str | None) -> dict[str, Any]:
    return {
        **(_of_state(state) if state else {"state_id": row["state_id"], "host": None, "turn": None}),
        "item_id": row["pair_id"],
        "unit": "pair",
        "verb": verb,
        "reference_index": 0,
        "action_index": [0, 1],
        "near_index": [],
        "picks": [],
        "repeats": {"pairs": 0, "exact": 0, "equivalent": 0},
    }


def _of_state(state: Row) -> dict[str, Any]:
    return {"state_id": state["state_id"], "host": state["host"], "turn": state["turn"]}


def _verb(parsed: Parsed) -> str | None:
    verbs = {call.verb for call in parsed.calls}
    return verbs.pop() if len(verbs) == 1 else SEVERAL if verbs else None
