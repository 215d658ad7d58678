"""Formats that raw records come in: one module per format, one entry per (kind, format)."""

from __future__ import annotations

from collections.abc import Mapping

from . import (
    agent_chat,
    agentrm,
    first_release,
    first_release_rows,
    molmoweb,
    molmoweb_runs,
    openai_messages,
    openwebrl_turns,
    ready_tables,
    rest_mcts,
    review,
    sampled,
    scores,
    tables,
    webprmbench,
)
from .tables import RECORDS
from .types import (
    Context,
    GroupImporter,
    Imported,
    ImportedRow,
    ImportedState,
    Importer,
    InvalidTurn,
    Remark,
    RowImporter,
    StateImporter,
)

__all__ = [
    "IMPORTERS",
    "RECORDS",
    "Context",
    "GroupImporter",
    "Imported",
    "ImportedRow",
    "ImportedState",
    "Importer",
    "InvalidTurn",
    "Remark",
    "RowImporter",
    "StateImporter",
    "formats",
    "yields",
]

IMPORTERS: Mapping[tuple[str, str], Importer] = {
    ("episodes", "openai_messages"): StateImporter("episode/1", openai_messages.states, openai_messages.ids),
    ("episodes", "openwebrl_turns"): GroupImporter("openwebrl_turn/1", openwebrl_turns.key, openwebrl_turns.states),
    ("episodes", "agent_chat"): StateImporter("agent_chat/1", agent_chat.states, agent_chat.ids),
    ("episodes", "rest_mcts"): StateImporter(
        "rest_mcts_tree/1",
        rest_mcts.items,
        rest_mcts.ids,
        yields=("states", "candidate_sets", "candidate_scores"),
    ),
    ("pointwise_scores", "agentrm"): StateImporter("agentrm_sample/1", agentrm.rows, yields=("pointwise_scores",)),
    ("reviews", "review"): StateImporter("review/1", review.verdict, yields=("reviews",)),
    ("reviews", "table"): StateImporter("table_review/1", review.verdict, yields=("reviews",)),
    ("states", "first_release"): StateImporter("first_release_state/1", first_release.states),
    ("states", "table"): StateImporter("table_state/1", tables.states),
    ("candidate_sets", "first_release"): RowImporter("first_release_candidates/1", first_release.candidate_set),
    ("candidate_sets", "table"): RowImporter("table_candidates/1", tables.candidate_set),
    ("candidate_sets", "sampled"): StateImporter("sampled_set/1", sampled.draw, yields=("candidate_sets",)),
    ("teacher_labels", "first_release"): RowImporter("first_release_label/1", first_release.teacher_label),
    ("teacher_labels", "table"): RowImporter("table_label/1", tables.teacher_label),
    ("states", "molmoweb"): StateImporter("molmoweb_state/1", molmoweb.states),
    ("candidate_sets", "molmoweb"): RowImporter("molmoweb_candidates/1", molmoweb.candidate_set),
    ("teacher_labels", "molmoweb"): RowImporter("molmoweb_label/1", molmoweb.teacher_label),
    ("candidate_scores", "scores"): RowImporter("candidate_scores/1", scores.scored),
    ("candidate_scores", "molmoweb"): StateImporter(
        "molmoweb_rewards/1", molmoweb.scored, yields=("candidate_sets", "candidate_scores")
    ),
    ("episodes", "molmoweb_result"): StateImporter(
        "molmoweb_result/1",
        molmoweb_runs.result,
        molmoweb_runs.result_ids,
        yields=("states", "candidate_sets", "teacher_labels"),
    ),
    ("selection_sft", "molmoweb_catts"): StateImporter(
        "molmoweb_catts/1", molmoweb_runs.distilled, yields=("selection_sft",)
    ),
    ("selection_sft", "first_release"): StateImporter(
        "first_release_selection/1", first_release_rows.selection, yields=("selection_sft",)
    ),
    ("bt_pairs", "first_release"): StateImporter("first_release_pair/1", first_release_rows.pair, yields=("bt_pairs",)),
    ("bench_items", "webprmbench"): GroupImporter(
        "webprmbench_item/1", webprmbench.state_of, webprmbench.items, yields=("bench_items",)
    ),
    ("selection_sft", "table"): StateImporter(
        "table_selection/1", ready_tables.of("selection_sft"), yields=("selection_sft",)
    ),
    ("bt_pairs", "table"): StateImporter("table_pair/1", ready_tables.of("bt_pairs"), yields=("bt_pairs",)),
    ("pointwise_scores", "table"): StateImporter(
        "table_score/1", ready_tables.of("pointwise_scores"), yields=("pointwise_scores",)
    ),
}


def formats(kind: str) -> list[str]:
    """Formats that exist for one kind of source."""
    return [fmt for k, fmt in IMPORTERS if k == kind]


def yields(kind: str, fmt: str) -> tuple[str, ...]:
    """Kinds of what a source of this kind and format gives."""
    importer = IMPORTERS.get((kind, fmt))
    if importer is None:  # a declaration that is being refused for it
        return ("states",) if kind == "episodes" else (kind,)
    return (kind,) if isinstance(importer, RowImporter) else importer.yields
