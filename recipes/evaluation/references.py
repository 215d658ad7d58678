"""Which of a set's labels is the reference, as the build declared it, and why a set has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from ...prompts.replies import parse_selection
from ...schemas.actions import Parsed, View, calls_from_json, relation
from ...schemas.built import BuiltTables
from ...schemas.ids import heads

Row = Mapping[str, Any]
SAME = ("identical", "near_coordinates")  # relations of two actions that count as the same choice
_LABEL = ("label_id", "set_id", "teacher", "repeat", "prompt_id", "prompt_sha256", "selected_index", "status")
_ROW = ("row_id", "label_id", "set_id", "order", "prompt_sha256", "rendered_sha256", "completion")


@dataclass(frozen=True)
class Reference:
    """index: the picked candidate (0-based). repeats: as `eval_prediction/1` has them."""

    index: int
    teacher: str | None
    repeats: Mapping[str, int]


@dataclass
class References:
    """The labels of a split, and what the build made of them. Raises ArmError for a build that cannot be read.

    rows: of selection_sft, by set. taken_out: label -> why a person, a contradiction or the split took it out.
    """

    rule: str
    teacher: str | None
    labels: dict[str, list[Row]] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    taken_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: BuiltTables, stage: str) -> References:
        """``stage``: table whose crossings from train count, that of the model's kind."""
        said = tables.identity["parameters"].get("labels") or {}
        found = cls(said.get("rule", "first"), said.get("teacher"))
        for label in tables.columns("teacher_labels", _LABEL):
            found.labels.setdefault(label["set_id"], []).append(label)
        if tables.has("selection_sft"):
            for row in tables.columns("selection_sft", _ROW):
                if row["set_id"] is not None:
                    found.rows[row["set_id"]] = row
        if tables.has("exclusions"):
            for row in tables.columns("exclusions", ("stage", "source_id", "reason")):
                found._exclude(row, stage)
        return found

    def _exclude(self, row: Row, stage: str) -> None:
        reason = row["reason"]
        if reason == "crosses_split" and row["stage"] == stage:  # a pair's id begins with that of its label
            for label_id in heads(row["source_id"]):
                self.taken_out.setdefault(label_id, reason)
        elif row["stage"] == "selection_sft" and (reason == "conflicting_pick" or reason.startswith("review_")):
            self.taken_out[row["source_id"]] = reason

    def of_set(self, set_row: Row, parsed: Sequence[Parsed], view: View) -> Reference | str:
        """The reference of a set, or the reason why it has none."""
        labels = sorted(self.labels.get(set_row["set_id"], ()), key=lambda row: (row["repeat"], row["label_id"]))
        chosen = self._chosen(set_row, labels, parsed)
        if isinstance(chosen, str):
            return chosen
        if reason := self.taken_out.get(chosen["label_id"]):
            return reason
        index = self._picked(set_row, chosen, parsed)
        return Reference(index, chosen["teacher"], _repeats(labels, chosen, parsed, view))

    def _chosen(self, set_row: Row, labels: Sequence[Row], parsed: Sequence[Parsed]) -> Row | str:
        """The label that counts: the one that the build made a row of; else by its rule."""
        row = self.rows.get(set_row["set_id"])
        if row is not None and (made := [label for label in labels if label["label_id"] == row["label_id"]]):
            return made[0]
        usable, reasons = [], []
        for label in labels:
            if self.teacher is not None and label["teacher"] != self.teacher:
                reasons.append("other_teacher")
            elif label["status"] != "ok":
                reasons.append(label["status"])
            elif parsed[label["selected_index"]].parse_error is not None:
                reasons.append("pick_unparsed")
            else:
                usable.append(label)
        if not usable:
            return next((reason for reason in reasons if reason != "other_teacher"), (*reasons, "no_label")[0])
        if self.rule == "majority":
            votes = Counter(parsed[label["selected_index"]].key for label in usable)
            (key, lead), *others = votes.most_common()
            if others and others[0][1] == lead:
                return "no_majority"
            return next(label for label in usable if parsed[label["selected_index"]].key == key)
        return usable[0]

    def _picked(self, set_row: Row, label: Row, parsed: Sequence[Parsed]) -> int:
        """The label's pick; where a person answered for it, the row that was made of it says the other one."""
        index = label["selected_index"]
        row = self.rows.get(set_row["set_id"])
        if row is not None and row["label_id"] == label["label_id"] and row["order"]:
            text = row["completion"][-1]["content"][-1]["text"]
            place = parse_selection(text, len(row["order"])).selected
            if place is not None and (index is None or parsed[row["order"][place - 1]].key != parsed[index].key):
                return int(row["order"][place - 1])
        return int(index)


def parsed_candidates(set_row: Row) -> list[Parsed]:
    """The candidates of a `candidate_sets` row as relations compare them."""
    return [
        Parsed(c["thought"], c["action"], calls_from_json(c["action_json"]), c["parse_error"], c["action_key"],
               c["action_json"])
        for c in set_row["candidates"]
    ]  # fmt: skip


def _repeats(labels: Iterable[Row], chosen: Row, parsed: Sequence[Parsed], view: View) -> dict[str, int]:
    """Pairs of usable answers of one teacher to one question, and how many of them agree."""

    def asked(label: Row) -> tuple[Any, ...]:
        return label["teacher"], label["prompt_id"], label["prompt_sha256"]

    same = [label for label in labels if label["status"] == "ok" and asked(label) == asked(chosen)]
    found = [relation(parsed[a["selected_index"]], parsed[b["selected_index"]], view) for a, b in combinations(same, 2)]
    return {"pairs": len(found), "exact": found.count("identical"), "equivalent": sum(how in SAME for how in found)}
