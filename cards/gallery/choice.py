"""What somebody wants to look at: filters, how many items, and how large the page may become."""

from __future__ import annotations

from dataclasses import dataclass

# Tables with rows that somebody trains on or evaluates with, in the order in which the page lists them.
ROW_TABLES = ("selection_sft", "bt_pairs", "pointwise_scores", "actor_sft", "reserve", "bench_items")
# What rows are made of: a build without such rows is looked at as the first of these that it has.
BASE = ("teacher_labels", "candidate_sets", "states")
# Stages of `exclusions` whose units are made of what the build holds; records that were refused are in no table.
STAGES = ("selection_sft", "bt_pairs", "pointwise_scores", "actor_sft", "reserve", "coverage")
TABLES = (*ROW_TABLES, *BASE, "coverage")
ITEMS = 129
BUDGET = 50_000_000  # bytes: 300 screenshots of 100 KB are 41 MB in base64


@dataclass(frozen=True)
class Choice:
    """Filters that are empty, or None, let everything through.

    tables: of the rows, and for what was excluded the stage that did it. split: train or validation. reasons: of
    exclusions. ids: of items, or of the label, set or state that they are made of.
    items: at most so many. budget: bytes of the whole page.
    """

    tables: tuple[str, ...] = ()
    split: str | None = None
    reasons: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    items: int = ITEMS
    budget: int = BUDGET

    def table(self, name: str) -> bool:
        return not self.tables or name in self.tables
