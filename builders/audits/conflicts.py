"""Picks that contradict each other: states that look the same, equal alternatives, and another action picked."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .counts import NAMED, Counts, Json, part


class Pick(NamedTuple):
    """A usable label of one candidate set."""

    label_id: str
    actions: frozenset[str]  # action keys of the set
    key: str  # of the picked action
    action: str  # its text


def conflicting(picks: Sequence[Pick]) -> list[list[Pick]]:
    """The groups of contradicting labels among those of states that look the same, each sorted by id."""
    if len(picks) < 2:
        return []
    groups: dict[frozenset[str], list[Pick]] = {}
    for pick in picks:
        groups.setdefault(pick.actions, []).append(pick)
    return [sorted(group) for group in groups.values() if len({pick.key for pick in group}) > 1]


def add(counts: Counts, found: Sequence[Sequence[Pick]]) -> None:
    for group in found:
        counts["conflicts", "groups"] += 1
        counts["conflicts", "labels"] += len(group)


def examples(found: Iterable[Sequence[Pick]]) -> list[list[str]]:
    """Two contradicting label ids of each group."""
    return [[group[0].label_id, next(p for p in group if p.key != group[0].key).label_id] for group in found]


def detail(pick: Pick, group: Sequence[Pick]) -> str:
    """Whom a label contradicts, for its exclusion."""
    other = next(p for p in group if p.key != pick.key)
    return f"picks {pick.action[:80]}; {other.label_id} picks {other.action[:80]} for an equal state and alternatives"


def least(named: Iterable[list[str]]) -> list[list[str]]:
    """The first of them: whatever buckets they come from, the same ones."""
    return heapq.nsmallest(NAMED, named)


def report(counts: Counts, named: Iterable[list[str]], handling: str) -> Json:
    found = part(counts, "conflicts")
    return {
        "handling": handling,  # keep, or quarantine: its labels feed no training row
        "groups": found["groups",],  # of labels for equal states and alternatives
        "labels": found["labels",],  # in those groups
        "named": [{"label": label, "contradicts": other} for label, other in least(named)],
    }
