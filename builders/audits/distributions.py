"""How long things are, what candidates and picks do, and where: counted over all, told in bounded lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...schemas.actions import Parsed
from .counts import NAMED, Counts, Json, part, rounded, tree

Row = Mapping[str, Any]
# Columns of messages, by what their characters are told as.
_MESSAGES = ("prompt", "completion", "chosen", "rejected")


def add_candidates(counts: Counts, responses: Sequence[str], parsed: Sequence[Parsed]) -> None:
    for response, p in zip(responses, parsed, strict=True):
        _length(counts, "candidate", len(response))
        counts["verbs", "candidates", _verb(p)] += 1


def add_pick(counts: Counts, picked: Parsed) -> None:
    counts["verbs", "picks", _verb(picked)] += 1


def add_row(counts: Counts, table: str, row: Row) -> None:
    for column in _MESSAGES:
        if messages := row.get(column):
            _length(counts, f"{table}.{column}", _characters(messages))
    if table == "bt_pairs":
        counts["pair_types", row["split"], row["pair_type"]] += 1


def report(counts: Counts) -> Json:
    lengths = sorted({path[0] for path in part(counts, "lengths")})
    return {
        "lengths": {name: _lengths(part(counts, "lengths", name)) for name in lengths},
        "verbs": tree(part(counts, "verbs")),
        "pair_types": tree(part(counts, "pair_types")),
        "hosts": _hosts(part(counts, "hosts")),
    }


def _verb(p: Parsed) -> str:
    if len(p.calls) == 1:
        return p.calls[0].verb
    return "several" if p.calls else "unparsed"


def _characters(messages: Sequence[Row] | str) -> int:
    if isinstance(messages, str):
        return len(messages)
    return sum(len(block.get("text") or "") for message in messages for block in message["content"])


def bin_of(length: int) -> int:
    """The least length of the bin: four bins between a power of two and the next."""
    shift = max(0, length.bit_length() - 3)
    return length >> shift << shift


def _length(counts: Counts, name: str, length: int) -> None:
    counts["lengths", name, "bins", str(bin_of(length))] += 1
    counts["lengths", name, "sum", ""] += length


def _lengths(found: Counts) -> Json:
    bins = sorted((int(least), n) for (kind, least), n in found.items() if kind == "bins")
    total = sum(n for _, n in bins)
    return {
        "n": total,
        "mean": rounded(found["sum", ""] / total),
        "median": _quantile(bins, total, 0.5),
        "p95": _quantile(bins, total, 0.95),
        "bins": {str(least): n for least, n in bins},  # least length of the bin -> how many
    }


def _quantile(bins: Sequence[tuple[int, int]], total: int, level: float) -> int:
    """The least length of the bin in which the share ``level`` is reached."""
    below = 0
    for least, n in bins:
        below += n
        if below >= level * total:
            return least
    return bins[-1][0]


def _hosts(found: Counts) -> Json:
    """The hosts of most states, and how many others there are with how many states."""
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    others = ordered[NAMED:]
    return {
        "distinct": len(ordered),
        "top": [{"host": host, "states": n} for (host,), n in ordered[:NAMED]],
        "others": {"hosts": len(others), "states": sum(n for _, n in others)},
    }
