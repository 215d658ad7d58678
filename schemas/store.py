"""The record schemas as package data: one self-contained JSON Schema per record kind and version."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from .errors import UsageError

Schema = dict[str, Any]

# Table -> schema of its rows. The order is the order in which tables are built and shown.
TABLES: dict[str, str] = {
    "states": "state/1",
    "candidate_sets": "candidate_set/1",
    "teacher_labels": "teacher_label/1",
    "selection_sft": "selection_sft/1",
    "bt_pairs": "bt_pair/1",
    "pointwise_scores": "pointwise_score/1",
    "actor_sft": "actor_sft/1",
    "reserve": "reserve/1",
    "bench_items": "bench_item/1",
    "reviews": "applied_review/1",
    "exclusions": "exclusion/1",
}

# What became of all that went in besides rows: their rows have no split and stand in train. A dataset has `exclusions`
# always, and `reviews` when a source holds some; nobody declares them.
UNSPLIT = ("reviews", "exclusions")

# A table's row id: what a diff joins on and what `exclusions` names.
ID_FIELDS: dict[str, str] = {
    "states": "state_id",
    "candidate_sets": "set_id",
    "teacher_labels": "label_id",
    "selection_sft": "row_id",
    "bt_pairs": "pair_id",
    "pointwise_scores": "score_id",
    "actor_sft": "row_id",
    "reserve": "row_id",
    "bench_items": "item_id",
    "reviews": "review_id",
}


def names() -> list[str]:
    """Every schema that ships, as ``name/version``, sorted; ``common`` is inlined into the others."""
    files = (resources.files(__package__) / "json").iterdir()
    stems = sorted(f.name.removesuffix(".json") for f in files if f.name.endswith(".json"))
    return ["/".join(stem.rsplit("-", 1)) for stem in stems if not stem.startswith("common-")]


@cache
def load(name: str) -> Schema:
    """Return the schema ``name`` (``state/1``) with every ``$ref`` inlined, so that it stands alone.

    Raises UsageError for a name that does not ship. The result is shared: do not change it.
    """
    if name not in names():
        raise UsageError(f"no schema {name!r}; there are {', '.join(names())}")
    schema = _inline(_read(name.replace("/", "-")), "")
    assert isinstance(schema, dict)
    return schema


@cache
def _read(stem: str) -> Schema:
    import orjson

    schema: Schema = orjson.loads((resources.files(__package__) / "json" / f"{stem}.json").read_bytes())
    return schema


def _inline(node: Any, base: str) -> Any:
    """Replace ``$ref`` by what it names; only a description may stand beside it. ``base`` is the file of ``#/``."""
    if isinstance(node, list):
        return [_inline(item, base) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        urn, _, pointer = node["$ref"].partition("#/")
        base = urn.removeprefix("urn:action-reward-models:").replace(":", "-") if urn else base
        target: Any = _read(base)
        for key in filter(None, pointer.split("/")):  # none: the whole file
            target = target[key]
        target = {k: v for k, v in target.items() if k not in ("$schema", "$id")}
        beside = {k: v for k, v in node.items() if k != "$ref"}
        assert set(beside) <= {"description"}, f"only a description may stand beside $ref, found {sorted(beside)}"
        return {**_inline(target, base), **beside}
    return {key: _inline(value, base) for key, value in node.items()}
