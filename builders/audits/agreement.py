"""Whether labels agree: over draws of one state, and of one teacher with itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from ...schemas.actions import Parsed, View, relation
from .counts import NAMED, Counts, Json, part, share

Row = Mapping[str, Any]


def add_draws(counts: Counts, draws: Sequence[tuple[frozenset[str], str]]) -> None:
    """The draws of one state, each as (its actions, the picked one): pairs of draws whose two picks both have."""
    if len(draws) < 2:
        return
    meets = Counter((pick, other) for actions, pick in draws for other in actions)  # (pick, an action of its set)
    picks = Counter(pick for _, pick in draws)
    for n in picks.values():
        counts["consistency", "agree"] += n * (n - 1) // 2
    for a, b in combinations(picks, 2):
        counts["consistency", "differ"] += meets[a, b] * meets[b, a]


def add_repeats(counts: Counts, labels: Sequence[Row], parsed: Sequence[Parsed], view: View) -> None:
    """The labels of one set: pairs of picks of one teacher that was asked with one prompt."""
    if len(labels) < 2:
        return
    asked: dict[tuple[Any, ...], list[int]] = {}
    for label in labels:
        if label["status"] == "ok":
            who = (label["teacher"] or "-", label["prompt_id"], label["prompt_sha256"])
            asked.setdefault(who, []).append(label["selected_index"])
    for (teacher, *_), picks in asked.items():
        for a, b in combinations(picks, 2):
            counts["repeats", teacher, "pairs"] += 1
            how = relation(parsed[a], parsed[b], view)
            counts["repeats", teacher, "exact"] += how == "identical"
            counts["repeats", teacher, "equivalent"] += how in ("identical", "near_coordinates")


def report(counts: Counts) -> Json:
    agree, differ = counts["consistency", "agree"], counts["consistency", "differ"]
    repeats = part(counts, "repeats")
    teachers = sorted({teacher for teacher, _ in repeats}, key=lambda t: (-repeats[t, "pairs"], t))
    return {
        "draws": {"pairs": agree + differ, "same": agree, "share": share(agree, agree + differ)},
        "repeats": {teacher: _repeats(part(repeats, teacher)) for teacher in teachers[:NAMED]},
    }


def _repeats(found: Counts) -> Json:
    pairs, exact, equivalent = found["pairs",], found["exact",], found["equivalent",]
    return {
        "pairs": pairs,
        "exact": exact,
        "equivalent": equivalent,
        "exact_share": share(exact, pairs),
        "equivalent_share": share(equivalent, pairs),
    }
