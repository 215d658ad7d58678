"""Which comparisons become pairs: by the relation of the two actions, what a person said, and a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import isinf
from typing import Any, NamedTuple

from ..schemas.actions import Parsed, View, pair_type, relation
from ..schemas.ids import hash_order
from .spec import PairSpec

Verdict = Callable[[str], str | None]  # id of a comparison -> keep, drop, relabel, or None
_DIGITS = 9  # of a gap: 0.55 - 0.5 is 0.05, not the 0.050000000000000044 of binary fractions


class Comparison(NamedTuple):
    """A better action against a worse one: kept as a pair, or excluded with a reason and status.

    id: the unit of the account; the pair's id is this and the prompt's.
    rank: the order in which a budget is spent, lowest first.
    """

    id: str
    chosen_index: int  # 0-based
    rejected_index: int | None  # 0-based; None: not sampled in this set
    relation: str  # "" when there is no other action
    pair_type: str
    reason: str | None = None  # None: kept
    status: str = "dropped"  # of the exclusion: dropped or quarantined
    rank: tuple[Any, ...] = ()
    margin: float | None = None
    detail: str = ""


def nobody(_: str) -> str | None:
    """The verdict where nobody looked."""
    return None


def ruled(found: str, rules: Mapping[str, str], verdict: str | None) -> tuple[str | None, str]:
    """(reason, status) of a comparison whose actions have the relation ``found``; a verdict to keep lifts quarantine
    only, because no person can make two equal actions differ."""
    if verdict in ("drop", "relabel"):
        return f"review_{verdict}", "quarantined" if verdict == "relabel" else "dropped"
    rule = "drop" if found == "identical" else rules.get(found, "keep")
    if rule == "keep" or (rule == "quarantine" and verdict == "keep"):
        return None, "dropped"
    return found, "quarantined" if rule == "quarantine" else "dropped"


def selected(
    label_id: str, selected_index: int, parsed: Sequence[Parsed], view: View, rules: Mapping[str, str],
    verdict: Verdict = nobody,
) -> list[Comparison]:  # fmt: skip
    """Return one comparison per other candidate, in sampled order.

    Rules by relation first; then a loser whose action an earlier kept loser has is a duplicate. The rank is a hash of
    label and action, so that a budget does not depend on the sampled order.
    """
    chosen = parsed[selected_index]
    found: list[Comparison] = []
    losers: dict[str, int] = {}  # action key -> first index
    for index, other in enumerate(parsed):
        if index == selected_index:
            continue
        name, unit = relation(chosen, other, view), f"{label_id}|{index}"
        reason, status = ruled(name, rules, verdict(unit))
        if reason is None and losers.setdefault(other.key, index) != index:
            reason = "duplicate_loser"
        rank = (hash_order("pair", label_id, other.key),)
        found.append(Comparison(unit, selected_index, index, name, pair_type(chosen, other), reason, status, rank))
    return found


def scored(
    prefix: str, scores: Sequence[float | None], parsed: Sequence[Parsed], view: View, spec: PairSpec,
    verdict: Verdict = nobody,
) -> list[Comparison]:  # fmt: skip
    """Return one comparison for each two candidates of a set, the one with the higher score chosen.

    ``prefix`` names the set and what scored it. Of equal comparisons (the same two actions, whichever is better) the
    first by rank stands.
    """
    found = []
    for i, j in combinations(range(len(parsed)), 2):
        left, right = scores[i], scores[j]
        gap = None if left is None or right is None else round(abs(left - right), _DIGITS)
        better, worse = (j, i) if left is not None and right is not None and right > left else (i, j)
        name, unit = relation(parsed[better], parsed[worse], view), f"{prefix}|{better}|{worse}"
        said = verdict(unit)
        reason, status = ruled(name, spec.rules, said)
        if said not in ("drop", "relabel") and (why := _no_gap(gap, spec.scores.min_gap)):
            reason, status = why, "dropped"
        kind = pair_type(parsed[better], parsed[worse])
        rank = _rank(spec.scores.choose, prefix, (i, j), (parsed[better].key, parsed[worse].key), gap or 0.0)
        found.append(Comparison(unit, better, worse, name, kind, reason, status, rank, gap))
    return _without_repeats(found, parsed)


def _no_gap(gap: float | None, least: float) -> str | None:
    """Why a gap of two scores makes no pair; None if it does. Of two floats it may be too large for one."""
    if gap is None:
        return "unscored"
    return "score_out_of_range" if isinf(gap) else "small_gap" if gap <= least else None


def _rank(choose: str, prefix: str, places: tuple[int, int], keys: tuple[str, str], gap: float) -> tuple[Any, ...]:
    """``random`` looks at the places in the set only, so that no property of the actions takes part."""
    drawn = hash_order("scored", prefix, *(places if choose == "random" else keys))
    return (-gap if choose == "extreme" else 0.0, drawn, -gap, places)


def _without_repeats(found: list[Comparison], parsed: Sequence[Parsed]) -> list[Comparison]:
    known: dict[frozenset[str], str] = {}
    for comparison in sorted((c for c in found if c.reason is None), key=lambda c: c.rank):
        assert comparison.rejected_index is not None
        keys = frozenset((parsed[comparison.chosen_index].key, parsed[comparison.rejected_index].key))
        known.setdefault(keys, comparison.id)
    stand = set(known.values())
    return [c if c.reason or c.id in stand else c._replace(reason="duplicate_loser") for c in found]


def spend(
    comparisons: Iterable[Comparison], budget: int | None, stands: Callable[[Comparison], tuple[str, str] | None]
) -> list[Comparison]:
    """The comparisons in their order, with a reason for each that becomes no pair.

    ``stands`` says why (reason, detail) a comparison that the rules let through is no pair all the same; only those
    that are one use up the ``budget`` (None: no limit).
    """
    result = list(comparisons)
    left = sorted((n for n, c in enumerate(result) if c.reason is None), key=lambda n: result[n].rank)
    made = 0
    for number in left:
        why = ("over_budget", "") if budget is not None and made >= budget else stands(result[number])
        if why:
            result[number] = result[number]._replace(reason=why[0], detail=why[1], status="dropped")
        else:
            made += 1
    return result
