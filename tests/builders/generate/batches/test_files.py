"""Requests as files, for `vllm run-batch`, and both shapes of what comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.generate.batches.collect import collect
from action_reward_models.builders.generate.batches.files import WrittenFiles, collect_files, write_files
from action_reward_models.builders.generate.batches.ledger import Ledger
from action_reward_models.builders.generate.log import SHARDS, AnswerLog
from action_reward_models.schemas.errors import ArmError, UsageError
from action_reward_models.servers.endpoints import BatchLimits
from action_reward_models.tests.builders.generate.batches.scenes import (
    MODEL,
    Questions,
    collected,
    lines_of_log,
    outcomes,
    server_of,
    submitted,
)
from action_reward_models.tests.servers.stand_in import BatchScript, Script, StandIn, run_batch


def written(work: Questions, folder: Path, **limits: Any) -> WrittenFiles:
    return write_files(work, MODEL, folder, BatchLimits(**limits))


def ran(done: WrittenFiles, script: Script | None = None, attempt: int = 1) -> list[Path]:
    """As `vllm run-batch` is called for each of the files."""
    made = []
    for path in done.paths:
        out = path.with_name(path.name.replace("requests", "out"))
        run_batch(path, out, script, attempt=attempt)
        made.append(out)
    return made


def faulty(**rows: float) -> Script:
    return Script(batch=BatchScript(rows={name.removeprefix("s"): rate for name, rate in rows.items()}))


def test_files_hold_everything_once_and_each_line_its_model(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 10, pictures=True)
    done = written(work, tmp_path / "out", requests=5)
    assert [path.name for path in done.paths] == ["requests-00001.jsonl", "requests-00002.jsonl"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [path.name for path in done.paths]
    lines = [json.loads(line) for path in done.paths for line in path.read_bytes().splitlines()]
    assert {line["custom_id"] for line in lines} == work.keys()
    assert {line["body"]["model"] for line in lines} == {MODEL}
    assert done.written == len(lines) == 10
    with pytest.raises(UsageError, match="has files of requests"):
        written(work, tmp_path / "out")


def test_what_vllm_wrote_is_collected_and_the_rest_written_again(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 60)
    done = written(work, tmp_path / "1", requests=25)
    outputs = ran(done, faulty(s400=0.2, drop=0.2))
    found = collect_files(work, outputs)
    assert set(found.outcomes) == {"answered", "rejected", "missing"}
    assert found.outcomes.total() == 60
    assert found.files == [1, 2, 3]
    assert outcomes(work) == found.outcomes
    log = AnswerLog(work.folder)
    answers = [answer for shard in range(SHARDS) for answer in log.shard(shard).values()]
    assert {answer.engine for answer in answers if answer.outcome == "answered"} == {"vllm"}
    (detail,) = {answer.detail for answer in answers if answer.outcome == "rejected"}
    assert detail == "400 invalid_request_error this row failed by script"
    rest = written(work, tmp_path / "2")
    assert (rest.written, rest.again) == (60 - found.outcomes["answered"], 0)
    collect_files(work, ran(rest))
    assert outcomes(work) == {"answered": 60}
    assert written(work, tmp_path / "3").paths == []


def test_outputs_come_in_any_order_and_again(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 12)
    outputs = ran(written(work, tmp_path / "1", requests=4))
    collect_files(work, [outputs[2]])
    assert outcomes(work) == {"answered": 4}
    collect_files(work, outputs[::-1])
    assert outcomes(work) == {"answered": 12}
    before = lines_of_log(work)
    assert collect_files(work, outputs).outcomes == {"answered": 12}
    assert lines_of_log(work) == before


def test_the_shape_of_a_service_is_taken_too(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 4)
    (path,) = written(work, tmp_path / "1").paths
    ids = [json.loads(line)["custom_id"] for line in path.read_bytes().splitlines()]
    body = {"model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]}
    good = [{"id": "1", "custom_id": i, "response": {"status_code": 200, "body": body}, "error": None} for i in ids[:2]]
    bad = [{"id": "1", "custom_id": ids[2], "response": None, "error": {"code": "batch_expired", "message": "late"}}]
    for name, rows in (("output", good), ("errors", bad)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    found = collect_files(work, [tmp_path / "errors", tmp_path / "output"], engine="other", engine_version="1")
    assert found.outcomes == {"answered": 2, "expired": 1, "missing": 1}
    log = AnswerLog(work.folder)
    engines = {(a.engine, a.engine_version) for k in range(SHARDS) for a in log.shard(k).values() if a.choices}
    assert engines == {("other", "1")}


def test_bad_lines_and_strangers_are_named(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 8)
    (output,) = ran(written(work, tmp_path / "1"), faulty(unknown=0.4, repeat=0.3))
    output.write_bytes(output.read_bytes() + b'{"custom_id": "x"}\nnot json\n')
    found = collect_files(work, [output])
    assert found.outcomes == {"answered": 8}
    assert found.odd.unknown.count > 0
    assert found.odd.repeated.count > 0
    lines = len(output.read_bytes().splitlines())
    places = [name.split(": ")[0] for name in found.odd.unreadable.shown]
    assert places == [f"out-00001.jsonl:{lines - 1}", f"out-00001.jsonl:{lines}"]


def test_a_file_of_something_else_is_refused_before_anything_is_taken(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 3)
    (output,) = ran(written(work, tmp_path / "1"))
    other = tmp_path / "other.jsonl"
    other.write_text('{"custom_id": "x", "response": null, "error": {}}\n')
    with pytest.raises(UsageError, match="no line of it answers a request of a file that was written") as caught:
        collect_files(work, [output, other])
    assert caught.value.where == str(other)
    assert outcomes(work) == {}
    with pytest.raises(UsageError, match="cannot be read"):
        collect_files(work, [tmp_path / "nowhere"])


def test_a_request_of_two_files_belongs_to_the_one_that_was_run(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 6)
    first = written(work, tmp_path / "1", requests=3)
    second = written(work, tmp_path / "2")
    assert (second.written, second.again) == (6, 6)  # nobody knows whether the first were run
    found = collect_files(work, ran(first)[:1])
    assert (found.files, found.outcomes) == ([1], {"answered": 3})
    assert Ledger(work.folder).states("files") == {"answered": 3, "asked": 3}


def test_files_leave_what_a_service_may_still_answer(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 6)
    with StandIn() as stand_in:
        server = server_of(stand_in)
        submitted(work, server, limit=2)
        done = written(work, tmp_path / "1")
        assert (done.written, done.open) == (4, 2)
        assert submitted(work, server).asked == 4  # files keep nothing from being asked
        collected(work, server)
        assert collect(work, server).batches == []
    assert outcomes(work) == {"answered": 6}


def test_what_no_file_takes_is_named(tmp_path: Path) -> None:
    work = Questions(tmp_path / "log", 2, texts=("x" * 3_000,))
    done = written(work, tmp_path / "1", bytes=2_000)
    assert (done.written, done.too_large.count) == (2, 1)
    assert outcomes(work) == {"rejected": 1}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArmError, match="cannot be made"):
        written(Questions(tmp_path / "log", 1), tmp_path / "file" / "below")
