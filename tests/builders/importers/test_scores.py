"""Scores of candidates that another source holds: pairs of sets that are judged, too, and what cannot fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from action_reward_models.builders.spec import PairSpec, PromptSpec, ScorePairSpec
from action_reward_models.registry import Registry
from action_reward_models.registry.sniff import sniff
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]
PAIRS = PairSpec(PromptSpec("scalar/1"), 0, origins=("selection", "scores"), scores=ScorePairSpec(budget="selection"))


def build(toy: Toy, *records: Any, **source: Any) -> Build:
    laid = toy.lay("candidate_scores", "scores", "scores.jsonl", records, **source)
    return toy.build(sources=(*toy.sources(), laid), pairs=PAIRS)


def scored(set_id: str, *scores: Any, **more: Any) -> Record:
    return {"set_id": set_id, "scores": list(scores), **more}


def test_scores_and_selection_of_one_set_at_equal_numbers(toy: Toy) -> None:
    judged = toy.scene("a", pick=0)
    only_scored = toy.draw(toy.page("b", task="Click TWO."), "click(1, 1)", "stop()")
    built = build(
        toy,
        scored(judged, 0.1, 0.9, 0.5, score_source="v1"),
        scored(only_scored, 0, 1),
        constants={"score_source": "v1"},
    )
    pairs = {row["pair_id"]: row["margin"] for row in built.rows("bt_pairs", label_source="scores")}
    assert (
        len(pairs) == len(built.rows("bt_pairs", label_source="selection")) == 2
    )  # of the three, as many as the label's
    assert set(pairs) < {f"{judged}|v1|{pair}|scalar/1" for pair in ("1|0", "1|2", "2|0")}
    assert built.excluded("bt_pairs")["over_budget"]
    assert built.balanced()


def test_what_does_not_fit_is_named(toy: Toy) -> None:
    set_id = toy.scene("a", pick=0)
    records = [
        scored(set_id, 0.5),
        scored("nowhere#d0", 1),
        scored("a__t0", 1, 2, 3),
        scored(set_id, 1, 0, 0, score_source="b"),
        scored(set_id, 0, 0, 1, score_source="b"),
        scored(set_id, "1", 0, 0),
    ]
    with pytest.raises(ArmError) as caught:
        build(toy, *records)
    assert [str(issue) for issue in caught.value.issues] == [
        "scores.jsonl:3 $.set_id 'a__t0' is a state, not a draw: a record of scores must name the candidate set it is "
        "about",
        'scores.jsonl:6 $.scores[0] is "1", not a number or null',
    ]
    built = build(toy, *records, on_invalid="exclude", on_conflict="quarantine")
    excluded = built.excluded("candidate_scores")
    assert len(excluded.pop("invalid_record")) == 1
    assert excluded == {
        "base_state_id": ["a__t0"],
        "conflicting_id": [f"{set_id}|b"] * 2,
        "no_candidate_set": ["nowhere#d0"],
        "wrong_size": [f"{set_id}|prm"],
    }
    assert built.balanced()


def test_they_are_told_by_what_they_hold_and_need_no_dialect(toy: Toy, tmp_path: Path) -> None:
    set_id = toy.scene("a", pick=0)
    toy.sources()
    (tmp_path / "prm.jsonl").write_bytes(orjson.dumps(scored(set_id, 0.1, None, 2)))
    found = {source.path.name: (source.kind, source.format) for source in sniff(tmp_path).sources}
    assert found["prm.jsonl"] == ("candidate_scores", "scores")
    (tmp_path / "prm.jsonl").write_bytes(orjson.dumps(scored("other#d0", 0.1)))
    assert ("prm.jsonl", "only 0 of 1 scores name a candidate set that is here") in {
        (path.name, why) for path, why in sniff(tmp_path).skipped
    }
    declared = (
        "registry: 1\nnamespace: n\ndatasets:\n  - name: d\n    version: 1.0.0\n    license: mit\n    sources:\n"
        "      - {kind: episodes, format: openai_messages, path: episodes.jsonl, dialect: function, space: pixel}\n"
        "      - {kind: candidate_scores, format: FORMAT, path: prm.jsonl}\n"
        "    split: {validation: 0, seed: 1}\n    tables: {states: {}}\n"
    )
    (tmp_path / "registry.yaml").write_text(declared.replace("FORMAT", "scores"), "utf-8")
    assert len(Registry.load(tmp_path).dataset().sources) == 2
    (tmp_path / "registry.yaml").write_text(declared.replace("FORMAT", "molmoweb"), "utf-8")
    with pytest.raises(ArmError) as caught:
        Registry.load(tmp_path)
    assert [issue.message for issue in caught.value.issues] == ["lacks the field 'dialect'", "lacks the field 'space'"]
