"""The file of labels: every question with its outcome, and the same labels after a build."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.generate import labels
from action_reward_models.builders.generate.asking import AskWork
from action_reward_models.builders.generate.labels import reasoning_of
from action_reward_models.builders.generate.log import AnswerLog
from action_reward_models.builders.generate.seeding import seed_log
from action_reward_models.builders.generate.spec import AskSpec
from action_reward_models.builders.spec import PromptSpec, SelectionSpec
from action_reward_models.prompts.replies import REPLY_STATUSES
from action_reward_models.schemas.store import load
from action_reward_models.schemas.validate import for_schema
from action_reward_models.servers.answers import Answer, Choice
from action_reward_models.servers.requests import Request
from action_reward_models.tests.builders.generate.answering import log, lost, said

if TYPE_CHECKING:
    from pathlib import Path

    from action_reward_models.builders.generate.written import Written

    from tests.builders.conftest import Toy

SPEC = AskSpec("teacher", "judge", PromptSpec("selection/1"), 200)
# What a reply has to be for each outcome that the parser knows; three candidates are shown.
REPLIES: dict[str, Choice] = {
    "ok": Choice('It says TWO. {"selection": 2}', "stop"),
    "ambiguous": Choice('{"selection": 1} or {"selection": 2}', "stop"),
    "out_of_range": Choice('{"selection": 4}', "stop"),
    "unparsed": Choice("the second", "stop"),
    "truncated": Choice("Let me see whether", "length"),
    "refused": Choice("", "stop", "I cannot help with that."),
    "content_filter": Choice("", "content_filter"),
}
LOST = {"rejected": "error", "failed": "error", "expired": "expired", "missing": "missing"}


def work_of(toy: Toy, spec: AskSpec = SPEC) -> AskWork:
    built = toy.build(tables=("states", "candidate_sets"))
    return AskWork(built.folder, spec, "judge-x", toy.folder / "generated" / "labels.jsonl")


def lines(path: Path) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert all(for_schema("table_label/1").problems(record) == [] for record in found)
    assert len({record["label_id"] for record in found}) == len(found)
    return {record["set_id"]: record for record in found}


def counts(written: Written) -> tuple[int, int, dict[Any, int], int]:
    return written.planned, written.complete, dict(written.failed), written.not_asked


def every_outcome(request: Request) -> Answer | None:
    """The page of a request is named for what becomes of it."""
    name = request.group.removesuffix("__t0")
    if name in LOST:
        return lost(request, name, f"500 {name}", batch_id="batch_7")
    return replace(said(request, ""), choices=(REPLIES[name],)) if name in REPLIES else None


def test_every_status_comes_from_somewhere(toy: Toy) -> None:
    for number, name in enumerate((*REPLIES, *LOST, "not_asked")):
        toy.page(name, picture=number)
        toy.draw(f"{name}__t0", "click(1, 1)", "click(7, 7)", "stop()")
    made = work_of(toy)
    log(made, every_outcome)
    assert counts(labels.write(made)) == (12, 7, {"expired": 1, "failed": 1, "missing": 1, "rejected": 1}, 1)
    written = lines(made.path)
    statuses = {set_id.partition("__")[0]: label["status"] for set_id, label in written.items()}
    assert statuses == {**{name: name for name in REPLIES}, **LOST}
    assert set(REPLIES) == set(REPLY_STATUSES)
    # Nobody asks for these: other datasets record them, and the format of tables reads them.
    recorded = [
        {**written["ok__t0#d0"], "label_id": f"x|{name}", "selected_index": None, "status": name}
        for name in ("none_fit", "abstain", "null_in_source")
    ]
    both = [*written.values(), *recorded]
    laid = toy.lay("teacher_labels", "table", "labels.jsonl", both)
    built = toy.build(sources=(*toy.sources(), laid))
    found = {row["label_id"]: row["status"] for row in built.rows("teacher_labels")}
    assert found == {record["label_id"]: record["status"] for record in both}
    assert set(found.values()) == set(load("teacher_label/1")["properties"]["status"]["enum"])
    assert built.excluded("selection_sft").keys() == set(found.values()) - {"ok"}
    assert built.balanced()


def test_a_label_holds_all_that_was_recorded(toy: Toy) -> None:
    toy.draw(toy.page("a"), "click(1, 1)", "click(7, 7)", "stop()", "click(1,1)")
    made = work_of(toy, replace(SPEC, sampler_seed=4))
    log(made, lambda r: said(r, 'Yes. {"selection": 2}', batch_id="batch_1"))
    labels.write(made)
    (question,) = made.plan()
    (label,) = lines(made.path).values()
    order = question.orders[0]
    assert label == {
        "label_id": "a__t0#d0|judge-x|selection/1|0",
        "set_id": "a__t0#d0",
        "teacher": "judge-x",
        "teacher_params_json": '{"max_tokens":200,"model":"judge","seed":4,"temperature":0.0,"top_p":1.0}',
        "repeat": 0,
        "prompt_id": "selection/1",
        "prompt_sha256": made.prompt.sha256,
        "order": list(order),
        "selected_index": order[1],
        "status": "ok",
        "reasoning": "Yes.",
        "reply": 'Yes. {"selection": 2}',
        "usage_json": '{"completion_tokens":9}',
        "batch_id": "batch_1",
        "custom_id": question.request.key,
        "source_record_json": label["source_record_json"],
    }
    assert json.loads(label["source_record_json"]) == {
        "engine": "vllm", "engine_version": "0.32.0", "finish_reason": "stop", "served_model": "served",
        "rendered_sha256": question.rendered_sha256,
    }  # fmt: skip


def test_a_build_gives_the_same_labels_and_rows(toy: Toy) -> None:
    for number in range(6):
        toy.page(f"p{number}", picture=number, task=f"Click number {number}.")
        toy.draw(f"p{number}__t0", "click(1, 1)", "stop()", "click(7, 7)", "click(1,1)")
    made = work_of(toy, replace(SPEC, repeats=2))
    log(made, lambda r: said(r, f'{{"selection": {1 + int(r.key, 16) % 3}}}'))
    labels.write(made)
    rows = [json.loads(line) for line in made.path.read_bytes().splitlines()]
    laid = toy.lay("teacher_labels", "table", "labels.jsonl", rows)
    built = toy.build(sources=(*toy.sources(), laid))
    found = {row["label_id"]: row for row in built.rows("teacher_labels")}
    assert len(found) == 12
    for row in rows:
        assert {name: found[row["label_id"]][name] for name in row} == row
    sets = {row["set_id"]: row for row in built.rows("candidate_sets")}
    trained = {row["label_id"]: row for row in built.rows("selection_sft")}
    assert len(trained) == 6  # the first repeat of each set
    for label_id, row in trained.items():
        label = found[label_id]
        candidates = sets[label["set_id"]]["candidates"]
        number = json.loads(row["completion"][0]["content"][0]["text"])["selection"]
        picked = candidates[label["selected_index"]]["action_key"]
        assert candidates[row["order"][number - 1]]["action_key"] == picked
        assert label["tie_indices"] == [
            c["index"] for c in candidates if c["action_key"] == picked and c["index"] != label["selected_index"]
        ]
    assert any(list(row["order"]) != found[label_id]["order"] for label_id, row in trained.items())


def test_rows_with_the_teachers_reasoning_show_what_it_was_about(toy: Toy) -> None:
    """ "Candidate 2" is another one in another order: the row has the teacher's, and is the prompt that it saw."""
    for number in range(6):
        toy.page(f"p{number}", picture=number, task=f"Click number {number}.")
        toy.draw(f"p{number}__t0", "click(1, 1)", "stop()", "click(7, 7)", "click(1,1)")
    prompt = PromptSpec("selection/1", options={"reasoning": "before"})
    made = work_of(toy, replace(SPEC, prompt=prompt))
    log(made, lambda r: said(r, 'Candidate 2 is best.\n\n{"selection": 2}'))
    labels.write(made)
    rows = [json.loads(line) for line in made.path.read_bytes().splitlines()]
    laid = toy.lay("teacher_labels", "table", "labels.jsonl", rows)
    built = toy.build(sources=(*toy.sources(), laid), selection=SelectionSpec(prompt))
    trained = {row["label_id"]: row for row in built.rows("selection_sft")}
    assert len(trained) == 6
    for label in rows:
        row = trained[label["label_id"]]
        assert row["completion"][0]["content"][0]["text"] == label["reply"]
        assert row["order"] == label["order"]
        assert row["rendered_sha256"] == json.loads(label["source_record_json"])["rendered_sha256"]


def test_reasoning_keeps_its_numbers_where_rows_show_what_the_teacher_was_not_shown(toy: Toy) -> None:
    """It was asked about each action once; ``duplicates: keep`` shows the second candidates of an action, too."""
    for number in range(6):
        toy.page(f"p{number}", picture=number, task=f"Click number {number}.")
        toy.draw(f"p{number}__t0", "click(1, 1)", "click(1,1)", "stop()", "click(1, 1)", "click(7, 7)")
    prompt = PromptSpec("selection/1", options={"reasoning": "before"})
    made = work_of(toy, replace(SPEC, prompt=prompt))
    log(made, lambda r: said(r, 'Candidate 2 is best.\n\n{"selection": 2}'))
    labels.write(made)
    rows = [json.loads(line) for line in made.path.read_bytes().splitlines()]
    laid = toy.lay("teacher_labels", "table", "labels.jsonl", rows)
    built = toy.build(sources=(*toy.sources(), laid), selection=SelectionSpec(prompt, duplicates="keep"))
    trained = {row["label_id"]: row for row in built.rows("selection_sft")}
    assert len(trained) == 6
    for label in rows:
        row = trained[label["label_id"]]
        assert row["completion"][0]["content"][0]["text"] == label["reply"]
        assert list(row["order"][:3]) == label["order"]
        assert sorted(row["order"]) == [0, 1, 2, 3, 4]


def test_an_answer_is_shared_by_sets_of_the_same_actions(toy: Toy) -> None:
    page = toy.page("a")
    toy.draw(page, "click(1, 1)", "stop()", "click(7, 7)")
    toy.draw(page, "stop()", "stop()", "click(7, 7)", "click(1, 1)", number=1)
    toy.draw(page, "stop()", "click(7, 7)", number=2)
    made = work_of(toy)
    log(made, lambda r: said(r, '{"selection": 1}'))
    assert counts(labels.write(made)) == (3, 3, {}, 0)
    written = lines(made.path)
    lead, other, apart = (written[f"a__t0#d{draw}"] for draw in range(3))
    actions = {"a__t0#d0": "csk", "a__t0#d1": "sskc"}
    named = [actions[label["set_id"]][label["selected_index"]] for label in (lead, other)]
    assert named[0] == named[1]
    assert [actions["a__t0#d0"][i] for i in lead["order"]] == [actions["a__t0#d1"][i] for i in other["order"]]
    assert lead["custom_id"] == other["custom_id"] != apart["custom_id"]
    assert (other["usage_json"], other["reply"]) == (None, lead["reply"])
    recorded = json.loads(other["source_record_json"])
    assert recorded.pop("asked_as") == "a__t0#d0"
    assert recorded == json.loads(lead["source_record_json"])
    assert "asked_as" not in apart["source_record_json"]


def test_a_salvaged_verdict_says_so(toy: Toy) -> None:
    toy.draw(toy.page("a"), "click(1, 1)", "stop()")
    made = work_of(toy)
    log(made, lambda r: said(r, '{"selection": 2, "tho', finish_reason="length"))
    labels.write(made)
    (label,) = lines(made.path).values()
    assert label["status"] == "ok"
    assert json.loads(label["source_record_json"])["salvaged"] is True


@pytest.mark.parametrize(
    ("text", "apart", "found"),
    [
        ('{"selection": 1}', None, ""),
        ('{"selection": 1}', "I think so.", "I think so."),
        ("no verdict", "I think so.", "I think so."),
        ("no verdict", None, ""),
        ('It is TWO.\n\n```json\n{"selection": 1}\n```', None, "It is TWO."),
        ('<think>maybe</think>\nIt is TWO. {"selection": 1}', "deep", "deep\n\nmaybe\n\nIt is TWO."),
        ('maybe {"selection": 2}</think>{"selection": 1}', None, 'maybe {"selection": 2}'),
        ('{"reasoning": "It is \\"TWO\\".", "selection": 1}', None, 'It is "TWO".'),
        ('{"reasoning": 3, "selection": 1}', None, ""),
        ('So: {"selection": 1, "reasoning": "cut', None, "So:"),
        ('So: {"selection": 1, "selection": 2}', None, "So:"),
        ('{"a": "\ud800", "selection": 1}', None, ""),
        ('{"selection": 1} because', None, ""),
    ],
)
def test_reasoning_is_what_stands_before_the_verdict(text: str, apart: str | None, found: str) -> None:
    assert reasoning_of(text, apart) == found


def test_a_reply_that_is_none_is_an_error(toy: Toy) -> None:
    toy.draw(toy.page("a"), "click(1, 1)", "stop()")
    made = work_of(toy)
    log(made, said)
    assert counts(labels.write(made)) == (1, 0, {"failed": 1}, 0)
    (label,) = lines(made.path).values()
    assert (label["status"], label["reply"]) == ("error", None)
    assert json.loads(label["source_record_json"])["detail"] == "0 replies to a request for 1"


def test_the_order_of_answers_changes_nothing_and_stale_ones_are_counted(toy: Toy) -> None:
    for number in range(8):
        toy.scene(f"p{number}", picture=number)
    made, rng, files = work_of(toy), random.Random(2), set()
    requests = list(made.requests())
    for _ in range(3):
        rng.shuffle(requests)
        log(made, lambda r: said(r, '{"selection": 1}'), requests)
        assert labels.write(made).stale == 0
        files.add(made.path.read_bytes())
        shutil.rmtree(made.folder)
    assert len(files) == 1
    log(made, lambda r: said(r, '{"selection": 1}'))
    again = AskWork(made.basis, replace(SPEC, temperature=1.0), made.teacher, made.path)
    written = labels.write(again)
    assert (written.stale, written.not_asked, written.complete) == (8, 8, 0)


def test_a_log_comes_back_from_the_file(toy: Toy) -> None:
    for number, name in enumerate((*REPLIES, *LOST, "not_asked")):
        toy.page(name, picture=number)
        toy.draw(f"{name}__t0", "click(1, 1)", "click(7, 7)", "stop()")
        toy.draw(f"{name}__t0", "stop()", "click(1, 1)", "click(7, 7)", number=1)

    def answer(request: Request) -> Answer | None:
        given = every_outcome(request)
        if given is None or not given.choices:
            return given
        return replace(given, choices=(replace(given.choices[0], reasoning="apart"),))

    made = work_of(toy)
    log(made, answer)
    assert counts(labels.write(made))[3] == 2
    before = made.path.read_bytes()
    logs = [AnswerLog(made.folder).shard(shard) for shard in range(64)]
    shutil.rmtree(made.folder)
    assert seed_log(made) == 11
    assert [AnswerLog(made.folder).shard(shard) for shard in range(64)] == logs
    assert seed_log(made) == 0
    labels.write(made)
    assert made.path.read_bytes() == before
