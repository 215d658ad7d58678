"""What people said of rows, as the card tells it: from the counts of the manifest, empty where nobody said anything."""

from __future__ import annotations

from typing import NamedTuple

from .facts import Manifest, Row, ranked, stage, statistic, table_names
from .text import Markdown, code, listed, plural, text
from .words import VERDICTS

MAX_REVIEWERS = 20  # on the card; the table `reviews` has them all
ALIAS_LIMIT = 80  # characters


class People(NamedTuple):
    """The section of the card; ``left`` reviewers are not in ``reviewers``."""

    total: int
    items: Markdown  # how many of which table
    verdicts: list[Row]
    reviewers: list[Row]
    left: int
    answers: list[Markdown]


def of(manifest: Manifest) -> People | None:
    """None where nobody said anything, and for what was built before there was the table `reviews`."""
    counts = statistic(manifest, "reviews")
    if not counts:
        return None
    known = [*VERDICTS, *sorted(set(counts) - set(VERDICTS))]
    who = ranked(statistic(manifest, "reviewers"))
    by_table = statistic(manifest, "reviewed_items")
    tables = [name for name in table_names(manifest) if name in by_table]
    tables += sorted(set(by_table) - set(tables))
    return People(
        looked_at(manifest),
        listed([Markdown(f"{by_table[name]:,} of {code(name)}") for name in tables]),
        [[code(name), VERDICTS.get(name, ""), counts[name]] for name in known if name in counts],
        [[text(alias, ALIAS_LIMIT), n] for alias, n in who[:MAX_REVIEWERS]],
        len(who[MAX_REVIEWERS:]),
        list(_answers(manifest)),
    )


def looked_at(manifest: Manifest) -> int:
    """How many items people said something about."""
    return sum(statistic(manifest, "reviewed_items").values()) or int(stage(manifest, "reviews")["out"])


def replaced(manifest: Manifest) -> int:
    """How many labels have a person's pick and not the teacher's where training rows follow them."""
    counts = statistic(manifest, "answers")
    return int(counts.get("changed", 0) + counts.get("given", 0))


def _answers(manifest: Manifest) -> list[Markdown]:
    counts = statistic(manifest, "answers")
    said = []
    if n := counts.get("changed", 0):
        said.append(Markdown(f"{plural(n, 'pick')} of the teacher {'was' if n == 1 else 'were'} replaced by another"))
    if n := counts.get("given", 0):
        said.append(Markdown(f"{plural(n, 'label')} without a pick got one"))
    if n := counts.get("confirmed", 0):
        said.append(Markdown(f"{plural(n, 'pick')} {'was' if n == 1 else 'were'} named again"))
    return said
