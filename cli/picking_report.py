"""What `arm select` and `arm score` tell a person of an answer, or of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import output

if TYPE_CHECKING:
    from ..inference.bulk import Lacking, Summary
    from ..inference.request import Request

_WIDEST = 100  # characters of an action


def one(request: Request, row: Mapping[str, Any]) -> None:
    """The candidates of a request as a table, with scores or votes, and which one was chosen by whom."""
    scores, votes = row["scores"], Counter(vote["selected_index"] for vote in row["votes"])
    columns = ["candidate (0-based)", *(["score"] * bool(scores)), *(["votes"] * bool(row["votes"])), "chosen"]
    rows = []
    for candidate in request.set_row["candidates"]:
        index = candidate["index"]
        cells = [f"{index}  {_short(candidate['action'] or candidate['response'])}"]
        cells += [f"{scores[index]:.4f}"] if scores else []
        cells += [str(votes[index] or "")] if row["votes"] else []
        rows.append([*cells, "<--" if index == row["selected_index"] else ""])
    output.table(output.one_line(f"{row['id']}: {_outcome(row)}"), columns, rows)
    for number, vote in enumerate(row["votes"]):
        if vote["status"] != "ok":
            reply = f": {_short(vote['reply'])}" if vote["reply"] else ""
            output.note(output.one_line(f"order {number}: {vote['status']} ({vote['detail']}){reply}"))


def many(done: Summary, lacking: Lacking) -> None:
    """How many rows there are of each outcome, and the first ones without what was asked for."""
    counted = ", ".join(f"{count:,} {status}" for status, count in done.statuses.most_common())
    output.note(f"{done.rows:,} rows: {counted}")
    others = {by: count for by, count in done.chosen_by.items() if by not in ("model", "nobody")}
    for by, count in sorted(others.items()):
        words = {
            "only": "hold one action only",
            "first": "got their first candidate",
            "scalar": "the scalar model chose",
        }
        output.note(f"{words[by]}: {count:,}")
    if earlier := done.rows - done.asked:
        output.note(f"answered by an earlier run: {earlier:,}")
    for row in done.first[lacking]:
        place = f"line {row['line']}" if row["line"] is not None else f"row {row['row_index']}"
        output.note(output.one_line(f"  {place} ({row['id'] or 'no id'}): {_outcome(row)}"))
    if missing := done.lacking[lacking]:
        what = "a pick" if lacking == "selected_index" else "scores"
        output.note(f"without {what}: {missing:,} of {done.rows:,}")


def _outcome(row: Mapping[str, Any]) -> str:
    detail = f" ({row['detail']})" if row["detail"] else ""
    by = {"first": ", so the first candidate", "scalar": ", so what the scalar model picks"}
    return f"{row['status']}{detail}{by.get(row.get('chosen_by') or '', '')}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."
