"""The rows that a recipe names, in a built directory: whether they are there, fit the objective, and stay apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...schemas.built import BuiltTables
from ..recipe import Recipe
from .findings import Findings

_SHOWN = 3  # of what overlaps


def check(recipe: Recipe, dataset: Path, found: Findings) -> bool:
    """Check the table and its splits; whether rows can be read from it. Raises ArmError for a folder that is no build,
    and for a table that cannot be read."""
    tables = BuiltTables.of(dataset, lambda *_: None, "checking", hashed=True)
    entry = tables.identity["tables"].get(recipe.table)
    if entry is None:
        there = ", ".join(tables.identity["tables"])
        place = "$.objective.loss" if "objective" in recipe.data else "$.kind"
        found.refuse(place, f"learns from {recipe.table}, and the dataset has {there}")
        return False
    held_out = recipe.evaluation.split if recipe.evaluation else None
    rows = {split: part["rows"] for split, part in entry["splits"].items()}
    if not rows.get(recipe.split):
        found.refuse("$.split" if "split" in recipe.data else "$.dataset", f"{recipe.table} has no {recipe.split} rows")
        return False
    found.counts["rows"] = {"table": recipe.table, **{split: n for split, n in rows.items() if n}}
    if held_out:
        _evaluated(tables, recipe, held_out, found)
    _prompts_and_targets(tables, recipe, found)
    if held_out and held_out != recipe.split:
        _apart(tables, recipe, held_out, found)
    return True


def _evaluated(tables: BuiltTables, recipe: Recipe, held_out: str, found: Findings) -> None:
    """An evaluation asks about candidate sets, whose references are teacher labels or scores."""
    if not tables.has("candidate_sets"):
        found.refuse("$.evaluation", "asks about candidate_sets, and the dataset has none; say evaluation: none")
        return
    splits = tables.identity["tables"]["candidate_sets"]["splits"]
    if not splits.get(held_out, {}).get("rows"):
        found.refuse("$.evaluation.split", f"candidate_sets has no {held_out} rows")


def _prompts_and_targets(tables: BuiltTables, recipe: Recipe, found: Findings) -> None:
    """One prompt for all rows of the split, and a target where the objective needs one."""
    names = ["prompt_id", "prompt_sha256", *(["margin"] if recipe.loss == "soft_bt" else []), "split"]
    prompts: Counter[tuple[str | None, str | None]] = Counter()
    without = 0
    for row in tables.columns(recipe.table, names):
        if row["split"] == recipe.split:
            prompts[row["prompt_id"], row["prompt_sha256"]] += 1
            without += "margin" in row and row["margin"] is None
    if len(prompts) == 1:
        ((_, found.prompt),) = prompts
    if len(prompts) > 1:
        named = ", ".join(f"{n:,} by {i} ({str(s)[:12]})" for (i, s), n in sorted(prompts.items(), key=str))
        found.refuse("$.dataset", f"rows of {recipe.table} have several prompts, and a checkpoint has one: {named}")
    if without > recipe.max_unusable * prompts.total():
        found.refuse(
            "$.objective.loss", f"soft_bt learns from margins, and {without:,} of {prompts.total():,} rows have none: "
            "their preference is a pick, not a score",
        )  # fmt: skip


def _apart(tables: BuiltTables, recipe: Recipe, held_out: str, found: Findings) -> None:
    """No task, and no page with the same prompt, stands in both splits."""
    if not tables.has("states"):
        found.skip(
            "groups", "the dataset has no table states, which knows the task of each row", "build it with states"
        )
    else:
        groups = defaultdict(set)
        for row in tables.columns("states", ["task_group", "split"]):
            groups[row["split"]].add(row["task_group"])
        _refuse_both("task groups", groups[recipe.split] & groups[held_out], recipe, found)
        found.counts["groups"] = {split: len(held) for split, held in sorted(groups.items())}
    seen = defaultdict(set)
    for row in tables.columns(recipe.table, ["rendered_sha256", "split"]):
        seen[row["split"]].add(row["rendered_sha256"])
    # The hash is over the rendered prompt and its pictures.
    _refuse_both("equal prompts with equal pictures", seen[recipe.split] & seen[held_out], recipe, found)


def _refuse_both(what: str, both: Collection[Any], recipe: Recipe, found: Findings) -> None:
    if both:
        some = ", ".join(sorted(str(one)[:16] for one in both)[:_SHOWN])
        assert recipe.evaluation is not None
        found.refuse(
            "$.evaluation.split", f"{len(both):,} {what} stand both in {recipe.split} and in "
            f"{recipe.evaluation.split}: {some}{', ...' if len(both) > _SHOWN else ''}",
        )  # fmt: skip
