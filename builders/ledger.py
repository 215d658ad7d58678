"""The account of every unit: rows in = rows out + exclusions, per stage, with a closed list of reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..schemas.errors import ArmError, Issue
from ..schemas.images import IMAGE_REASONS

Row = dict[str, Any]

# What one unit of a stage is. An unreadable record counts as one unit.
UNITS: Mapping[str, str] = {
    "states": "assistant turns",
    "candidate_sets": "candidate records",
    "teacher_labels": "label records",
    "candidate_scores": "score records",
    "coverage": "states and candidate sets",
    "selection_sft": "labels",
    "bt_pairs": "comparisons",
    "pointwise_scores": "scored candidates",
    "actor_sft": "choices of a response",
    "reserve": "picks without a usable loser",
    "bench_items": "bench items",
    "reviews": "reviews",
}
_ALWAYS = ("states", "candidate_sets", "teacher_labels", "coverage", "selection_sft", "bt_pairs")  # also when empty
_RECORD = ("invalid_record", "duplicate_record", "conflicting_id")
_IMAGE = (*IMAGE_REASONS, "image_missing", "path_refused")
_PROMPT = ("no_screenshot", "no_observation_text", "no_size", "crosses_split")
_REVIEW = ("review_drop", "review_relabel")
_CHOICE = ("other_teacher", "other_repeat", "no_majority", "pick_unparsed")

REASONS: Mapping[str, tuple[str, ...]] = {
    "states": (*_RECORD, *_IMAGE),
    "candidate_sets": (*_RECORD, "no_state", "not_sampled"),
    "teacher_labels": (*_RECORD, "base_state_id", "no_candidate_set"),
    "candidate_scores": (*_RECORD, "base_state_id", "no_candidate_set", "wrong_size"),
    "coverage": ("no_candidate_set", "no_label"),
    "selection_sft": (
        *(*_RECORD, *_IMAGE, *_REVIEW, "conflicting_pick", "too_long"),
        *("none_fit", "abstain", "null_in_source", "ambiguous", "out_of_range", "unparsed", "refused"),
        *("content_filter", "truncated", "error", "expired", "missing"),
        *_CHOICE,
        *_PROMPT,
        *("single_distinct_action", "no_reasoning", "reasoning_conflicts"),
    ),
    "bt_pairs": (
        *("identical", "near_coordinates", "coordinate_only", "scroll_amount", "wait_duration", "done_vs_done"),
        *("unparsed", "duplicate_loser", "over_budget", "equal_as_shown"),
        *(
            "small_gap",
            "unscored",
            "score_out_of_range",
            "not_corruptible",
            "no_other_task",
            "equal_when_cut",
            "too_long",
        ),
        *(*_RECORD, *_IMAGE, *_REVIEW, *_PROMPT),
    ),
    "pointwise_scores": (
        *(*_RECORD, *_IMAGE, *_REVIEW, *_PROMPT),
        *("unscored", "score_out_of_range", "too_long"),
    ),
    "actor_sft": (*(*_REVIEW, "crosses_split", "no_messages", "unscored", "below_quality_floor", "too_long"),),
    "reserve": (*_REVIEW, "crosses_split", "no_messages", "too_long"),
    "bench_items": (*_RECORD, *_IMAGE, *_REVIEW, "crosses_split"),
    "reviews": ("invalid_record", "duplicate_record", "superseded", "no_item"),
}


class Claim(NamedTuple):
    """One record of an id: where it stands, a digest or the bytes of what it holds, and what its source declares."""

    file: str
    line: int
    content: bytes
    on_conflict: str


@dataclass
class Ledger:
    """Counts units in and out and writes an exclusion row for each difference. ``sink`` takes the exclusion rows."""

    sink: Callable[[Row], None]
    units_in: Counter[str] = field(default_factory=Counter)
    units_out: Counter[str] = field(default_factory=Counter)
    excluded: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # (stage, reason, status)

    def exclude(
        self, stage: str, table: str, source_id: str, reason: str, detail: str = "", status: str = "dropped"
    ) -> None:
        if reason not in REASONS[stage]:
            raise ArmError(f"{reason!r} is not a reason of the stage {stage}; known are {', '.join(REASONS[stage])}")
        if reason == "review_relabel":  # it waits for another answer
            status = "quarantined"
        self.excluded[stage, reason, status] += 1
        row = {"stage": stage, "source_table": table, "source_id": source_id}
        self.sink({**row, "reason": reason, "detail": detail, "status": status})

    def settle(self, stage: str, row_id: str, claims: Sequence[Claim]) -> tuple[bool, list[Issue]]:
        """Settle an id that came more than once, by what its records hold and never by which came first.

        Returns whether the first record stands, and the issues. Repeats are excluded; with other contents, all records
        go into quarantine where every source declares it, else each of those contents is an issue.
        """
        first, *others = claims
        differing = [claim for claim in others if claim.content != first.content]
        if not differing:
            self.units_in[stage] += len(others)
            for claim in others:
                detail = f"{claim.file}:{claim.line} repeats {first.file}:{first.line}"
                self.exclude(stage, stage, row_id, "duplicate_record", detail)
            return True, []
        if all(claim.on_conflict == "quarantine" for claim in claims):
            self.units_in[stage] += len(claims)
            for claim in claims:
                detail = f"{claim.file}:{claim.line} one id, two contents"
                self.exclude(stage, stage, row_id, "conflicting_id", detail, "quarantined")
            return False, []
        message = f"the id {row_id!r} has other content in {first.file}:{first.line}"
        return False, [Issue(claim.file, claim.line, "$", message) for claim in differing]


def account(
    units_in: Mapping[str, int], units_out: Mapping[str, int], excluded: Mapping[tuple[str, str, str], int]
) -> dict[str, Any]:
    """Return the published account per stage; raises ArmError when a unit got lost."""
    result: dict[str, Any] = {}
    for stage, unit in UNITS.items():
        reasons = {f"{reason}": 0 for (s, reason, _), n in sorted(excluded.items()) if s == stage and n}
        statuses: Counter[str] = Counter()
        for (s, reason, status), n in excluded.items():
            if s == stage and n:
                reasons[reason] += n
                statuses[status] += n
        into, out = units_in.get(stage, 0), units_out.get(stage, 0)
        if not into and not out and stage not in _ALWAYS:
            continue
        if into != out + sum(reasons.values()):
            raise ArmError(
                f"{stage}: {into} {unit} went in, but {out} came out and {sum(reasons.values())} were excluded; "
                "this is a defect of the builder"
            )
        result[stage] = {
            "unit": unit,
            "in": into,
            "out": out,
            "excluded": reasons,
            "status": dict(sorted(statuses.items())),
        }
    return result
