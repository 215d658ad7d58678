"""Candidate sets: raw responses, parsed once and for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..schemas.actions import Parsed, View, element_index, parse
from .ledger import Row
from .spec import SourceSpec

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "engine", "engine_version")
_NOT_RECORDED: Mapping[str, Any] = dict.fromkeys(("finish_reason", "tokens", "logprob"))


def build(imported: Row, declared: SourceSpec, source: Row, split: str, view: View) -> tuple[Row, list[Parsed]]:
    """Return the `candidate_sets` row and its parsed candidates in sampled order.

    What the record does not say comes from the source's declaration, else stays null.
    """
    assert declared.dialect is not None
    parsed = [parse(declared.dialect, response) for response in imported["responses"]]
    constants = declared.constants
    recorded = imported.get("recorded") or [_NOT_RECORDED] * len(parsed)
    row = {
        "set_id": imported["set_id"],
        "state_id": imported["state_id"],
        "draw": imported["draw"],
        "actor": _said(imported, constants, "actor"),
        "actor_revision": _said(imported, constants, "actor_revision"),
        "sampling": _sampling({**constants.get("sampling", {}), **imported["sampling"]}),
        "candidates": [
            {
                "index": index,
                "response": response,
                "thought": p.thought,
                "action": p.action,
                "action_json": p.json,
                "action_key": p.key,
                "element_index": element_index(p.calls, view) if view.elements else None,
                "parse_error": p.parse_error,
                **known,
            }
            for index, (response, p, known) in enumerate(zip(imported["responses"], parsed, recorded, strict=True))
        ],
        "n": len(parsed),
        "distinct_actions": len({p.key for p in parsed}),
        "space": declared.space,
        "dialect": declared.dialect,
        "source_record_json": imported["source_record_json"],
        "source": source,
        "split": split,
    }
    return row, parsed


def _said(imported: Row, constants: Mapping[str, Any], name: str) -> Any:
    said = imported.get(name)
    return constants.get(name) if said is None else said


def _sampling(known: Mapping[str, Any]) -> Row:
    return {name: known.get(name) for name in _SAMPLING}
