"""Which comparisons of a label become pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..schemas.actions import Parsed, View, pair_type, relation
from ..schemas.ids import hash_order
from .spec import PairSpec


class Comparison(NamedTuple):
    """The picked candidate against one other: kept as a pair, or excluded with a reason and status."""

    rejected_index: int  # 0-based
    relation: str
    pair_type: str
    reason: str | None  # None: kept
    status: str  # of the exclusion: dropped or quarantined


def compare(
    label_id: str, selected_index: int, parsed: Sequence[Parsed], view: View, spec: PairSpec
) -> list[Comparison]:
    """Return one comparison per other candidate, in sampled order.

    Rules by relation first; then a loser whose action an earlier kept loser has is a duplicate; then the budget, spent
    on losers in the order of a hash of label and action, so that it does not depend on the sampled order.
    """
    chosen = parsed[selected_index]
    found: dict[int, Comparison] = {}
    losers: dict[str, int] = {}  # action key -> first index
    for index, other in enumerate(parsed):
        if index == selected_index:
            continue
        name = relation(chosen, other, view)
        rule = "drop" if name == "identical" else spec.rules.get(name, "keep")
        reason, status = None if rule == "keep" else name, "quarantined" if rule == "quarantine" else "dropped"
        if reason is None and losers.setdefault(other.key, index) != index:
            reason = "duplicate_loser"
        found[index] = Comparison(index, name, pair_type(chosen, other), reason, status)
    if 0 < spec.max_pairs_per_set < len(losers):
        ranked = sorted(losers, key=lambda key: hash_order("pair", label_id, key))
        for key in ranked[spec.max_pairs_per_set :]:
            found[losers[key]] = found[losers[key]]._replace(reason="over_budget", status="dropped")
    return list(found.values())
