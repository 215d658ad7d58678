"""Picks without a usable loser, kept for the actor: the same shape as its targets, with the reason."""

from __future__ import annotations

from collections.abc import Set

from ..prompts.view import Unrenderable
from .actor_sft import row_of
from .ledger import Ledger, Row
from .reviews import Host
from .scene import Scene

ALONE = "no_other_candidate"  # the reason of a pick that had nothing beside it


def add(host: Host, ledger: Ledger, label: Row, scene: Scene, reasons: Set[str | None]) -> None:
    """Take the pick of a usable label into the reserve, unless one of its comparisons was a pair or could have been.

    ``reasons``: why its comparisons are no pairs, as the account of bt_pairs names them; None stands for a pair. A
    loser that a budget cut off was usable.
    """
    if reasons & {None, "over_budget"}:
        return
    row_id = f"{label['label_id']}|reserve"
    ledger.units_in["reserve"] += 1
    verdict = host.reviews.verdict("reserve", row_id, label_id=label["label_id"])
    if verdict in ("drop", "relabel"):
        ledger.exclude("reserve", "teacher_labels", row_id, f"review_{verdict}")
        return
    try:
        row = row_of(row_id, label, scene, label["selected_index"], "teacher")
    except Unrenderable as error:
        ledger.exclude("reserve", "teacher_labels", row_id, error.reason, error.message)
        return
    host.keep("reserve", row | {"reason": ", ".join(sorted(filter(None, reasons))) or ALONE})
