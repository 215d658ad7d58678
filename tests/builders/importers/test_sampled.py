"""Sampled sets as a source: whole ones become candidate sets, failed ones are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from action_reward_models.registry.sniff import sniff

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

CASES = Path(__file__).parents[2] / "examples" / "sampled_set" / "good"


def case(name: str, **changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text("utf-8"))
    return record | changes


def build(toy: Toy, *records: dict[str, Any], actor: str | None = "my-policy", **source: Any) -> Build:
    if not toy.episodes:
        toy.page("shop-042")
    constants = {"constants": {"actor": actor}} if actor else {}
    laid = toy.lay(
        "candidate_sets", "sampled", "c.jsonl", records, dialect="function", space="pixel", **constants, **source
    )
    return toy.build(tables=("states", "candidate_sets"), sources=(*toy.sources(), laid))


def here(name: str, draw: int = 0, **changes: Any) -> dict[str, Any]:
    return case(name, state_id="shop-042__t0", set_id=f"shop-042__t0#d{draw}", draw=draw, **changes)


def test_all_that_was_recorded_stands_in_the_row(toy: Toy) -> None:
    record = here("complete", 12)
    row = build(toy, record).row("candidate_sets")
    assert (row["set_id"], row["draw"], row["actor"]) == ("shop-042__t0#d12", 12, "my-policy")
    assert row["sampling"] == record["sampling"]
    kept = ("response", "finish_reason", "tokens", "logprob")
    assert [{name: c[name] for name in kept} for c in row["candidates"]] == [
        {name: c[name] for name in kept} for c in record["candidates"]
    ]
    assert [c["action"] for c in row["candidates"]] == ["click(0, 2)", "click(1, 2)", "click(2, 2)"]
    assert json.loads(row["source_record_json"]) == {
        "served_model": "my-policy",
        "requests": [c["request"] for c in record["candidates"]],
        "seeds": [1423341005, 1423341006, 1423341007],
        "reasonings": [None, None, "Two is below."],
    }


def test_what_was_not_sent_is_null(toy: Toy) -> None:
    record = here("failed", failures=[], n=1)
    row = build(toy, record, actor=None).row("candidate_sets")
    assert row["sampling"] == dict.fromkeys(row["sampling"]) | {"temperature": 0.7, "max_tokens": 512}
    assert set(json.loads(row["source_record_json"])) == {"served_model", "requests"}


def test_a_set_of_which_candidates_failed_is_excluded_by_name(toy: Toy) -> None:
    """An outcome, and no defect of the file: it stops no build."""
    built = build(toy, here("complete", 0), here("failed", 1))
    assert built.excluded("candidate_sets") == {"not_sampled": ["shop-042__t0#d1"]}
    (excluded,) = built.rows("exclusions", reason="not_sampled")
    assert "1 of 3 candidates were sampled (candidate 1: rejected 400 the prompt is too long;" in excluded["detail"]
    assert built.balanced()


def test_candidates_that_are_no_whole_set_are_no_choice(toy: Toy) -> None:
    record = here("complete")
    twice = {**record, "candidates": [record["candidates"][i] for i in (0, 0, 2)]}
    built = build(toy, twice)
    assert built.excluded("candidate_sets") == {"not_sampled": ["shop-042__t0#d0"]}


def test_the_actor_stands_in_the_id_where_there_are_several(toy: Toy) -> None:
    toy.page("shop-042")
    laid = [
        toy.lay(
            "candidate_sets", "sampled", f"{actor}.jsonl", [here("complete")], dialect="function", space="pixel",
            constants={"actor": actor},
        )
        for actor in ("a", "b")
    ]  # fmt: skip
    built = toy.build(tables=("states", "candidate_sets"), sources=(*toy.sources(), *laid))
    assert {row["set_id"] for row in built.rows("candidate_sets")} == {"shop-042__t0#a#d0", "shop-042__t0#b#d0"}


def test_a_file_of_them_is_told_by_its_records(toy: Toy) -> None:
    toy.page("shop-042")
    toy.sources()
    toy.write("c.jsonl", [here(name, draw) for draw, name in enumerate(("complete", "failed", "at_once"))])
    found = {source.path.name: (source.kind, source.format) for source in sniff(toy.folder).sources}
    assert found["c.jsonl"] == ("candidate_sets", "sampled")
