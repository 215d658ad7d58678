"""Files of the MolmoWeb era: states, candidates, selections, scores; and two eras in one dataset."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.importers import IMPORTERS, Context, InvalidTurn
from action_reward_models.builders.spec import PairSpec, PointwiseSpec, PromptSpec, SelectionSpec
from action_reward_models.schemas.errors import ArmError

if TYPE_CHECKING:
    from tests.builders.conftest import Build, Toy

Record = dict[str, Any]
SPOKEN = {"dialect": "molmoweb", "space": "pixel"}
TABLES = ("states", "candidate_sets", "teacher_labels")


def wide_png(number: int, width: int = 1280, height: int = 720) -> bytes:
    """A screenshot of the era's own size; other numbers give other pictures."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\0" + bytes([number]) * width) * height
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def step(action: str, thought: str | None = "Look.", **more: Any) -> Record:
    return {"action_str": action, "thought": thought, **more}


def state(toy: Toy, number: int, steps: int = 0, **record: Any) -> Record:
    """A state whose screenshot lies beside the file, with earlier steps at (640, 360)."""
    path = toy.folder / "shots" / f"{number}.png"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(wide_png(number))
    history = [step("click(640, 360)", coord=[640, 360], action_description="Click the middle")] * steps
    return {
        "state_id": number, "sample_id": f"run-{number}", "task": f"Find kettle {number}.", "step_idx": steps,
        "url": "https://Shop.example/a", "screenshot": f"shots/{number}.png", "history": history, **record,
    }  # fmt: skip


def candidate(number: int, action: str, raw: str | None = None, thought: str | None = "Go.") -> Record:
    return {"cand_idx": number, "raw": raw, "action_str": action, "thought": thought}


def drawn(number: int, *actions: str, **record: Any) -> Record:
    candidates = [candidate(n, action) for n, action in enumerate(actions, 1)]
    return {"state_id": number, "prompt": "What next?", "candidates": candidates, **record}


def label(number: int, pick: int | None, ok: bool = True, **record: Any) -> Record:
    return {"state_id": number, "selected_orig_idx": pick, "ok": ok, **record}


def build(
    toy: Toy,
    states: list[Record],
    sets: Sequence[Record] = (),
    labels: Sequence[Record] = (),
    **changes: Any,
) -> Build:
    declared = changes.pop("declared", {})
    sources = [toy.lay("states", "molmoweb", "states.jsonl", states, **SPOKEN, **declared)]
    if sets:
        sources.append(toy.lay("candidate_sets", "molmoweb", "candidates.jsonl", sets, **SPOKEN, **declared))
    if labels:
        sources.append(toy.lay("teacher_labels", "molmoweb", "selections.jsonl", labels, **declared))
    return toy.build(sources=(*sources, *changes.pop("more", ())), **changes)


def test_everything_finds_its_place(toy: Toy) -> None:
    raw = '{"thought": "Go.", "action": "mouse_click(x=1180.0, y=40.0)"}'
    sets = [drawn(7, "click(1, 2)", "scroll(0, 300)"), drawn(8, "click(10, 20)")]
    sets[0]["candidates"].append(candidate(3, "mouse_click(x=1180.0, y=40.0)", raw))
    sets[0]["candidates"].reverse()  # in some order
    reply = 'Because. {"selection": 3}'
    built = build(toy, [state(toy, 7, 2), state(toy, 8)], sets, [label(7, 2, raw=reply), label(8, 0)])
    assert built.balanced()
    row = built.row("states", state_id="7")
    assert (row["episode_id"], row["turn"], row["task"]) == ("run-7", 2, "Find kettle 7.")
    assert (row["url"], row["host"]) == ("https://Shop.example/a", "shop.example")
    assert (row["width"], row["height"]) == (1280, 720)
    assert [(entry["turn"], entry["action"]) for entry in row["history"]] == [
        (0, "click(640, 360)"),
        (1, "click(640, 360)"),
    ]
    assert json.loads(row["source_record_json"])["history"][0] == {
        "coord": [640, 360], "action_description": "Click the middle",
    }  # fmt: skip
    made = built.row("candidate_sets", set_id="7#d0")
    assert [c["action"] for c in made["candidates"]] == [
        "click(1, 2)",
        "scroll(0, 300)",
        "mouse_click(x=1180.0, y=40.0)",
    ]
    assert [c["thought"] for c in made["candidates"]] == ["Go.", "Go.", "Go."]
    assert made["candidates"][2]["response"] == raw  # it says what was carried out
    assert json.loads(made["source_record_json"])["prompt"] == "What next?"
    verdict = built.row("teacher_labels", set_id="7#d0")
    assert (verdict["selected_index"], verdict["status"], verdict["reply"]) == (2, "ok", reply)


def test_the_action_that_was_carried_out_counts_not_the_raw_reply(toy: Toy) -> None:
    """A raw reply has its points as percentages of the screen; the action string beside it is in pixels."""
    raw = '{"thought": "Go.", "action": {"name": "click", "x": 50, "y": 50}}'
    sets = [{"state_id": 7, "candidates": [candidate(1, "click(640, 360)", raw), candidate(2, "noop()", None, None)]}]
    made = build(toy, [state(toy, 7)], sets).row("candidate_sets")
    assert [c["parse_error"] for c in made["candidates"]] == [None, None]
    assert json.loads(made["candidates"][0]["action_json"])[0]["arguments"]["point"] == [640, 360]
    assert json.loads(made["source_record_json"])["candidates"][0] == {"cand_idx": 1, "raw": raw}


def test_a_label_that_is_not_ok_is_none(toy: Toy) -> None:
    """A client that could not read the reply falls back to the first candidate: that is not the teacher's pick."""
    cut = "x" * 160
    labels = [label(7, 0, ok=False, raw="no idea"), label(8, None), label(9, 1, raw=cut)]
    built = build(
        toy, [state(toy, n) for n in (7, 8, 9)], [drawn(n, "click(1, 2)", "noop()") for n in (7, 8, 9)], labels
    )
    rows = {row["state_id"]: row for row in built.rows("teacher_labels")}
    assert [(rows[n]["status"], rows[n]["selected_index"]) for n in "789"] == [
        ("null_in_source", None), ("null_in_source", None), ("ok", 1),
    ]  # fmt: skip
    assert json.loads(rows["7"]["source_record_json"]) == {"ok": False, "selected_orig_idx": 0}
    assert rows["7"]["reply"] == "no idea"
    assert rows["9"]["reply"] is None  # only its first 160 characters were kept
    assert json.loads(rows["9"]["source_record_json"])["raw"] == cut
    assert len(built.rows("selection_sft")) == 1


def test_a_pick_outside_the_set_is_an_outcome(toy: Toy) -> None:
    built = build(toy, [state(toy, 7)], [drawn(7, "click(1, 2)", "noop()")], [label(7, 2)])
    row = built.row("teacher_labels")
    assert (row["status"], row["selected_index"]) == ("out_of_range", None)
    assert json.loads(row["source_record_json"])["selected_orig_idx"] == 2
    assert built.excluded("selection_sft") == {"out_of_range": ["7#d0|-|-|0"]}
    assert built.balanced()


PLANTED: list[tuple[str, Record, str, str]] = [
    # file, change of a record, place, message
    (
        "candidates",
        {"candidates": [candidate(1, "noop()"), candidate(3, "noop()")]},
        "$.candidates",
        "the cand_idx 1, 3",
    ),
    (
        "candidates",
        {"candidates": [candidate(1, "noop()"), candidate(1, "go_back()")]},
        "$.candidates",
        "cand_idx 1, 1",
    ),
    ("candidates", {"candidates": [candidate(0, "noop()")]}, "$.candidates[0].cand_idx", "below the least allowed 1"),
    ("states", {"step_idx": 1}, "$.history", "has 2 steps, and only 1 came before step_idx 1"),
    ("states", {"screenshot": "../7.png"}, "$.screenshot", "is refused"),
    ("states", {"screenshot": "shots/none.png"}, "$.screenshot", "No such file"),
    ("states", {"state_id": "7"}, "$.state_id", "not an integer"),
    ("selections", {"selected_orig_idx": -1}, "$.selected_orig_idx", "below the least allowed 0"),
    ("selections", {"ok": None}, "$.ok", "not a boolean"),
    ("selections", {"selection": 1}, "$.selection", "is not a known field"),
]


@pytest.mark.parametrize(("file", "change", "place", "message"), PLANTED, ids=[f"{p[0]}-{p[2]}" for p in PLANTED])
def test_planted_faults_are_named(toy: Toy, file: str, change: Record, place: str, message: str) -> None:
    records = {"states": [state(toy, 7, 2)], "candidates": [drawn(7, "click(1, 2)")], "selections": [label(7, 0)]}
    records[file].append({**records[file][0], **change})
    with pytest.raises(ArmError) as caught:
        build(toy, *records.values(), tables=TABLES)
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == (f"{file}.jsonl", 2, place)
    assert message in issue.message


def test_planted_faults_can_be_left_out_and_are_counted(toy: Toy) -> None:
    states = [state(toy, 7, 2), state(toy, 8), state(toy, 9, screenshot="/etc/passwd"), state(toy, 7, 2, step_idx=0)]
    sets = [drawn(7, "click(1, 2)", "noop()"), drawn(8, "noop()"), drawn(9, "noop()"), drawn(99, "noop()")]
    sets += [drawn(8, "go_back()"), {"state_id": 7}]
    labels = [label(7, 1), label(7, 1), label(8, 0), label(99, 0), label(7, 5)]
    declared = {"on_invalid": "exclude", "on_conflict": "quarantine"}
    built = build(toy, states, sets, labels, declared=declared, tables=TABLES)
    assert built.balanced()
    assert built.excluded("states") == {"invalid_record": ["7"], "path_refused": ["9"]}
    found = built.excluded("candidate_sets")
    assert {k: v for k, v in found.items() if k != "invalid_record"} == {
        "conflicting_id": ["8#d0", "8#d0"], "no_state": ["9#d0", "99#d0"],
    }  # fmt: skip
    assert len(found["invalid_record"]) == 1
    assert built.excluded("teacher_labels") == {
        "conflicting_id": ["7#d0|-|-|0"] * 3,  # two picks for one set
        "no_candidate_set": ["8#d0", "99#d0"],
    }
    ledger = built.identity["ledger"]
    assert [(ledger[t]["in"], ledger[t]["out"]) for t in TABLES] == [(4, 2), (6, 1), (5, 0)]


# -- scores ----------------------------------------------------------------------------------------------------------


def scored(number: int, *scores: float | None, **record: Any) -> Record:
    made: list[Record] = [
        {"system": "s", "user_pre": "a", "user_post": "b", "action_str": f"click({n}, 5)"} for n in range(len(scores))
    ]
    for number_of, score in enumerate(scores):
        made[number_of].update({} if score is None else {"score": score})
    return {"state_id": number, "screenshot": f"shots/{number}.png", "cands": made, **record}


def test_scored_candidates_are_a_draw_of_their_own(toy: Toy) -> None:
    rewards = toy.lay("candidate_scores", "molmoweb", "reward_data.jsonl", [scored(7, 0.9, -1, None, 0.2)], **SPOKEN)
    changes: Record = {
        "tables": (*TABLES, "pointwise_scores"),
        "images": {"states": "embed", "pointwise_scores": "embed"},
    }
    built = build(
        toy, [state(toy, 7)], [drawn(7, "noop()", "go_back()")], [label(7, 0)], more=(rewards,),
        pointwise=PointwiseSpec(PromptSpec("scalar/1")), **changes,
    )  # fmt: skip
    assert built.balanced()
    assert [(row["set_id"], row["draw"], row["n"]) for row in built.rows("candidate_sets")] == [
        ("7#d0", 0, 2),
        ("7#d1", 1, 4),
    ]
    assert built.identity["ledger"]["candidate_scores"]["out"] == 1
    kept = json.loads(built.row("candidate_sets", set_id="7#d1")["source_record_json"])
    assert kept["cands"][0]["user_pre"] == "a"


def read(record: Record) -> list[Any]:
    importer = IMPORTERS["candidate_scores", "molmoweb"]
    return list(importer.read(record, Context("molmoweb", None)))  # type: ignore[arg-type]


def test_what_was_not_scored_has_no_score() -> None:
    _, found = read(scored(7, 0.9, -1, None, 0))
    assert found.kind == "candidate_scores"
    assert found.row["scores"] == [0.9, None, None, 0.0]
    record = scored(7, None)
    record["cands"][0]["prm_score"] = 0.5
    assert read(record)[1].row["scores"] == [0.5]


def test_two_scores_that_differ_are_named() -> None:
    record = scored(7, 0.9, 0.8)
    record["cands"][1]["prm_score"] = 0.7
    (problem,) = read(record)
    assert isinstance(problem, InvalidTurn)
    assert (problem.kind, problem.state_id, problem.path) == ("candidate_scores", "7#d1", "$.cands[1].prm_score")
    assert "0.7 and 0.8" in problem.message


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"cands": []}, "$.cands"),
        ({"cands": [{"action_str": "noop()", "score": "0.5"}]}, "$.cands[0].score"),
        ({"cands": [{"score": 0.5}]}, "$.cands[0]"),
        ({"state_id": None}, "$.state_id"),
        ({"cands": [{"action_str": "noop()", "score": 0.5, "prm_score": 0.1}]}, "$.cands[0].prm_score"),
    ],
)
def test_planted_faults_of_scores_are_named(toy: Toy, change: Record, place: str) -> None:
    rewards = toy.lay("candidate_scores", "molmoweb", "rewards.jsonl", [scored(7, 0.9, 0.2, **change)], **SPOKEN)
    with pytest.raises(ArmError) as caught:
        build(toy, [state(toy, 7)], more=(rewards,), tables=("states", "candidate_sets"))
    (issue,) = caught.value.issues
    assert (issue.file, issue.line, issue.path) == ("rewards.jsonl", 1, place)


# -- two eras --------------------------------------------------------------------------------------------------------

_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def _call(**arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'click', 'arguments': arguments})}\n</tool_call>"


def release_state(toy: Toy) -> Record:
    (toy.folder / "new.png").write_bytes(wide_png(200, 800, 600))
    turns = [
        ("system", "Use the tools."),
        ("user", f"<user_request>\nBuy a kettle\n</user_request>\n{_IMAGE}"),
        ("assistant", f"I look</think>\n{_call(point_2d=[250, 750])}"),
        ("user", f"<tool_response>\nClicked.\n{_IMAGE}\n</tool_response>"),
    ]
    prompt = "".join(f"<|im_start|>{role}\n{body}<|im_end|>\n" for role, body in turns)
    return {
        "state_id": "ep__t1", "episode_id": "ep", "turn": 1, "images": ["new.png"],
        "prompt_text": f"{prompt}<|im_start|>assistant\n<think>\n",
    }  # fmt: skip


def test_two_eras_in_one_dataset_show_one_space(toy: Toy) -> None:
    """Pixels of 1280 x 720 and thousandths, side by side: every point of every prompt is where a hand puts it."""
    norm = {"dialect": "openwebrl", "space": "norm1000"}
    said = [f"a</think>\n{_call(point_2d=point)}<|im_end|>" for point in ([125, 875], [999, 1])]
    new = {"state_id": "ep__t1#d0", "base_state_id": "ep__t1", "candidates": said}
    release = (
        toy.lay("states", "first_release", "states_full.jsonl", [release_state(toy)], **norm),
        toy.lay("candidate_sets", "first_release", "candidates_merged.jsonl", [new], **norm),
        toy.lay("teacher_labels", "first_release", "labels.jsonl", [{"state_id": "ep__t1#d0", "selection": 1}]),
    )
    sets = [drawn(7, "click(320, 180)", "mouse_click(x=1152.0, y=540.0)")]
    shown = {"coordinate_space": "norm1000"}
    built = build(
        toy, [state(toy, 7, 1)], sets, [label(7, 0)], more=release,
        selection=SelectionSpec(PromptSpec("selection/1", options=shown)),
        pairs=PairSpec(PromptSpec("scalar/1", options=shown)),
    )  # fmt: skip
    assert built.balanced()
    points = {
        row["state_id"]: re.findall(r"\d+(?:\.\d+)?,\s*(?:y=)?\d+(?:\.\d+)?", text_of(row["prompt"]))
        for row in built.rows("selection_sft")
    }
    # 640 / 1280, 360 / 720; 320 / 1280, 180 / 720; 1152 / 1280, 540 / 720, in thousandths
    assert numbers(points["7"]) == {(500, 500), (250, 250), (900, 750)}
    assert numbers(points["ep__t1"]) == {(250, 750), (125, 875), (999, 1)}
    (old,) = built.rows("bt_pairs", state_id="7")
    assert numbers(re.findall(r"\d+,\s*(?:y=)?\d+", text_of(old["prompt"]))) == {(500, 500)}  # the history
    assert numbers([text_of(old["chosen"])]) == {(250, 250)}
    assert numbers([text_of(old["rejected"])]) == {(900, 750)}
    assert old["relation"] == "different"  # two names for a click; points apart


def text_of(messages: list[Record]) -> str:
    return "\n".join(b["text"] for m in messages for b in m["content"] if b["type"] == "text")


def numbers(texts: list[str]) -> set[tuple[float, float]]:
    """The last two numbers of each text."""
    found = [re.findall(r"\d+(?:\.\d+)?", text) for text in texts]
    return {(float(n[-2]), float(n[-1])) for n in found}
