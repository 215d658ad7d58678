"""Whatever JSON a server sends, a request has an outcome, and every file of ours can be read afterwards."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from action_reward_models.builders.generate.batches.joining import Join
from action_reward_models.builders.generate.batches.ledger import FILE, Asked, Ledger
from action_reward_models.builders.generate.batches.places import batch_file, batches_folder, drop_inputs
from action_reward_models.builders.generate.batches.service import Service, UnreachableError
from action_reward_models.builders.generate.log import AnswerLog, shard_of
from action_reward_models.builders.generate.run import run
from action_reward_models.builders.generate.seeding import seed_log
from action_reward_models.builders.generate.spend import Purse
from action_reward_models.builders.generate.spend_file import NAME
from action_reward_models.builders.generate.written import joined
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.ids import canonical_json
from action_reward_models.servers.answers import answer_of, parsed, usage_of
from action_reward_models.servers.endpoints import Price
from action_reward_models.servers.words import retry_after, words
from action_reward_models.tests.builders.generate.batches.scenes import Waits
from action_reward_models.tests.builders.generate.toy import ToyWork
from action_reward_models.tests.registry.generated_world import LABELLED, SAMPLED, Generated
from action_reward_models.tests.servers.loopback import Reply, keyless, loopback

DIGITS = "9" * 400
DEEP, NESTED = ("[" * n + "]" * n for n in (100_000, 900))


def completion(choice: str = "", usage: str = '{"prompt_tokens": 1, "completion_tokens": 1}') -> bytes:
    message = '{"role": "assistant", "content": "hi"}'
    return f'{{"model": "m", "choices": [{{"index": 0, "message": {message}{choice}}}], "usage": {usage}}}'.encode()


def scored(*logprobs: str) -> str:
    tokens = ", ".join(f'{{"logprob": {one}}}' for one in logprobs)
    return f', "logprobs": {{"content": [{tokens}]}}'


HOSTILE = {
    "a logprob of 400 digits": completion(scored(f"-{DIGITS}")),
    "logprobs whose sum is beyond numbers": completion(scored("1e308", "1e308")),
    "infinities that cancel out": completion(scored("Infinity", "-Infinity")),
    "a logprob that is no number": completion(scored("NaN")),
    "tokens of 400 digits": completion(usage=f'{{"prompt_tokens": {DIGITS}, "completion_tokens": -5}}'),
    "tokens that are no numbers": completion(usage='{"prompt_tokens": NaN, "completion_tokens": Infinity}'),
    "usage nested for ever": completion(usage=f'{{"x": {NESTED}}}'),
    "usage as long as a book": completion(usage=f'{{"x": "{"y" * 100_000}"}}'),
    "usage of half a letter": completion(usage='{"\\ud800": "\\udfff"}'),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_a_reply_around_odd_numbers_is_kept_without_them(raw: bytes, tmp_path: Path) -> None:
    answer = answer_of("k" * 64, "s|0", parsed(raw))
    assert (answer.outcome, answer.choices[0].text, answer.choices[0].logprob) == ("answered", "hi", None)
    assert len(canonical_json(answer.usage)) < 100
    log = AnswerLog(tmp_path)
    log.append("g", answer)
    assert log.shard(shard_of("g")) == {answer.key: answer}
    (file := tmp_path / "output.jsonl").write_bytes(
        b'{"custom_id": "k", "response": {"status_code": 200, "body": %s}, "error": null}\n' % raw
    )
    join = Join({"k": Asked("k", "s|0", 0, 1, None, 1)}, "batch", (None, None))
    found = [one.answer for one in (*join.replies(file), *join.rest("nothing"))]
    assert [one.outcome for one in found] == ["answered"]


def test_json_without_a_bottom_is_no_reply_and_no_crash(tmp_path: Path) -> None:
    body = b'{"error": %s}' % DEEP.encode()
    with pytest.raises(ValueError, match="not JSON"):
        parsed(body)
    assert len(words(body)) < 600
    work = ToyWork(tmp_path, 2, 1)
    with loopback(lambda head: Reply(400 if head.method == "POST" else 404, body)) as server:
        ran = run(work, keyless(server.url), "m")
        assert (ran.rejected, ran.total) == (2, 2)
    waits = Waits()
    with (
        loopback(lambda head: Reply(200, body)) as server,
        Service(keyless(server.url), waits) as service,
        pytest.raises(UnreachableError),
    ):
        service.retrieve("batch_1")
    assert waits


def test_numbers_and_texts_of_a_service_that_no_ledger_can_hold(tmp_path: Path) -> None:
    body = (
        b'{"id": "batch_1", "status": "completed", "created_at": 1e400, "expires_at": %s, "output_file_id": "\\ud800",'
        b' "request_counts": {"total": 1, "completed": %s, "failed": -1}}'
    ) % ((DIGITS.encode(),) * 2)
    with loopback(lambda head: Reply(200, body)) as server, Service(keyless(server.url), Waits()) as service:
        told = service.retrieve("batch_1")
    assert (told.created_s, told.expires_s, told.completed, told.failed) == (None,) * 4
    ledger = Ledger(tmp_path)
    number = ledger.plan("service", "teacher", "m", "00" * 32, 1, 1, [Asked("k", "s", 0, 1, None, 1)])
    ledger.note(number, output_file_id=told.output_file_id, completed=told.completed)


@pytest.mark.parametrize("date", ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "1e400", "nan", "9" * 5000, ""])
def test_a_time_to_wait_that_nobody_can_wait_for(date: str) -> None:
    assert retry_after(date) is None


def test_tokens_that_a_server_cannot_mean_cost_the_bound() -> None:
    assert usage_of({"usage": {"prompt_tokens": 2**64}}) is None
    assert usage_of({"usage": [1]}) is usage_of([]) is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sums SET spent = -1000000000000",
        "UPDATE sums SET reserved = -1000000000000",
        "CREATE TRIGGER free AFTER INSERT ON reservations BEGIN UPDATE sums SET reserved = 0; END",
    ],
)
def test_a_spend_ledger_that_came_along_cannot_lift_the_cap(change: str, tmp_path: Path) -> None:
    price = Price(1.0, 1.0)
    Purse(tmp_path, price).close()
    with closing(sqlite3.connect(tmp_path / NAME)) as db:
        db.executescript(change)
    with pytest.raises(ArmError, match="is damaged: its"):
        Purse(tmp_path, price, cap_usd=1.0)


def test_a_batch_ledger_that_came_along_names_no_folder(tmp_path: Path) -> None:
    assert batch_file(Ledger(tmp_path), 1, "output").resolve().is_relative_to(tmp_path.resolve())
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("UPDATE ledger SET id = '../../../elsewhere'")
        db.commit()
    with pytest.raises(ArmError, match="is damaged: its id"):
        batch_file(Ledger(tmp_path), 1, "output")


@pytest.mark.parametrize(
    "change",
    [
        {"usage_json": "{"},
        {"usage_json": f'{{"prompt_tokens": {DIGITS}}}'},
        {"source_record_json": '{"rendered_sha256": "x", "engine": {"a": 1}}'},
        {"reply": None, "source_record_json": '{"rendered_sha256": "x", "outcome": "none that there is"}'},
        {"reply": None, "source_record_json": '{"rendered_sha256": "x", "outcome": "answered"}'},
    ],
)
def test_a_file_of_labels_that_came_along_cannot_spoil_the_log(change: dict[str, str | None], tmp_path: Path) -> None:
    world = Generated.make(tmp_path / "registry")
    world.answer(SAMPLED)
    world.answer(LABELLED)
    log = world.asked(LABELLED).work.folder
    shutil.rmtree(log)
    file = world.folder / LABELLED
    file.write_text("".join(f"{json.dumps({**record, **change})}\n" for record in world.records(LABELLED)), "utf-8")
    with pytest.raises(ArmError, match="not a line that was written from a log"):
        seed_log(world.asked(LABELLED).work)
    assert not list(log.glob("shard-*"))


def test_files_that_came_along_as_links_are_not_followed(tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (precious := elsewhere / "00001.input.jsonl").write_text("precious")
    log = tmp_path / "log"
    ledger = Ledger(log)
    (batches_folder(log) / ledger.id).symlink_to(elsewhere)
    drop_inputs(log)
    assert precious.read_text() == "precious"
    with pytest.raises(ArmError, match="symbolic link"):
        batch_file(ledger, 1, "output")
    Purse(elsewhere, Price(1.0, 1.0)).close()
    (log / NAME).symlink_to(elsewhere / NAME)
    with pytest.raises(ArmError, match="symbolic link"):
        Purse(log, Price(1.0, 1.0))


def test_names_that_a_server_gave_stay_as_they_were_written() -> None:
    for names in ([f"m{'x' * 3000}", "other"], ["a\n\x1b[31m \ud800", "a"], ["y" * 2047 + " z"], [" ", None]):
        assert joined([once := joined(names)]) == once
        assert once is None or (once.isprintable() and len(once) <= 2048)


def test_an_engine_with_a_book_for_a_name_is_not_written_down_with_every_answer(tmp_path: Path) -> None:
    models = json.dumps({"data": [{"id": "m", "owned_by": "y\n" * 1000}]}).encode()
    with loopback(lambda head: Reply(200, models) if head.method == "GET" else Reply()) as server:
        assert run(ToyWork(tmp_path, 1, 1), keyless(server.url), "m").answered == 1
    (answer,) = AnswerLog(tmp_path).shard(shard_of("state/0")).values()
    assert answer.engine is not None
    assert len(answer.engine) <= 100
