"""Runs whose steps were chosen by a vote (result.json), and the selections distilled from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]
TABLES = ("states", "candidate_sets", "teacher_labels")


def vote(*actions: Any, pick: int | None = 0, **more: Any) -> Record:
    return {"candidates": list(actions), "selected_orig_idx": pick, **more}


def run(toy: Toy, **record: Any) -> Record:
    """Two steps, the first after a vote; two screenshots beside the file."""
    folder = toy.folder / "run" / "trajectory"
    folder.mkdir(parents=True, exist_ok=True)
    for number in (0, 1):
        (folder / f"{number}_full_screenshot.png").write_bytes(toy.png(number))
    return {
        "task_id": "t9", "task": "Find a kettle.", "url": "https://shop.example/",
        "action_history": ["click(10, 20)", "send_msg_to_user(text='done')"], "thoughts": ["Open it.", None],
        "vote_log": [vote("click(10, 20)", {"action_str": "noop()", "thought": "Wait."}, votes={"0": 5})], **record,
    }  # fmt: skip


def build(toy: Toy, *records: Record, **declared: Any) -> Build:
    lines: Any = records[0] if len(records) == 1 else list(records)
    source = toy.lay(
        "episodes", "molmoweb_result", "run/result.json", lines, dialect="molmoweb", space="pixel",
        constants={"teacher": "vote"}, **declared,
    )  # fmt: skip
    return toy.build(sources=(source,), tables=TABLES)


def test_a_run_gives_states_sets_and_labels(toy: Toy) -> None:
    built = build(toy, run(toy, final_result_response="done"))
    assert built.balanced()
    first, second = sorted(built.rows("states"), key=lambda row: row["turn"])
    assert first["state_id"] == f"{first['episode_id']}__t0"
    assert first["episode_id"].startswith("t9-")  # of the task and the content: runs share the task's id
    assert (first["url"], second["url"]) == ("https://shop.example/", None)
    assert [(e["turn"], e["thought"], e["action"]) for e in second["history"]] == [(0, "Open it.", "click(10, 20)")]
    assert first["demo_response"] == "<think>Open it.</think>\nclick(10, 20)"
    assert first["screenshot_sha256"] != second["screenshot_sha256"]
    assert json.loads(first["source_record_json"]) == {"task_id": "t9", "final_result_response": "done"}
    made = built.row("candidate_sets")
    assert [(c["action"], c["thought"]) for c in made["candidates"]] == [("click(10, 20)", ""), ("noop()", "Wait.")]
    assert json.loads(made["source_record_json"]) == {"votes": {"0": 5}}
    verdict = built.row("teacher_labels")
    assert (verdict["label_id"], verdict["selected_index"]) == (f"{first['state_id']}#d0|vote|-|0", 0)


def test_runs_of_one_task_are_told_apart_and_the_same_run_is_one(toy: Toy) -> None:
    records = [run(toy), run(toy, thoughts=["Go.", None]), run(toy)]
    built = build(toy, *records)
    assert built.balanced()
    assert len({row["episode_id"] for row in built.rows("states")}) == 2
    assert len(built.excluded("states")["duplicate_record"]) == 2
    assert len(built.excluded("candidate_sets")["duplicate_record"]) == 1


PLANTED: list[tuple[Record, str, str]] = [
    ({"thoughts": ["Open it."]}, "$.thoughts", "has 1 entries for 2 actions"),
    ({"vote_log": [vote("noop()", step=2)]}, "$.vote_log[0].step", "is 2: the run has 2 steps"),
    ({"vote_log": [vote("noop()"), vote("go_back()", step=0)]}, "$.vote_log[1].step", "is 0: a second vote for it"),
    ({"vote_log": [vote("noop()", pick=-1)]}, "$.vote_log[0].selected_orig_idx", "below the least allowed 0"),
    ({"vote_log": [{"candidates": ["noop()"]}]}, "$.vote_log[0]", "lacks the field 'selected_orig_idx'"),
    ({"action_history": []}, "$.action_history", "is an empty list"),
    (
        {"action_history": ["noop()"] * 3, "thoughts": [None] * 3},
        "$.action_history[2]",
        "there is no screenshot of step 2 in the folder trajectory",
    ),
]


@pytest.mark.parametrize(("change", "place", "message"), PLANTED, ids=[p[2][:30] for p in PLANTED])
def test_planted_faults_are_named(toy: Toy, change: Record, place: str, message: str) -> None:
    with pytest.raises(ArmError) as caught:
        build(toy, run(toy, **change))
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("run/result.json", 1, place)
    assert message in issue.message


def test_planted_faults_can_be_left_out(toy: Toy) -> None:
    records = [run(toy, **change) for change, *_ in PLANTED]
    built = build(toy, *records, on_invalid="exclude")
    assert built.balanced()
    reasons = {stage: {k: len(v) for k, v in built.excluded(stage).items()} for stage in TABLES}
    # A record that breaks its schema is one unit of what a run begins with: states.
    assert reasons["states"] == {"image_missing": 1, "invalid_record": 4}
    assert reasons["candidate_sets"] == {"invalid_record": 2}
    ledger = built.identity["ledger"]
    assert [(ledger[t]["in"], ledger[t]["out"]) for t in TABLES] == [(11, 6), (4, 2), (2, 2)]


# -- distilled rows --------------------------------------------------------------------------------------------------


def row(toy: Toy, step: int = 0, selection: int = 2, **record: Any) -> Record:
    asked = [{"type": "text", "text": "Pick."}, {"type": "image_url", "image_url": {"url": toy.data_url(step)}}]
    return {
        "task_id": "t9", "step": step, "selection": selection, "n_candidates": 4,
        "messages": [{"role": "system", "content": "You pick."}, {"role": "user", "content": asked}],
        "completion": f'Because.\n{{"selection": {selection}}}', **record,
    }  # fmt: skip


def distil(toy: Toy, *records: Record, **declared: Any) -> Build:
    source = toy.lay("selection_sft", "molmoweb_catts", "catts.jsonl", records, **declared)
    return toy.build(sources=(source,), tables=("selection_sft",), images={"selection_sft": "embed"}, selection=None)


def test_distilled_rows_are_taken_as_they_are(toy: Toy) -> None:
    text = row(toy, 1, messages=[{"role": "user", "content": "See <image> and pick."}], images=[toy.data_url(1)])
    built = distil(toy, row(toy), text)
    assert built.balanced()
    rows = {len(r["prompt"]): r for r in built.rows("selection_sft")}
    assert [block["type"] for block in rows[2]["prompt"][1]["content"]] == ["text", "image"]
    assert [block["text"] for block in rows[1]["prompt"][0]["content"]] == ["See ", None, " and pick."]
    assert rows[1]["completion"][0]["content"][0]["text"] == text["completion"]
    assert {r["order"] for r in rows.values()} == {None}
    assert len({r["split"] for r in rows.values()}) == 1  # one task


FAULTS: list[tuple[Record, str, str]] = [
    ({"selection": 3}, "$.completion", "picks 2, and selection is 3"),
    ({"completion": "the second"}, "$.completion", "is unparsed, and selection is 2"),
    ({"n_candidates": 1}, "$.completion", "is out_of_range"),
    ({"selection": 0}, "$.selection", "below the least allowed 1"),
    ({"images": ["a.png"]}, "$.images", "has 2 pictures, and the prompt has <image> 1 times"),
    (
        {"messages": [{"role": "user", "content": "<image>"}]},
        "$.images",
        "has 0 pictures, and the prompt has <image> 1",
    ),
    ({"messages": [{"role": "user", "content": []}]}, "$.messages[0].content", "is empty"),
]


@pytest.mark.parametrize(("change", "place", "message"), FAULTS, ids=[f[2][:30] for f in FAULTS])
def test_planted_faults_of_distilled_rows_are_named(toy: Toy, change: Record, place: str, message: str) -> None:
    made = row(toy) | {"completion": '{"selection": 2}'} | change
    with pytest.raises(ArmError) as caught:
        distil(toy, row(toy, 1), made)
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("catts.jsonl", 2, place)
    assert message in issue.message
    built = distil(toy, row(toy, 1), made, on_invalid="exclude")
    assert built.balanced()
    assert {k: len(v) for k, v in built.excluded("selection_sft").items()} == {"invalid_record": 1}
