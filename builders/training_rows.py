"""SFT rows and pairs of one bucket, and the removal of what would cross from train into validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..prompts.options import PromptOptions
from ..prompts.render import Prompt, Rendered, StateView, load_prompt, load_prompt_file, rendered_sha256
from ..prompts.view import Unrenderable
from ..schemas.actions import Parsed, View
from . import bt_pairs, selection_sft, teacher_labels
from .ledger import Ledger, Row
from .spec import BuildSpec, PromptSpec
from .writer import TableWriter


def load(spec: PromptSpec) -> Prompt:
    """The declared prompt with its options. Raises ArmError for unknown ids, options, or another digest."""
    options = PromptOptions.from_mapping(spec.options)
    if spec.file:
        return load_prompt_file(*spec.file, options)
    assert spec.id is not None
    return load_prompt(spec.id, options)


class TrainingRows:
    """Makes the rows set by set; ``finish`` writes them to the tables when the whole bucket has been seen."""

    def __init__(
        self, spec: BuildSpec, ledger: Ledger, tables: Mapping[str, TableWriter], statistics: Counter[tuple[str, ...]]
    ) -> None:
        self._spec, self._ledger, self._tables, self._count = spec, ledger, tables, statistics
        self._selection = load(spec.selection.prompt) if spec.selection else None
        self._scalar = load(spec.pairs.prompt) if spec.pairs else None
        self._views: dict[tuple[str, str], StateView | Unrenderable] = {}
        self._shown: tuple[str, Rendered, str] | None = None
        self._held: dict[str, list[Row]] = {"selection_sft": [], "bt_pairs": []}  # validation rows
        self._seen: dict[tuple[str, str], set[bytes]] = {}  # (table, split) -> rendered digests

    def add(
        self, labels: Sequence[Row], set_row: Row, parsed: Sequence[Parsed], view: View, state: Row, dialect: str
    ) -> None:
        """Make the rows of one candidate set. ``dialect`` is that of the candidates' source."""
        for label, reason in teacher_labels.choose(labels, parsed, self._spec.labels):
            if self._spec.selection:
                self._ledger.units_in["selection_sft"] += 1
                if outcome := reason or self._select(label, set_row, parsed, state, dialect, view.space):
                    self._ledger.exclude("selection_sft", "teacher_labels", label["label_id"], outcome)
            if self._spec.pairs and reason is None:
                self._compare(label, set_row, parsed, view, state, dialect)

    def finish(self, train_screenshots: set[str]) -> None:
        """Write the validation rows, except those that share prompt and pictures with train, or whose screenshot is
        one of ``train_screenshots`` (hex digests)."""
        for table, rows in self._held.items():
            train = self._seen.get((table, "train"), set())
            for row in rows:
                crossing = bytes.fromhex(row["rendered_sha256"]) in train
                if crossing or any(p.removeprefix("sha256:") in train_screenshots for p in row["images"]):
                    detail = "same prompt and pictures in train" if crossing else "same screenshot in train"
                    source = "teacher_labels" if table == "selection_sft" else "comparisons"
                    self._ledger.exclude(table, source, _unit_id(table, row), "crosses_split", detail)
                else:
                    self._write(table, row)
        self._held.clear()

    def seen(self) -> dict[tuple[str, str], bytes]:
        """Distinct rendered digests of what was written, per (table, split), joined."""
        return {key: b"".join(sorted(values)) for key, values in self._seen.items()}

    def _select(
        self, label: Row, set_row: Row, parsed: Sequence[Parsed], state: Row, dialect: str, space: str
    ) -> str | None:
        """Make the SFT row of a usable label; return the reason if there is none."""
        assert self._selection is not None
        assert self._spec.selection is not None
        try:
            view = self._view(self._selection, state, dialect, space)
            row = selection_sft.build(label, set_row, parsed, self._selection, view, self._spec.selection)
        except Unrenderable as error:
            return error.reason
        if isinstance(row, str):
            return row
        self._keep("selection_sft", row)
        return None

    def _compare(
        self, label: Row, set_row: Row, parsed: Sequence[Parsed], view: View, state: Row, dialect: str
    ) -> None:
        assert self._scalar is not None
        assert self._spec.pairs is not None
        prompt, ledger = self._scalar, self._ledger

        def shown() -> tuple[StateView, Rendered, str]:
            state_view = self._view(prompt, state, dialect, view.space)
            if self._shown is None or self._shown[0] != state["state_id"]:
                rendered = prompt.scalar(state_view)
                self._shown = state["state_id"], rendered, rendered_sha256(rendered.messages, rendered.images)
            return state_view, *self._shown[1:]

        ledger.units_in["bt_pairs"] += len(parsed) - 1
        made = 0
        try:
            for comparison, reason, row in bt_pairs.build(
                label, set_row, parsed, view, self._spec.pairs, prompt, shown
            ):
                made += 1
                self._count["comparisons", comparison.pair_type] += 1
                self._count["relations", comparison.relation] += 1
                if row is not None:
                    self._keep("bt_pairs", row)
                else:
                    assert reason is not None
                    loser = f"{label['label_id']}|{comparison.rejected_index}"
                    ledger.exclude("bt_pairs", "comparisons", loser, reason, status=comparison.status)
        except Unrenderable as error:
            # The state cannot be shown, so that every comparison not yet accounted for falls out with it.
            others = [index for index in range(len(parsed)) if index != label["selected_index"]]
            for index in others[made:]:
                ledger.exclude("bt_pairs", "comparisons", f"{label['label_id']}|{index}", error.reason, error.message)

    def _view(self, prompt: Prompt, state: Row, dialect: str, space: str) -> StateView:
        key = (prompt.sha256, f"{space}\n{state['state_id']}")
        view = self._views.get(key)
        if view is None:
            if len(self._views) > 64:  # sets come sorted by state: only the newest states are asked for again
                self._views.clear()
            try:
                view = prompt.state(state, dialect, space)
            except Unrenderable as error:
                view = error
            self._views[key] = view
        if isinstance(view, Unrenderable):
            raise view
        return view

    def _keep(self, table: str, row: Row) -> None:
        if row["split"] == "validation":
            self._held[table].append(row)
        else:
            self._write(table, row)

    def _write(self, table: str, row: Row) -> None:
        self._seen.setdefault((table, row["split"]), set()).add(bytes.fromhex(row["rendered_sha256"]))
        self._ledger.units_out[table] += 1
        self._count[table, row["split"]] += 1
        if table == "bt_pairs":
            self._count["pairs", row["pair_type"]] += 1
        else:
            picked = row["completion"][-1]["content"][-1]["text"]
            self._count["shown_slot", picked[picked.rindex(":") + 1 : -1].strip()] += 1
            self._count["shown_size", str(len(row["order"]))] += 1
        self._tables[table].add(row)


def _unit_id(table: str, row: Row) -> str:
    return row["label_id"] if table == "selection_sft" else f"{row['label_id']}|{row['rejected_index']}"
