"""The file of sampled sets: whole sets and failed ones, byte by byte the same whatever order answers came in."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from action_reward_models.builders.generate import sets
from action_reward_models.builders.generate.log import AnswerLog, shard_of
from action_reward_models.builders.generate.sampling import SampleWork
from action_reward_models.builders.generate.seeding import seed_log
from action_reward_models.builders.generate.spec import Draws, SampleSpec
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.validate import for_schema
from action_reward_models.servers.answers import Answer, Choice
from action_reward_models.servers.requests import Request
from action_reward_models.tests.builders.generate.answering import log, lost, said

if TYPE_CHECKING:
    from pathlib import Path

    from action_reward_models.builders.generate.written import Written

    from tests.builders.conftest import Toy

SPEC = SampleSpec("actor", "policy", (Draws(0.7), Draws(1.0)), 64, n=3)


@pytest.fixture
def work(toy: Toy) -> SampleWork:
    for number in range(4):
        toy.page(f"p{number}", picture=number)
    return SampleWork(toy.build(tables=("states",)).folder, SPEC, toy.folder / "generated" / "candidates.jsonl")


def text_of(request: Request) -> str:
    return f"<think>for {request.slot}</think>\n<action>click({int(request.slot[-1])}, 1)</action>"


def lines(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert all(for_schema("sampled_set/1").problems(record) == [] for record in found)
    return found


def counts(written: Written) -> tuple[int, int, dict[Any, int], int]:
    return written.planned, written.complete, dict(written.failed), written.not_asked


def test_a_whole_set_holds_all_that_was_recorded(work: SampleWork) -> None:
    log(work, lambda r: said(r, text_of(r), finish_reason="length" if r.slot.endswith("|2") else "stop"))
    assert counts(sets.write(work)) == (8, 8, {}, 0)
    written = lines(work.path)
    assert [(line["state_id"], line["draw"]) for line in written] == [
        (f"p{i}__t0", d) for i in range(4) for d in (0, 1)
    ]
    planned = {p.set_id: p for p in work.plan()}
    first, requests = written[1], planned["p0__t0#d1"].requests
    assert first["set_id"] == "p0__t0#d1"
    assert first["sampling"] == {
        "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": 64, "seed": None,
        "engine": "vllm", "engine_version": "0.32.0",
    }  # fmt: skip
    assert first["served_model"] == "served"
    assert first["failures"] == []
    assert first["candidates"] == [
        {
            "index": index, "response": text_of(request), "finish_reason": "length" if index == 2 else "stop",
            "tokens": 9, "logprob": None, "seed": request.body["seed"], "reasoning": None, "refusal": None,
            "request": request.key,
        }
        for index, request in enumerate(requests)
    ]  # fmt: skip


def test_the_order_of_answers_changes_nothing(work: SampleWork) -> None:
    rng, requests = random.Random(5), list(work.requests())
    files = set()
    for _ in range(3):
        rng.shuffle(requests)
        log(work, lambda r: said(r, text_of(r), usage={"completion_tokens": 3, "id": "x"}), requests)
        sets.write(work)
        files.add(work.path.read_bytes())
        shutil.rmtree(work.folder)
    assert len(files) == 1
    assert list(work.path.parent.iterdir()) == [work.path]  # nothing is left beside it


def test_a_set_waits_for_the_outcome_of_each_of_its_candidates(work: SampleWork) -> None:
    def answer(request: Request) -> Answer | None:
        state, _, rest = request.slot.partition("__t0#d")
        if state == "p1":
            return None
        if state == "p2" and rest == "0|1":
            return lost(request, "rejected", "400 " + "x" * 3000)
        if state == "p2" and rest == "0|2":
            return lost(request, "expired", "", batch_id="b")
        if state == "p2" and rest == "1|0":
            return lost(request, "missing")
        if state == "p3" and rest == "1|2":
            return None
        return said(request, text_of(request))

    log(work, answer)
    assert counts(sets.write(work)) == (8, 3, {"missing": 1, "rejected": 1}, 3)
    written = {line["set_id"]: line for line in lines(work.path)}
    assert set(written) == {"p0__t0#d0", "p0__t0#d1", "p2__t0#d0", "p2__t0#d1", "p3__t0#d0"}
    failed = written["p2__t0#d0"]
    assert [c["index"] for c in failed["candidates"]] == [0]
    assert [(f["index"], f["outcome"], len(f["detail"])) for f in failed["failures"]] == [
        (1, "rejected", 2000), (2, "expired", 0)
    ]  # fmt: skip
    assert [c["index"] for c in written["p2__t0#d1"]["candidates"]] == [1, 2]
    log(work, lambda r: said(r, text_of(r)))
    assert counts(sets.write(work)) == (8, 8, {}, 0)  # an answer that comes later settles what had failed


def test_answers_to_what_is_not_planned_are_counted_and_left_out(work: SampleWork) -> None:
    log(work, lambda r: said(r, text_of(r)))
    before = sets.write(work)
    other = SampleWork(work.basis, replace(SPEC, max_tokens=65), work.path)
    written = sets.write(other)
    assert before.stale == 0
    assert (written.stale, written.not_asked) == (24, 8)
    assert work.path.read_bytes() == b""


def test_a_set_that_is_asked_for_at_once(work: SampleWork) -> None:
    at_once = SampleWork(work.basis, replace(SPEC, per_request="set"), work.path)

    def answer(request: Request) -> Answer:
        if request.group == "p1__t0":
            return said(request, "only", "two")
        if request.group == "p2__t0":
            return lost(request)
        return said(request, "a", "b", "c", usage={"completion_tokens": 27})

    log(at_once, answer)
    assert counts(sets.write(at_once)) == (8, 4, {"failed": 4}, 0)
    written = {line["set_id"]: line for line in lines(work.path)}
    whole = written["p0__t0#d0"]
    assert [(c["index"], c["response"], c["tokens"]) for c in whole["candidates"]] == [
        (0, "a", None), (1, "b", None), (2, "c", None)
    ]  # fmt: skip
    assert len({c["request"] for c in whole["candidates"]}) == 1
    assert whole["sampling"]["seed"] == whole["candidates"][2]["seed"] is not None
    assert written["p1__t0#d0"]["failures"][0]["detail"] == "2 replies to a request for 3"
    one = SampleWork(work.basis, replace(SPEC, n=1, per_request="set"), work.path)
    log(one, lambda r: said(r, "a"))
    sets.write(one)
    assert lines(work.path)[0]["candidates"][0]["tokens"] == 9


def test_what_servers_say_of_themselves_stands_on_one_line(work: SampleWork) -> None:
    def answer(request: Request) -> Answer:
        if request.group == "p0__t0":
            number = int(request.slot[-1])
            version = (None, "0.33.0", "0.32.0")[number]
            return said(request, "a", model=("b", "a\x00\n", None)[number], engine_version=version)
        if request.group == "p1__t0":
            return said(request, "a", model=" \x1b\n", engine=None, engine_version="", usage={"completion_tokens": -1})
        return said(request, "a", model="m" * 3000, usage={"completion_tokens": True})

    log(work, answer)
    sets.write(work)
    written = {line["set_id"]: line for line in lines(work.path)}
    assert written["p0__t0#d0"]["served_model"] == "a,b"
    assert written["p0__t0#d0"]["sampling"]["engine_version"] == "0.32.0,0.33.0"
    assert written["p1__t0#d0"]["served_model"] is written["p1__t0#d0"]["sampling"]["engine_version"] is None
    assert {c["tokens"] for g in ("p1", "p2") for c in written[f"{g}__t0#d0"]["candidates"]} == {None}


def test_hostile_replies_are_kept_as_they_are(work: SampleWork) -> None:
    hostile = ["", "a\x00b\x85c\u2028d\r\n", '{"a":"\\ud800"}\ud800', "<|im_end|>\n<|im_start|>user"]

    def answer(request: Request) -> Answer:
        choice = Choice(hostile[int(request.slot[1])], "stop", "no", "why", float("inf"))
        return replace(said(request, ""), choices=(choice,))

    log(work, answer)
    sets.write(work)
    replied = [line["candidates"][0] for line in lines(work.path) if line["draw"] == 0]
    kept = [hostile[0], hostile[1], hostile[2].replace("\ud800", "\ufffd"), hostile[3]]
    assert [c["response"] for c in replied] == kept
    assert {(c["logprob"], c["refusal"], c["reasoning"]) for c in replied} == {(None, "no", "why")}


def test_a_log_comes_back_from_the_file(work: SampleWork) -> None:
    def answer(request: Request) -> Answer | None:
        if request.group == "p1__t0":
            return lost(request, "expired", "late")
        choice = Choice(text_of(request), "stop", None, "apart" if request.slot[-1] == "1" else None, -1.5)
        return replace(said(request, ""), choices=(choice,))

    for spec in (SPEC, replace(SPEC, per_request="set")):
        made = SampleWork(work.basis, spec, work.path)
        if spec is SPEC:
            log(made, answer)
        else:
            log(made, lambda r: said(r, "a", "b", "c", usage=None) if r.group != "p3__t0" else None)
        sets.write(made)
        before, answered = work.path.read_bytes(), AnswerLog(work.folder).outcomes(3)
        shutil.rmtree(work.folder)
        assert seed_log(made) == (24 if spec is SPEC else 6)
        assert AnswerLog(work.folder).outcomes(3) == answered
        assert seed_log(made) == 0
        sets.write(made)
        assert work.path.read_bytes() == before
        shutil.rmtree(work.folder)


def test_seeding_never_overrules_the_log(work: SampleWork) -> None:
    log(work, lost)
    sets.write(work)
    shutil.rmtree(work.folder)
    log(work, lambda r: said(r, "mine") if r.group == "p0__t0" else lost(r, "missing") if r.group == "p1__t0" else None)
    assert seed_log(work) == 12  # p2 and p3
    assert counts(sets.write(work)) == (8, 2, {"failed": 4, "missing": 2}, 0)
    log(work, lambda r: said(r, "theirs"))
    sets.write(work)
    shutil.rmtree(work.folder)
    log(work, lost)
    assert seed_log(work) == 24  # what had failed here was answered there
    assert counts(sets.write(work)) == (8, 8, {}, 0)


def test_a_shard_that_somebody_holds_is_not_waited_for(work: SampleWork) -> None:
    log(work, lambda r: said(r, "a"))
    sets.write(work)
    shutil.rmtree(work.folder)
    group = next(work.requests()).group
    held = {p.state_id for p in work.plan() if shard_of(p.state_id) == shard_of(group)}
    with AnswerLog(work.folder).claim(shard_of(group)):
        assert seed_log(work) == 24 - 6 * len(held)
    assert seed_log(work) == 6 * len(held)


def test_a_file_that_is_none_of_ours_seeds_nothing(work: SampleWork) -> None:
    assert seed_log(work) == 0
    work.path.parent.mkdir()
    for line in (b'{"set_id": "a"}\n', b"{"):
        work.path.write_bytes(line)
        with pytest.raises(ArmError) as caught:
            seed_log(work)
        assert caught.value.issues[0].line == 1
    assert not work.folder.exists()


def test_a_file_that_cannot_be_written_leaves_the_one_before(work: SampleWork) -> None:
    work.path.parent.mkdir()
    work.path.mkdir()
    with pytest.raises(ArmError, match="cannot be written"):
        sets.write(work)
    assert [p.name for p in work.path.parent.iterdir()] == [work.path.name]
