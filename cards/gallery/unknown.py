"""Errors of a choice that a build cannot answer: what was asked for, and what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from ...schemas.built import BuiltTables
from ...schemas.errors import ArmError
from ...schemas.store import ID_FIELDS
from ...schemas.validate import nearest
from .choice import BASE, ROW_TABLES, STAGES, Choice

_COMPARED = 200  # ids, those that begin most alike: comparing takes the product of the lengths


def unknown_ids(tables: BuiltTables, ids: Sequence[str]) -> ArmError:
    """Some of ``ids`` name nothing that the page could show; each is told with the nearest id that there is."""
    told = []
    for one in ids[:5]:
        close = _nearest(tables, one)
        told.append(f"{one!r}{f' (did you mean {close!r}?)' if close else ''}")
    more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
    return ArmError(f"no item has the id {', '.join(told)}{more}", where=str(tables.folder))


def nothing_matches(tables: BuiltTables, choice: Choice) -> ArmError:
    """No unit passes the filters of the choice."""
    ledger = tables.identity["ledger"]
    reasons = sorted({reason for stage in STAGES for reason in ledger.get(stage, {}).get("excluded", {})})
    rows = [table for table in ROW_TABLES if tables.has(table)]
    held = rows or [table for table in BASE if tables.has(table)][:1]
    known = f"tables: {', '.join(held)}" + (f"; reasons: {', '.join(reasons)}" if reasons else "")
    asked = [
        *(f"table {one}" for one in choice.tables),
        *([f"split {choice.split}"] if choice.split else []),
        *(f"reason {one}" for one in choice.reasons),
        *(f"id {one}" for one in choice.ids),
    ]
    said = f"nothing to look at with {', '.join(asked)}; it has {known}" if asked else "nothing to look at"
    shown = "; states, sets and labels are shown with the rows that are made of them"
    return ArmError(said + (shown if rows and set(BASE).intersection(choice.tables) else ""), where=str(tables.folder))


def nothing_fits(tables: BuiltTables, left_out: Mapping[str, int], choice: Choice) -> ArmError:
    """No unit of the sample became an item."""
    told = ", ".join(f"{n:,} {why}" for why, n in sorted(left_out.items()))
    return ArmError(
        f"nothing can be shown: {told}",
        where=str(tables.folder),
        next_command=f"--budget {max(1, choice.budget // 500_000)}   # megabytes",
    )


def _nearest(tables: BuiltTables, wanted: str) -> str | None:
    """The id most like ``wanted`` of all that an item could be asked by."""
    best: list[tuple[int, str]] = []
    for table in filter(tables.has, (*ROW_TABLES, *BASE)):
        for row in tables.columns(table, [ID_FIELDS[table]]):
            one = row[ID_FIELDS[table]]
            same = takewhile(lambda pair: pair[0] == pair[1], zip(wanted, one, strict=False))
            best.append((-sum(1 for _ in same), one))
            if len(best) > 4 * _COMPARED:
                best = sorted(best)[:_COMPARED]
    return nearest(wanted, dict.fromkeys(one for _, one in sorted(best)[:_COMPARED]))
