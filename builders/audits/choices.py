"""Whether there was anything to choose: alternatives that do the same, and picks that another candidate equals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ...schemas.actions import Parsed, View, relation
from .counts import Counts, Json, share


def add_set(counts: Counts, parsed: Sequence[Parsed], view: View) -> None:
    """One candidate set: are there two actions, and two that differ by more than a near point?"""
    counts["choice", "sets"] += 1
    distinct = list({p.key: p for p in parsed}.values())
    if len(distinct) < 2:
        counts["choice", "one_action"] += 1
    elif all(relation(a, b, view) == "near_coordinates" for a, b in combinations(distinct, 2)):
        counts["choice", "near_only"] += 1


def equivalents(parsed: Sequence[Parsed], picked: int, view: View) -> list[str]:
    """For each candidate ``same`` (the pick's action), ``near`` (near_coordinates to it) or ``other``."""
    pick, known = parsed[picked], {parsed[picked].key: "same"}
    for p in parsed:
        if p.key not in known:
            known[p.key] = "near" if relation(pick, p, view) == "near_coordinates" else "other"
    return [known[p.key] for p in parsed]


def add_pick(counts: Counts, kinds: Sequence[str]) -> None:
    """One usable label, by the ``equivalents`` of its pick."""
    counts["equivalent", "labels"] += 1
    same, near = kinds.count("same") > 1, "near" in kinds
    counts["equivalent", "same"] += same
    counts["equivalent", "near"] += near
    counts["equivalent", "any"] += same or near


def report(counts: Counts) -> Json:
    sets, labels = counts["choice", "sets"], counts["equivalent", "labels"]
    one, near = counts["choice", "one_action"], counts["choice", "near_only"]
    alike = counts["equivalent", "any"]
    return {
        "no_choice": {
            "sets": sets,
            "one_action": one,  # sets with fewer than two distinct actions
            "near_only": near,  # two or more, all within near_coordinates of each other
            "share": share(one + near, sets),
        },
        "equivalent_picks": {
            "labels": labels,
            "same": counts["equivalent", "same"],  # another candidate has the pick's action
            "near": counts["equivalent", "near"],  # another action is near_coordinates to it
            "share": share(alike, labels),
        },
    }
