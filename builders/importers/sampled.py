"""`arm sample`'s own files: one draw a line, with everything that was recorded of its candidates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...schemas.ids import canonical_json
from .types import Context, ImportedRow, InvalidTurn

_KEPT = ("finish_reason", "tokens", "logprob")
_APART = ("request", "seed", "reasoning", "refusal")  # what a candidate set has no field for


def draw(record: dict[str, Any], context: Context) -> Iterator[ImportedRow | InvalidTurn]:
    """Yield the candidate set of a record; one of which some candidates failed cannot be a choice among n."""
    candidates = record["candidates"]
    if record["failures"] or [c["index"] for c in candidates] != list(range(record["n"])):
        failed = {failure["index"]: failure for failure in record["failures"]}
        why = "; ".join(f"candidate {i}: {f['outcome']} {f['detail']}" for i, f in sorted(failed.items()))
        message = f"{len(candidates)} of {record['n']} candidates were sampled{f' ({why[:400]})' if why else ''}"
        yield InvalidTurn(record["set_id"], "not_sampled", "$.failures", message, kind="candidate_sets")
        return
    apart = {f"{name}s": [candidate[name] for candidate in candidates] for name in _APART}
    recorded = {
        "served_model": record["served_model"],
        **{name: told for name, told in apart.items() if any(value is not None for value in told)},
    }
    row = {
        **{name: record[name] for name in ("set_id", "state_id", "draw")},
        "sampling": {name: value for name, value in record["sampling"].items() if value is not None},
        "responses": [candidate["response"] for candidate in candidates],
        "recorded": [{name: candidate[name] for name in _KEPT} for candidate in candidates],
        "source_record_json": canonical_json(recorded),
    }
    yield ImportedRow("candidate_sets", row)
