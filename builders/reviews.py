"""What people said of rows: what they drop goes to exclusions, what they keep leaves quarantine, and where they name a
better candidate than a label does, training rows follow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ..schemas.ids import canonical_json, sha256_hex
from ..schemas.store import TABLES
from .ledger import Ledger, Row

SAID = ("item_id", "verdict", "selected_index", "note", "reviewer", "time")  # the id of a review is a hash of these
_ORDER = {table: number for number, table in enumerate(TABLES)}


class _Label(NamedTuple):
    picked: int | None  # by the teacher, 0-based
    candidates: int


class Reviews:
    """What was said of each item. ``verdict`` and ``met`` are told every id that could have been reviewed, and in the
    end `account` says what became of every review.

    ``records`` hold ``row`` (a `review/1`), ``source``, ``line`` and ``declared``; ``elsewhere`` are those of items
    that stand in several buckets and are accounted for in another one.
    """

    def __init__(self, records: Iterable[Row], elsewhere: Iterable[Row] = ()) -> None:
        self._counted = _by_item(records)
        self._records = {**self._counted, **_by_item(elsewhere)}
        self._tables: dict[str, str] = {}  # item -> its table, of items that were met
        self._labels: dict[str, _Label] = {}  # items that are labels

    def met(self, table: str, item_id: str) -> None:
        """There is such an item; where several tables have the id, the first of them counts."""
        if item_id in self._records:
            known = self._tables.get(item_id, table)
            self._tables[item_id] = min(known, table, key=_ORDER.__getitem__)

    def verdict(self, table: str, *item_ids: str, label_id: str | None = None) -> str | None:
        """keep, drop, relabel, or None when nobody decided; the newest where an item has several ids.

        A label that was relabelled with another pick is kept: it waits for nothing. ``label_id``: of the label that
        the item is made of. A pick that was named for it later is what a relabel of the item waited for, and a later
        keep of it is one of its row of selection_sft, which `exclusions` shows under the label's id.
        """
        newest: Row | None = None
        for item_id in item_ids:
            if item_id not in self._records:
                continue
            self.met(table, item_id)
            for record in self._deciding(table, item_id)[-1:]:
                newest = max(newest or record["row"], record["row"], key=_age)
        if newest is None:
            return None
        verdict = "keep" if newest["selected_index"] is not None else str(newest["verdict"])
        later = self._newest_of_label(label_id)
        if later is None or _age(later) < _age(newest):
            return verdict
        if later["selected_index"] is not None:
            return None if verdict == "relabel" else verdict
        return "keep" if later["verdict"] == "keep" and table == "selection_sft" else verdict

    def answer(self, label: Row, candidates: int) -> int | None:
        """The candidate (0-based) that a person put in the place of the label's pick; None where nobody did.

        ``candidates``: how many the label's set has. It has to be asked of a label before a verdict is.
        """
        item_id = label["label_id"]
        self.met("teacher_labels", item_id)
        if item_id not in self._records:
            return None
        self._labels[item_id] = _Label(label["selected_index"], candidates)
        return next((r["row"]["selected_index"] for r in self._deciding("teacher_labels", item_id)[-1:]), None)

    def account(
        self, ledger: Ledger, take: Callable[[Row], None], refuse: Callable[[Row, str], None],
        count: Counter[tuple[str, ...]],
    ) -> None:  # fmt: skip
        """Tell of every review what became of it: ``take`` gets the rows of the table `reviews`, ``refuse`` the records
        that say something impossible, and what. Of an item the newest verdict counts, and every note."""
        for item_id, records in sorted(self._counted.items()):
            table = self._tables.get(item_id)
            taken = 0
            standing: list[Row] = []
            for record in records:
                if standing and _age(standing[-1]["row"]) == _age(record["row"]):
                    self._leave_out(ledger, record, "duplicate_record")
                elif table is not None and (fault := self._fault(record)):
                    refuse(record, fault)
                else:
                    standing.append(record)
            newest = next((r for r in reversed(standing) if r["row"]["verdict"] != "note"), None)
            for record in standing:
                if record is not newest and record["row"]["verdict"] != "note":
                    self._leave_out(ledger, record, "superseded")
                elif table is None:
                    self._leave_out(ledger, record, "no_item")
                else:
                    row = self._row(record, table)
                    ledger.units_in["reviews"] += 1
                    ledger.units_out["reviews"] += 1
                    _count(row, count)
                    taken += 1
                    take(row)
            if taken and table is not None:
                count["reviewed_items", table] += 1

    def _newest_of_label(self, label_id: str | None) -> Row | None:
        if label_id not in self._records:
            return None
        return next((record["row"] for record in self._deciding("teacher_labels", label_id)[-1:]), None)

    def _deciding(self, table: str, item_id: str) -> Sequence[Row]:
        """The verdicts on an item that can be meant, the oldest first. Only a label has a pick to be replaced."""
        return [
            record
            for record in self._records[item_id]
            if record["row"]["verdict"] != "note"
            and (record["row"]["selected_index"] is None or table == "teacher_labels")
            and not self._fault(record)
        ]

    def _fault(self, record: Row) -> str | None:
        """What is wrong with the candidate that a review names, if it names one."""
        index, label = record["row"]["selected_index"], self._labels.get(record["row"]["item_id"])
        if index is None:
            return None
        if label is None:
            table = self._tables.get(record["row"]["item_id"])
            return f"is {index}, and the item is no label but of {table}; let item_id be the label_id of the label"
        if index >= label.candidates:
            last = label.candidates - 1
            return f"is {index}, and the set of the label has the candidates 0 to {last}; name one of them, or none"
        return None

    def _row(self, record: Row, table: str) -> Row:
        """The row of the table `reviews`."""
        said = {name: record["row"][name] for name in SAID}
        label = self._labels.get(said["item_id"])
        return {
            "review_id": sha256_hex(canonical_json(said)),
            **said,
            "item_table": "teacher_labels" if label else table,
            "previous_index": label.picked if label else None,
            "source": record["source"],
        }

    @staticmethod
    def _leave_out(ledger: Ledger, record: Row, reason: str) -> None:
        ledger.units_in["reviews"] += 1
        detail = f"{record['source']['file']}:{record['line']}"
        ledger.exclude("reviews", "reviews", record["row"]["item_id"], reason, detail)


class Host(Protocol):
    """What makes the rows of all tables, as the makers of one see it."""

    reviews: Reviews

    def keep(self, table: str, row: Row) -> None:
        """Take a row; whether it is written may depend on rows to come."""

    def outside(self, table: str, row: Row) -> tuple[str, str] | None:
        """(reason, detail) of a row that the token limits forbid, which ``keep`` excludes."""


def _by_item(records: Iterable[Row]) -> dict[str, list[Row]]:
    """Item -> its reviews, the oldest first."""
    found: dict[str, list[Row]] = {}
    for record in records:
        found.setdefault(record["row"]["item_id"], []).append(record)
    for rows in found.values():
        rows.sort(key=lambda record: (_age(record["row"]), record["source"]["file"], record["line"]))
    return found


def _age(review: Row) -> tuple[str | int, ...]:
    """Sorts the reviews of one item by time, and those of one moment by all that they say."""
    index = review["selected_index"]
    return review["time"], review["reviewer"], review["verdict"], -1 if index is None else index, review["note"]


def _count(row: Row, count: Counter[tuple[str, ...]]) -> None:
    """What the card tells of a review."""
    count["reviews", row["verdict"]] += 1
    count["reviewers", row["reviewer"]] += 1
    if row["selected_index"] is not None:
        before = row["previous_index"]
        became = "given" if before is None else "confirmed" if before == row["selected_index"] else "changed"
        count["answers", became] += 1
