"""What an import found, for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import output

if TYPE_CHECKING:
    from ..registry.report import Report

_SHOWN = 3  # places of one problem
_LISTED = 10  # problems, conflicts
# What a count is called: name in the report -> words.
_WORDS = {
    "states": "states",
    "episodes": "episodes",
    "tasks": "distinct tasks",
    "screenshots": "distinct screenshots",
    "candidate_records": "candidate records",
    "candidate_sets": "distinct candidate sets",
    "candidates": "candidates",
    "labels": "labels",
    "null_labels": "of them null",
    "labelled_states": "states with a label",
    "score_records": "records of scores",
    "scored_candidates": "scored candidates",
    "selection_sft": "ready-made rows of selection_sft",
    "bt_pairs": "ready-made rows of bt_pairs",
    "pointwise_scores": "ready-made rows of pointwise_scores",
    "bench_items": "bench items",
    "reviews": "reviews",
}


def show(report: Report, *, on_invalid: str | None = None, on_conflict: str | None = None) -> None:
    """``on_invalid`` and ``on_conflict``: what was declared; with `error`, nothing is put aside."""
    rows = [[f.path, f.kind, f.format, f"{f.records:,}", _items(f.items), f"{f.broken:,}"] for f in report.files]
    output.table(report.place, ["file", "kind", "format", "records", "items", "broken"], rows)
    counted = [[words, f"{report.counts[name]:,}"] for name, words in _WORDS.items() if name in report.counts]
    output.table("in all", ["what", "count"], counted)
    for path, why in report.refused:
        output.note(output.one_line(f"refused {path}: {why}"))
    for speech in report.speech:
        read = f", which reads {speech.read:,} of {speech.responses:,} sampled responses" if speech.responses else ""
        output.note(f"{speech.format}: dialect {speech.dialect}{read}; points are {speech.space}")
    if taken := report.counts.get("taken_candidates"):
        readable = taken - report.counts["unread_candidates"]
        output.note(f"of the {taken:,} candidates that are taken, {readable:,} ({readable / taken:.1%}) are read")
    for what, counts in (
        ("temperature", report.temperatures), ("actor", report.actors), ("teacher", report.teachers),
    ):  # fmt: skip
        if counts:
            output.note(output.one_line(f"{what} {_shares(counts)}"))
    _conflicts(report, "a build stops at them" if on_conflict == "error" else "all of their records put aside")
    if on_invalid == "error" and report.broken:
        output.note(f"a build stops at the broken records of {_many(len(report.broken), 'file')}")
    for problem in report.not_taken[:_LISTED]:
        if len(problem.places) == 1:
            output.note(output.one_line(f"not taken: {problem.places[0]}"))
            continue
        output.note(output.one_line(f"not taken: {len(problem.places):,} of {problem.kind}: {problem.reason}"))
        for issue in problem.places[:_SHOWN]:
            output.note(output.one_line(f"  {issue}"))
    if len(report.not_taken) > _LISTED:
        output.note(f"  ... and {len(report.not_taken) - _LISTED} more sorts of problems; --json lists them")
    output.issues(report.remarks, f"taken all the same ({len(report.remarks):,}):")


def _items(items: Any) -> str:
    return ", ".join(f"{n:,} {kind}" for kind, n in items.items()) or "-"


def _shares(counts: Sequence[tuple[Any, int]]) -> str:
    total = sum(n for _, n in counts)
    return ", ".join(f"{'not recorded' if v is None else v}: {n:,} ({n / total:.1%})" for v, n in counts)


def _conflicts(report: Report, fate: str) -> None:
    if not report.conflicts:
        return
    for kind in dict.fromkeys(conflict.kind for conflict in report.conflicts):
        same = [conflict for conflict in report.conflicts if conflict.kind == kind]
        states = {conflict.state_id for conflict in same} - {None}
        over = f" over {_many(len(states), 'state')}" if states and kind != "states" else ""
        output.note(f"{_many(len(same), 'id')} of {kind} in conflict{over}, {fate}:")
        for conflict in same[:_LISTED]:
            output.note(output.one_line(f"  {conflict.id}: {', '.join(conflict.places)}"))
        if len(same) > _LISTED:
            output.note(f"  ... and {len(same) - _LISTED:,} more; --json lists them")


def _many(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'s' if n != 1 else ''}"
