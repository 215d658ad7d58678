"""The figures of an evaluation, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import output


def show(name: str, kind: str, entry: Mapping[str, Any]) -> None:
    """One evaluation (`evaluations` of `model_manifest/1`)."""
    asked = f"{entry['items']:,} sets of {entry['states']:,} states in {entry['split']}"
    rows = [
        [r["metric"], _number(r["value"]), _interval(r["interval_low"], r["interval_high"]), f"{r['n']:,}",
         f"{r['n_valid']:,}"]
        for r in entry["reports"]
    ]  # fmt: skip
    output.table(f"{name} ({kind}): {asked}", ["metric", "value", "95 % interval", "items", "valid"], rows)
    baselines = []
    for report in entry["reports"]:
        values = {one["name"]: one["value"] for one in report["baselines"]}
        baselines += [
            [f"{report['metric']} of {one['baseline']}", _number(values.get(one["baseline"])), _signed(one["value"]),
             _interval(one["low"], one["high"]), f"{one['n']:,}"]
            for one in report["differences"]
        ]  # fmt: skip
    if baselines:
        output.table("on the same items", ["baseline", "value", "model less that", "95 % interval", "items"], baselines)
    counted = [("outcomes", entry["outcomes"]), ("not asked", entry["left_out"]),
               ("pairs not asked", entry.get("pairs_left_out", {}))]  # fmt: skip
    for title, counts in counted:
        if counts:
            output.note(f"{title}: {', '.join(f'{n:,} {reason}' for reason, n in counts.items())}")
    if entry["slots"]:
        output.note(f"picks by shown place: {', '.join(map(str, entry['slots']))}")


def compared(first: str, second: str, found: Mapping[str, Any]) -> None:
    """Two evaluations on the items that both have."""
    rows = [
        [m["metric"], _number(m["first"]), _number(m["second"]), _signed(m["difference"]),
         _interval(m["low"], m["high"]), f"{m['only_first']:,}", f"{m['only_second']:,}", f"{m['p']:.3g}",
         f"{m['n']:,}"]
        for m in found["metrics"]
    ]  # fmt: skip
    columns = ["metric", "first", "second", "second less first", "95 % interval", "only first right",
               "only second right", "p", "items"]  # fmt: skip
    output.table(f"first: {first}; second: {second}; on the items of both", columns, rows)
    left = {"only the first was asked": found["only_first"], "only the second was asked": found["only_second"],
            "judged by another reference": found["other_reference"]}  # fmt: skip
    for told, count in left.items():
        if count:
            output.note(f"items that {told}: {count:,}" if told.startswith("judged") else f"{told}: {count:,} items")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.3f} .. {high:.3f}"
