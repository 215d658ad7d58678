"""SFT rows and pairs of one bucket, and the removal of what would cross from train into validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..prompts.view import Unrenderable
from ..schemas.digests import for_schema
from ..schemas.store import ID_FIELDS, TABLES
from . import actor_sft, pointwise_scores, selection_sft, teacher_labels, trajectory_pairs
from .audits import Audits
from .bt_pairs import Pairs
from .ledger import Ledger, Row
from .pool import Pool
from .reviews import Reviews
from .scene import Scene
from .spec import READY, BuildSpec
from .splits import split_of
from .token_limits import Outside, TokenLimits
from .trajectory_pairs import Episode
from .views import Views, load
from .writer import TableWriter

# Table of training rows -> what its units are called in `exclusions`.
SOURCES: Mapping[str, str] = {
    "selection_sft": "teacher_labels",
    "bt_pairs": "comparisons",
    "pointwise_scores": "candidate_scores",
    "actor_sft": "choices",
    "reserve": "teacher_labels",
    "bench_items": "bench_items",
}


class TrainingRows:
    """Makes the rows set by set; ``finish`` writes them to the tables when the whole bucket has been seen."""

    def __init__(
        self, spec: BuildSpec, ledger: Ledger, tables: Mapping[str, TableWriter], statistics: Counter[tuple[str, ...]],
        folder: Path, pictures: Mapping[str, bytes],
    ) -> None:  # fmt: skip
        """``folder`` is that of the partition; ``pictures`` are those of the bucket, by ``sha256:<hex>``."""
        self._spec, self._ledger, self._tables, self._count = spec, ledger, tables, statistics
        self._selection = load(spec.selection.prompt) if spec.selection else None
        episodes = spec.pairs.trajectories if spec.pairs else None
        self._trajectory = load(episodes.prompt) if episodes else None
        self._pointwise = load(spec.pointwise.prompt) if spec.pointwise else None
        self._views = Views()
        self._pairs = None
        if spec.pairs:
            prompt, pool = load(spec.pairs.prompt), Pool(spec, folder)
            self._pairs = Pairs(spec, prompt, self._views, pool, ledger, statistics)
        self._held: dict[str, list[Row]] = {table: [] for table in SOURCES}  # validation rows
        self._seen: dict[tuple[str, str], set[bytes]] = {}  # (table, split) -> rendered digests
        self._pictures: set[str] = set()  # of rows of train, where screenshots are kept apart
        # The legacy rule leaks and is asked for to reproduce what leaked: nothing is taken out.
        self._separate = spec.split.rule == "task_group"
        self._limits = TokenLimits(spec.tokens, pictures) if spec.tokens else None
        self._ready = spec.kinds.intersection(READY)
        self._made: dict[tuple[str, str], bytes] = {}  # (table, id) -> digest, of rows of tables that also come ready
        self.reviews = Reviews(())
        self.audits = Audits(spec)

    def add(self, labels: Sequence[Row], scene: Scene, quarantined: Mapping[str, str]) -> None:
        """Make the rows of one candidate set. ``quarantined``: labels that contradict others, and how."""
        taken_out = self.reviewed("states", scene.state["state_id"])
        taken_out = taken_out or self.reviewed("candidate_sets", scene.set_row["set_id"])
        usable: list[tuple[Row, str | None]] = []  # label, the reason why a person took it out
        for label, outcome in teacher_labels.choose(labels, scene.parsed, self._spec.labels, scene.answered):
            contradicts = quarantined.get(label["label_id"])
            reason = outcome or (contradicts and "conflicting_pick")
            said = self.reviewed("teacher_labels", label["label_id"]) or taken_out
            if reason is None:
                reason = said
                usable.append((label, reason))
            if self._spec.selection:
                self._ledger.units_in["selection_sft"] += 1
                if without := reason or self._select(label, scene):
                    detail, status = (contradicts, "quarantined") if contradicts else ("", "dropped")
                    self._ledger.exclude("selection_sft", "teacher_labels", label["label_id"], without, detail, status)
            if self._spec.actor_sft and self._spec.actor_sft.selected_by == "teacher" and reason is None:
                self._choose(label, scene)
        if self._pairs:
            self._pairs.add(self, scene, usable, taken_out)
        if self._pointwise and scene.scores and not taken_out:
            self._score(scene)
        if self._spec.actor_sft and self._spec.actor_sft.selected_by == "scores" and scene.scores and not taken_out:
            self._choose(None, scene)

    def settle(self) -> None:
        """All sets of the states that were added have been seen."""
        if self._pairs:
            self._pairs.settle(self)

    def reviewed(self, table: str, row_id: str, label_id: str | None = None) -> str | None:
        """The reason why a person took a row out, if somebody did. It is asked of rows that fall out anyway, too: a
        review of one of them has met its item. ``label_id`` as in `Reviews.verdict`."""
        verdict = self.reviews.verdict(table, row_id, label_id=label_id)
        return f"review_{verdict}" if verdict in ("drop", "relabel") else None

    def finish(self, train_screenshots: set[str]) -> None:
        """Write the validation rows, except those that share prompt and pictures with train, or whose screenshot is
        one of ``train_screenshots`` (hex digests) or stands in a row of train where screenshots are kept apart."""
        train_screenshots = train_screenshots | self._pictures
        for table, rows in self._held.items():
            train = self._seen.get((table, "train"), set())
            for row in rows:
                crossing = bytes.fromhex(row["rendered_sha256"]) in train
                if crossing or any(p.removeprefix("sha256:") in train_screenshots for p in row["images"]):
                    detail = "same prompt and pictures in train" if crossing else "same screenshot in train"
                    self._ledger.exclude(table, SOURCES[table], _unit_id(table, row), "crosses_split", detail)
                else:
                    self._write(table, row)
        self._held.clear()

    def seen(self) -> dict[tuple[str, str], bytes]:
        """Distinct rendered digests of what was written, per (table, split), joined."""
        return {key: b"".join(sorted(values)) for key, values in self._seen.items()}

    def _select(self, label: Row, scene: Scene) -> str | None:
        """Make the SFT row of a usable label; return the reason if there is none."""
        assert self._selection is not None
        assert self._spec.selection is not None
        try:
            view = self._views.state(self._selection, scene)
            row = selection_sft.build(label, scene.set_row, scene.parsed, self._selection, view, self._spec.selection)
        except Unrenderable as error:
            return error.reason
        if isinstance(row, str):
            return row
        if reason := self.reviewed("selection_sft", row["row_id"], label["label_id"]):
            return reason
        self.keep("selection_sft", row)
        return None

    def _score(self, scene: Scene) -> None:
        """Make the pointwise rows of a scored set."""
        assert self._pointwise is not None
        prompt, ledger = self._pointwise, self._ledger
        units = sum(map(len, scene.scores.values()))
        ledger.units_in["pointwise_scores"] += units
        made = 0
        try:
            for score_id, reason, row in pointwise_scores.build(
                scene, prompt, lambda: self._views.scalar(prompt, scene)
            ):
                made += 1
                said = self.reviewed("pointwise_scores", score_id)
                if outcome := reason or said:
                    ledger.exclude("pointwise_scores", "candidate_scores", score_id, outcome)
                elif row is not None:
                    self.keep("pointwise_scores", row)
        except Unrenderable as error:  # and with it all that was not yet accounted for
            for number in range(made, units):
                unit = f"{scene.set_row['set_id']}|{number}"
                ledger.exclude("pointwise_scores", "candidate_scores", unit, error.reason, error.message)

    def compare_episodes(self, episodes: Sequence[Episode]) -> None:
        """Make the pairs of whole episodes of one task."""
        pairs = self._spec.pairs
        assert pairs is not None
        assert pairs.trajectories is not None
        assert self._trajectory is not None
        self.audits.compared(episode.state for episode in episodes)
        group = episodes[0].state["task_group"]
        split = split_of(group, self._spec.split) if self._separate else "train"
        for pair_id, reason, row in trajectory_pairs.build(
            episodes, split, self._trajectory, pairs.trajectories, lambda row: not self.outside("bt_pairs", row)
        ):
            self._ledger.units_in["bt_pairs"] += 1
            said = self.reviewed("bt_pairs", pair_id)
            if outcome := reason or said:
                self._ledger.exclude("bt_pairs", "comparisons", pair_id, outcome)
            elif row is not None:
                self.keep("bt_pairs", row)

    def _choose(self, label: Row | None, scene: Scene) -> None:
        """Make the actor's target of one choice, and its control."""
        assert self._spec.actor_sft is not None
        ledger = self._ledger
        try:
            for choice, reason, row in actor_sft.build(label, scene, self._spec.actor_sft):
                ledger.units_in["actor_sft"] += 1
                said = self.reviewed("actor_sft", choice, label["label_id"] if label else None)
                if outcome := reason or said:
                    ledger.exclude("actor_sft", "choices", choice, outcome)
                elif row is not None:
                    self.keep("actor_sft", row)
        except Unrenderable as error:
            ledger.units_in["actor_sft"] += 1
            unit = scene.set_row["set_id"] if label is None else label["label_id"]
            ledger.exclude("actor_sft", "choices", unit, error.reason, error.message)

    def keep(self, table: str, row: Row) -> None:
        """Write a row of train; hold one of validation back until all of train has been seen. One that the token limits
        forbid is excluded."""
        if table in self._ready:
            self._made[table, row[ID_FIELDS[table]]] = _digest(table, row)
        if outside := self.outside(table, row):
            self._ledger.exclude(table, SOURCES[table], _unit_id(table, row), *outside)
        elif row["split"] == "validation" and self._separate:
            self._held[table].append(row)
        else:
            self._write(table, row)

    def repeats(self, table: str, row: Row) -> bool | None:
        """Whether a row of this id that was made or taken before is the same but for its split; None without one."""
        known = self._made.get((table, row[ID_FIELDS[table]]))
        return None if known is None else known == _digest(table, row)

    def outside(self, table: str, row: Row) -> Outside | None:
        """(reason, detail) of a row that the token limits forbid."""
        return self._limits.outside(table, row) if self._limits else None

    def _write(self, table: str, row: Row) -> None:
        if self._spec.split.isolate_screenshots and row["split"] == "train":
            self._pictures.update(picture.removeprefix("sha256:") for picture in row["images"])
        self._seen.setdefault((table, row["split"]), set()).add(bytes.fromhex(row["rendered_sha256"]))
        self._ledger.units_out[table] += 1
        self._count[table, row["split"]] += 1
        if table == "bt_pairs":
            self._count["pairs", row["pair_type"]] += 1
            self._count["label_source", row["label_source"]] += 1
            self._count["negative_source", row["negative_source"]] += 1
            if row["margin"] is not None:
                self._count["margins", f"{min(int(min(row['margin'], 1) * 10), 9) / 10:.1f}"] += 1
        elif table == "selection_sft" and row["order"] is not None:
            self._count["shown_slot", str(selection_sft.shown_slot(row))] += 1
            self._count["shown_size", str(len(row["order"]))] += 1
        self.audits.row(table, row)
        if table in self._tables:  # a source of ready-made rows may be read without its table being published
            self._tables[table].add(row)


def _digest(table: str, row: Row) -> bytes:
    return for_schema(TABLES[table]).digest({**row, "split": "train"})


def _unit_id(table: str, row: Row) -> str:
    """The unit that became the row, as the account of its table names it."""
    if table == "selection_sft":
        return str(row["label_id"] or row["row_id"])
    if table == "bt_pairs" and row["unit"] == "step" and row["prompt_id"] is not None:
        return str(row["pair_id"]).removesuffix(f"|{row['prompt_id']}")
    return str(row[ID_FIELDS[table]])
