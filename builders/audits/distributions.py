"""How long things are, what candidates and picks do, and where: counted over all, told in bounded lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...schemas.actions import Parsed
from .counts import NAMED, Counts, Json, part, rounded, tree

Row = Mapping[str, Any]
_COLUMNS = ("prompt", "completion", "chosen", "rejected")  # of messages, where a table has them


class Distributions:
    """What one bucket counts; ``counts`` hands it over. Called for every row, so that nothing is made twice."""

    def __init__(self) -> None:
        self._responses: Counter[int] = Counter()  # candidates by length in characters
        self._verbs: dict[str, Counter[str]] = {"candidates": Counter(), "picks": Counter()}
        self._columns: dict[str, list[tuple[str, Counter[int]]]] = {}  # table -> its columns with rows by length
        self._pair_types: Counter[tuple[str, str]] = Counter()
        self._last: dict[str, tuple[Any, int]] = {}  # messages and their length, by column

    def candidates(self, responses: Iterable[str], parsed: Iterable[Parsed]) -> None:
        lengths, verbs = self._responses, self._verbs["candidates"]
        for response in responses:
            lengths[len(response)] += 1
        for p in parsed:
            verbs[_verb(p)] += 1

    def pick(self, picked: Parsed) -> None:
        self._verbs["picks"][_verb(picked)] += 1

    def row(self, table: str, row: Row) -> None:
        columns = self._columns.get(table)
        if columns is None:
            columns = self._columns[table] = [(name, Counter()) for name in _COLUMNS if name in row]
        for column, lengths in columns:
            messages, last = row[column], self._last.get(column)
            if messages is None:
                continue
            if last is None or messages is not last[0]:  # pairs of a label share the prompt and the chosen side
                last = self._last[column] = messages, _characters(messages)
            lengths[last[1]] += 1
        if table == "bt_pairs":
            self._pair_types[row["split"], row["pair_type"]] += 1

    def counts(self) -> Counts:
        made: Counts = Counter()
        named = {f"{table}.{column}": n for table, columns in self._columns.items() for column, n in columns}
        for name, lengths in ({"candidate": self._responses} | named).items():
            for length, n in lengths.items():
                made["lengths", name, "bins", str(bin_of(length))] += n
                made["lengths", name, "sum", ""] += length * n
        for whose, verbs in self._verbs.items():
            made.update({("verbs", whose, verb): n for verb, n in verbs.items()})
        made.update({("pair_types", *key): n for key, n in self._pair_types.items()})
        return made


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
    total = 0
    for message in messages:
        for block in message["content"]:
            total += len(block.get("text") or "")
    return total


def bin_of(length: int) -> int:
    """The least length of the bin: four bins between a power of two and the next."""
    shift = max(0, length.bit_length() - 3)
    return length >> shift << shift


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
