"""Whether there was anything to choose: alternatives that do the same, and picks that another candidate equals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ...schemas.actions import Parsed, View, relation
from .counts import Counts, Json, share


def add_set(counts: Counts, parsed: Sequence[Parsed], view: View) -> None:
    """One candidate set: are there two actions, and two that differ by more than a near point?"""
    counts["choice", "sets"] += 1
    first, others = parsed[0], [p for p in parsed if p.key != parsed[0].key]
    if not others:
        counts["choice", "one_action"] += 1
    elif all(_near(first, p, view) for p in others):  # which it rarely is
        pairs = combinations({p.key: p for p in others}.values(), 2)
        counts["choice", "near_only"] += all(_near(a, b, view) for a, b in pairs)


def equivalents(parsed: Sequence[Parsed], picked: int, view: View) -> str:
    """For each candidate a letter: ``s``, the pick's action; ``n``, near_coordinates to it; ``o``, another one."""
    pick, known = parsed[picked], {parsed[picked].key: "s"}
    for p in parsed:
        if p.key not in known:
            known[p.key] = "n" if _near(pick, p, view) else "o"
    return "".join([known[p.key] for p in parsed])


def _near(a: Parsed, b: Parsed, view: View) -> bool:
    # Calls of two kinds are near in no case, which is seen faster here.
    same = bool(a.calls and b.calls) and a.calls[0].name == b.calls[0].name
    return same and relation(a, b, view) == "near_coordinates"


def add_pick(counts: Counts, kinds: str) -> None:
    """One usable label, by the ``equivalents`` of its pick."""
    counts["equivalent", f"{'same' if kinds.count('s') > 1 else ''} {'near' if 'n' in kinds else ''}"] += 1


def report(counts: Counts) -> Json:
    sets, one, near = (counts["choice", name] for name in ("sets", "one_action", "near_only"))
    both, same, close, neither = (counts["equivalent", how] for how in ("same near", "same ", " near", " "))
    labels = both + same + close + neither
    return {
        "no_choice": {
            "sets": sets,
            "one_action": one,  # sets with fewer than two distinct actions
            "near_only": near,  # two or more, all within near_coordinates of each other
            "share": share(one + near, sets),
        },
        "equivalent_picks": {
            "labels": labels,
            "same": both + same,  # another candidate has the pick's action
            "near": both + close,  # another action is near_coordinates to it
            "share": share(labels - neither, labels),
        },
    }
