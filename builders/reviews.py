"""Verdicts of people on rows: what they drop goes to exclusions, what they keep leaves quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .ledger import Ledger, Row


class Reviews:
    """The newest verdict on each item. ``verdict`` is asked with the id of every row that could have been reviewed.

    ``elsewhere`` are reviews of items that stand in several buckets; they are accounted for in another one.
    """

    def __init__(self, records: Iterable[Row], elsewhere: Iterable[Row] = ()) -> None:
        self._counted = _by_item(records)
        self._rows = {**self._counted, **_by_item(elsewhere)}
        self._used: set[str] = set()

    def verdict(self, *item_ids: str) -> str | None:
        """keep, drop, relabel, or None when nobody looked at the item; the newest where it has several ids."""
        newest: Row | None = None
        for item_id in item_ids:
            if rows := self._rows.get(item_id):
                self._used.add(item_id)
                newest = max(newest or rows[-1]["row"], rows[-1]["row"], key=_age)
        return None if newest is None else str(newest["verdict"])

    def account(self, ledger: Ledger) -> None:
        """Count every review: the newest of an item that was met came out, the others are excluded."""
        for item_id, rows in sorted(self._counted.items()):
            ledger.units_in["reviews"] += len(rows)
            for record in rows[:-1]:
                ledger.exclude("reviews", "reviews", item_id, "superseded", _place(record))
            if item_id in self._used:
                ledger.units_out["reviews"] += 1
            else:
                ledger.exclude("reviews", "reviews", item_id, "no_item", _place(rows[-1]))


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
        rows.sort(key=lambda record: _age(record["row"]))
    return found


def _age(review: Row) -> tuple[str, ...]:
    return review["time"], review["reviewer"], review["verdict"]


def _place(record: Row) -> str:
    return f"{record['source']['file']}:{record['line']}"
