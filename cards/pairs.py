"""How the pairs of a dataset came about, in sentences: from its parameters, which leave out what is at its default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .facts import Manifest, ready_made
from .text import Markdown, code, plural


def how(manifest: Manifest) -> Markdown:
    """What is compared with what, and how many pairs of it are kept."""
    rule: Mapping[str, Any] = manifest["identity"]["parameters"].get("bt_pairs") or {}
    return Markdown(" ".join(_sentences(rule, ready="bt_pairs" in ready_made(manifest))))


def _sentences(rule: Mapping[str, Any], *, ready: bool) -> Iterator[str]:
    if not rule and ready:
        yield (
            "These pairs came ready-made. What their actions do was looked at, and pairs that teach nothing were left "
            "out."
        )
        return
    origins = rule.get("origins", ["selection"])
    most = rule.get("max_pairs_per_set")
    limit = f", and at most {_most(most, 'per set')}" if most else ""
    if "selection" in origins:
        yield f"The picked candidate of each usable label is compared with every other candidate of its set{limit}."
    if "scores" in origins:
        scores = rule.get("scores") or {}
        gap = code(str(scores.get("min_gap", 0.05)))
        which = {
            "extreme": "; the best against the worst comes first",
            "random": "; a hash says which are kept",
        }.get(scores.get("choose", "all"), "")
        budget = (
            "; of a set, as many are kept as its picked candidate gives" if scores.get("budget") == "selection" else ""
        )
        own = limit if "selection" not in origins else ""
        yield (
            f"Of two scored candidates of one set the higher one is chosen where the scores differ by more than {gap}"
            f"{which}{budget}{own}."
        )
    if per_state := rule.get("max_pairs_per_state"):
        yield f"At most {_most(per_state, 'per state')}."
    negatives = rule.get("negatives") or {}
    for key, what in (("corrupted", "made by spoiling the chosen action"), ("cross_task", "chosen in another task")):
        if n := negatives.get(key):
            yield f"Each usable label gets up to {plural(n, 'rejected side')} {what}."
    if episodes := rule.get("trajectories"):
        most = episodes.get("max_pairs_per_task")
        limit = f", and at most {_most(most, 'per task')}" if most else ""
        gap = code(str(episodes.get("min_gap")))
        yield f"Whole episodes of one task are compared where their outcomes differ by at least {gap}{limit}."
    if ready:
        yield "Other pairs came ready-made and follow the same rules."


def _most(n: int, of: str) -> str:
    return f"{plural(n, 'pair')} {of} {'is' if n == 1 else 'are'} kept"
