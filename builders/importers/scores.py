"""Scores of candidates that another source holds: one record a set, one number a candidate."""

from __future__ import annotations

from typing import Any


def scored(record: dict[str, Any], context: object) -> dict[str, Any]:
    """The scores of a set, in the order of its candidates; None: not scored."""
    return {
        "set_id": record["set_id"],
        "scores": record["scores"],
        "score_source": record.get("score_source"),
        "source_record_json": None,
    }
