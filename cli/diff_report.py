"""A comparison for a person: `arm diff` and `arm plan` print it alike, on stdout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ..schemas.errors import plain
from . import output

if TYPE_CHECKING:
    from ..registry.diff.model import CardDiff, Change, Diff, Flip, Lines, TableDiff, Verdict

MAX_FLIPS, MAX_EXAMPLES, MAX_CHANGES, MAX_LINES = 10, 3, 4, 20  # shown; --json has more
WIDTH = 60  # characters of an excerpt
_COUNTS = ("added", "removed", "changed", "moved_in", "moved_out", "unchanged")


def show(diff: Diff) -> None:
    """Print what differs: rows, label flips, picks replaced by a review, examples of changed rows, facts, the card."""
    if diff.empty:
        _say("nothing differs")
        return
    _tables(diff.tables.values())
    if diff.flips.total or diff.answers.total:
        _flips(diff)
    if diff.before:
        for table in diff.tables.values():
            _examples(table)
    _facts(diff)
    _card(diff.card, first=diff.before is None)


def _tables(tables: Iterable[TableDiff]) -> None:
    rows, same = [], []
    for table in tables:
        if table.same:
            same.append(f"{table.name} ({table.total.unchanged:,})")
            continue
        for split, counts in table.splits.items():
            rows.append([_line(table.name), split, *(f"{getattr(counts, name):,}" for name in _COUNTS)])
    if rows:
        used = [0, 1, *(n for n in range(2, len(rows[0])) if any(row[n] != "0" for row in rows))]
        columns = ["table", "split", *(name.replace("_", " ") for name in _COUNTS)]
        output.table("rows", [columns[n] for n in used], [[row[n] for n in used] for row in rows])
    if same:
        _say(f"no row differs: {', '.join(map(_line, same))}")


def _flips(diff: Diff) -> None:
    if diff.flips.total:
        _say(f"{_count(diff.flips.total, 'label flip')} (candidates count from 0):")
    for flip in diff.flips.first[:MAX_FLIPS]:
        _say(f"  {_line(flip.label_id)}: {_flip(flip)}")
    _more(diff.flips.total - MAX_FLIPS)
    if diff.answers.total:
        _say(f"{_count(diff.answers.total, 'pick')} replaced by a review (candidates count from 0):")
    for answer in diff.answers.first[:MAX_FLIPS]:
        before, after = ("none" if index is None else index for index in (answer.before, answer.after))
        _say(f"  {_line(answer.label_id)}: {before} -> {after}")
    _more(diff.answers.total - MAX_FLIPS)
    for table in diff.tables.values():
        if (follows := table.follows) is None:
            continue
        total = table.total
        parts = [
            (follows.changed, total.changed + total.moved_in, "changed"),
            (follows.added, total.added, "added"),
            (follows.removed, total.removed, "removed"),
        ]
        if said := [f"{own:,} of {every:,} {what}" for own, every, what in parts if every]:
            _say(f"  rows of {_line(table.name)} that follow from them: {', '.join(said)}")


def _flip(flip: Flip) -> str:
    if flip.before.action == flip.after.action or flip.before.action is None or flip.after.action is None:
        actions = [verdict.action and excerpt(verdict.action) for verdict in (flip.before, flip.after)]
    else:
        actions = list(excerpts(flip.before.action, flip.after.action))
    return f"{_verdict(flip.before, actions[0])} -> {_verdict(flip.after, actions[1])}"


def _verdict(verdict: Verdict, action: str | None) -> str:
    if verdict.selected_index is None:
        return _line(verdict.status)
    status = "" if verdict.status == "ok" else f" ({_line(verdict.status)})"
    return f"{verdict.selected_index}{status}{f' {action}' if action else ''}"


def _examples(table: TableDiff) -> None:
    name = _line(table.name)
    if not table.compared and table.schema[0] and table.schema[1]:
        _say(f"{name}: rows of another schema are other rows; they were not compared")
    if table.fields:
        fields = sorted(table.fields.items(), key=lambda item: (-item[1], item[0]))
        _say(f"{name}, changed rows by field: {', '.join(f'{_line(field)} {rows:,}' for field, rows in fields)}")
    for row in table.changed.first[:MAX_EXAMPLES]:
        _say(f"  {_line(row.id)}")
        _changes(row.changes, "    ", MAX_CHANGES)
    _more(table.changed.total - MAX_EXAMPLES)
    if table.moved.total:
        _say(f"{name}, {_count(table.moved.total, 'row')} in another split:")
        for move in table.moved.first[:MAX_EXAMPLES]:
            besides = f"; also other: {', '.join(move.fields)}" if move.fields else ""
            _say(f"  {_line(move.id)}: {move.before} -> {move.after}{besides}")
        _more(table.moved.total - MAX_EXAMPLES)
    for what, listed in (("added", table.added), ("removed", table.removed)):
        if listed.first:
            shown = ", ".join(map(excerpt, listed.first[:MAX_EXAMPLES]))
            _say(f"{name}, {what}: {shown}{', ...' if listed.total > MAX_EXAMPLES else ''}")


def _facts(diff: Diff) -> None:
    for table in diff.tables.values():
        for what, (before, after) in (("schema", table.schema), ("images", table.images)):
            if before != after and diff.before:
                _say(f"{_line(table.name)} {what}: {excerpt(before)} -> {excerpt(after)}")
    facts = diff.facts
    parts = [facts.identity, facts.prompts, facts.parameters, facts.sources, facts.withdrawn]
    for changes in parts if diff.before else parts[-1:]:
        _changes(changes, "", MAX_LINES)


def _card(card: CardDiff, *, first: bool) -> None:
    if card.note:
        _say(f"the card is {_line(card.note)}")
    if card.words.changed:
        _say("the card, a person's words:")
        _lines(card.words)
    if card.generated.changed and not first:
        count = len(card.generated.lines) + card.generated.left_out
        _say(
            f"the card, generated: {_count(count, 'line')} of a difference{'' if card.words.changed else '; no words'}"
        )


def _lines(part: Lines) -> None:
    for line in part.lines[:MAX_LINES]:
        _say(f"  {_line(line)}")
    _more(len(part.lines) + part.left_out - MAX_LINES)


def _changes(changes: Sequence[Change], indent: str, limit: int) -> None:
    for change in changes[:limit]:
        before, after = excerpts(change.before, change.after)
        _say(f"{indent}{_line(change.field)}: {before} -> {after}")
    _more(len(changes) - limit, indent)


def excerpts(before: Any, after: Any) -> tuple[str, str]:
    """Two values in one line each, from a little before where they begin to differ."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return excerpt(before), excerpt(after)
    pairs = enumerate(zip(before, after, strict=False))
    common = next((place for place, (old, new) in pairs if old != new), min(len(before), len(after)))
    start = max(0, common - 20) if max(len(before), len(after)) > WIDTH else 0
    cut = "…" if start else ""
    first, second = (f"{cut}{excerpt(value[start:])}" for value in (before, after))
    return first, second


def excerpt(value: Any) -> str:
    """A value in one line that cannot steer a terminal, and not longer than about `WIDTH` characters."""
    import orjson

    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return _line(text if len(text) <= WIDTH else f"{text[:WIDTH]}…") or '""'


def _line(text: str) -> str:
    return plain("".join(islice(text, 2_000)).replace("\n", "\\n"))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _more(left: int, indent: str = "  ") -> None:
    if left > 0:
        _say(f"{indent}... and {left:,} more; --json lists more of them")


def _say(text: str) -> None:
    click.echo(plain(text))
