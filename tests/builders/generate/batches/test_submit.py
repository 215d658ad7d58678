"""Batches are as large as the service takes them, and every request stands in one."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders.generate.batches import service
from action_reward_models.builders.generate.batches.drafts import Draft
from action_reward_models.builders.generate.batches.ledger import Ledger
from action_reward_models.builders.generate.batches.places import locked
from action_reward_models.builders.generate.batches.service import Remote
from action_reward_models.builders.generate.batches.split import Part
from action_reward_models.builders.generate.log import AnswerLog, shard_of
from action_reward_models.builders.generate.spend import Purse
from action_reward_models.schemas.errors import ArmError
from action_reward_models.servers.endpoints import BatchLimits, Price
from action_reward_models.tests.builders.generate.batches.scenes import (
    MODEL,
    PICTURE,
    Questions,
    collected,
    outcomes,
    server_of,
    states,
    submitted,
)
from action_reward_models.tests.servers.stand_in import BatchScript, Fault, Script, StandIn


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn() as server:
        yield server


def files(stand_in: StandIn) -> list[list[dict[str, Any]]]:
    """Lines of the input files of all batches."""
    texts = [stand_in.file(batch["input_file_id"]) for batch in stand_in.batches()]
    return [[json.loads(line) for line in text.split("\n")[:-1]] for text in texts]


def test_files_are_split_by_requests_and_none_is_empty(stand_in: StandIn, tmp_path: Path) -> None:
    work, server = Questions(tmp_path, 12), server_of(stand_in, requests=4)
    done = submitted(work, server)
    assert (done.asked, done.batches, done.stopped) == (12, [1, 2, 3], "")
    assert [len(file) for file in files(stand_in)] == [4, 4, 4]
    lines = [line for file in files(stand_in) for line in file]
    assert {line["custom_id"] for line in lines} == work.keys()
    assert {(line["method"], line["url"], line["body"]["model"]) for line in lines} == {
        ("POST", "/v1/chat/completions", MODEL)
    }
    assert all(len(line["custom_id"]) == 64 for line in lines)
    assert states(work) == {"asked": 12}
    assert not list((tmp_path / "batches").rglob("*input*"))  # bodies are not kept


def test_files_are_split_by_bytes(stand_in: StandIn, tmp_path: Path) -> None:
    work = Questions(tmp_path, 9, pictures=True)
    done = submitted(work, server_of(stand_in, bytes=5_000))
    made = stand_in.batches()
    sizes = [len(stand_in.file(batch["input_file_id"])) for batch in made]
    assert max(sizes) <= 5_000
    assert min(a + b for a, b in pairwise(sizes)) > 5_000  # no file was ended early
    assert done.asked == 9
    url = files(stand_in)[0][0]["body"]["messages"][0]["content"][1]["image_url"]["url"]
    assert b64decode(url.removeprefix("data:image/png;base64,")) == PICTURE


def test_what_no_batch_takes_is_named_and_the_rest_is_asked(stand_in: StandIn, tmp_path: Path) -> None:
    work = Questions(tmp_path, 3, texts=("x" * 6_000,))
    server = server_of(stand_in, bytes=5_000)
    done = submitted(work, server)
    (key,) = done.too_large.shown
    assert (done.asked, done.too_large.count) == (3, 1)
    answer = next(a for a in AnswerLog(tmp_path).shard(shard_of("ep/3#__t0")).values() if a.key == key)
    assert answer.outcome == "rejected"
    assert "bytes, and a batch file takes 5,000" in answer.detail
    again = submitted(work, server)
    assert (again.asked, again.open, again.too_large.count) == (0, 3, 1)
    assert outcomes(work) == {"rejected": 1}


def test_a_second_call_asks_nothing_twice(stand_in: StandIn, tmp_path: Path) -> None:
    work, server = Questions(tmp_path, 5), server_of(stand_in)
    submitted(work, server)
    again = submitted(work, server)
    assert (again.asked, again.open, again.batches) == (0, 5, [])
    assert stand_in.counts()["batches"] == 1
    assert collected(work, server).outcomes == {"answered": 5}
    after = submitted(work, server)
    assert (after.asked, after.answered) == (0, 5)
    assert stand_in.counts()["batches"] == 1


def test_enqueued_tokens_hold_over_all_open_batches(stand_in: StandIn, tmp_path: Path) -> None:
    work = Questions(tmp_path, 10)
    server = server_of(stand_in, tokens=300)  # a request has about 73
    done = submitted(work, server)
    assert done.asked == 4
    assert "300 prompt tokens are enqueued" in done.stopped
    assert (done.not_asked, done.not_seen) == (1, 5)
    none = submitted(work, server)
    assert (none.asked, none.batches) == (0, [])
    assert stand_in.counts()["files"] == 1  # nothing is sent to find that out
    collected(work, server)
    assert submitted(work, server).asked == 4
    collected(work, server)
    last = submitted(work, server)
    assert (last.asked, last.stopped) == (2, "")


def test_a_service_that_has_enough_is_asked_again_later(tmp_path: Path) -> None:
    """429 when a batch is created: what it held is not asked; all else goes on."""
    work = Questions(tmp_path, 12)
    with StandIn(Script(batch=BatchScript(enqueued_tokens=500))) as stand_in:
        server = server_of(stand_in, requests=6)
        done = submitted(work, server)
        assert (done.asked, done.not_asked, done.batches) == (6, 6, [1])
        assert "Enqueued token limit reached" in done.stopped
        assert states(work) == {"asked": 6, "not_asked": 6}
        assert stand_in.counts()["batches"] == 2  # it is not asked a third time
        assert stand_in.counts()["delete"] == 1  # the file that no batch has
        collected(work, server)
        assert submitted(work, server).asked == 6
        collected(work, server)
        assert states(work) == {"answered": 12}


def test_other_refusals_end_it_with_the_servers_words(tmp_path: Path) -> None:
    work = Questions(tmp_path, 2)
    with StandIn(Script(faults=(Fault("403", on="batches", message="no batches for you"),))) as stand_in:
        with pytest.raises(ArmError, match=r"403: .*no batches for you"):
            submitted(work, server_of(stand_in))
        assert states(work) == {"not_asked": 2}


def test_a_limit_and_a_cap(stand_in: StandIn, tmp_path: Path) -> None:
    work = Questions(tmp_path, 6)
    assert submitted(work, server_of(stand_in), limit=2).asked == 2
    server = server_of(stand_in, price=True)
    with Purse(tmp_path / "other", server.prices[MODEL]) as purse:
        purse.reserve(next(work.requests()), batch=True)
        most_usd = purse.reserved_usd
    done = submitted(work, server, cap_usd=2.5 * most_usd)
    assert (done.asked, done.not_asked, done.stopped) == (2, 1, "the cap on spending would be passed")


def test_one_process_submits_at_a_time(stand_in: StandIn, tmp_path: Path) -> None:
    with locked(tmp_path, "submit", wait=False), pytest.raises(ArmError, match="another process is submitting"):
        submitted(Questions(tmp_path, 1), server_of(stand_in))


def test_shards_that_are_being_asked_live_are_left(stand_in: StandIn, tmp_path: Path) -> None:
    work = Questions(tmp_path, 2)
    with AnswerLog(tmp_path).claim(shard_of("ep/0#__t0")):
        done = submitted(work, server_of(stand_in))
    assert (done.asked, done.busy) == (1, 1)


@pytest.mark.parametrize("after", [False, True])
def test_an_error_when_a_batch_is_created_pays_nothing_twice(after: bool, tmp_path: Path) -> None:
    """The service may have created it (after) or not; either way there is one in the end."""
    work = Questions(tmp_path, 3)
    faults = (Fault("500", on="batches", numbers=(1,), after=after),)
    with StandIn(Script(faults=faults)) as stand_in:
        done = submitted(work, server_of(stand_in))
        assert (done.asked, done.batches) == (3, [1])
        assert len(stand_in.batches()) == 1
        assert stand_in.counts()["batches"] == (1 if after else 2)


@pytest.mark.parametrize("created", [False, True])
def test_a_service_that_is_gone_half_way_is_asked_what_it_has(created: bool, tmp_path: Path) -> None:
    work = Questions(tmp_path, 3)
    faults = (Fault("500", on="batches", after=created), Fault("503", on="batches_list"))
    with StandIn(Script(faults=faults)) as stand_in:
        server = server_of(stand_in, price=True)
        with pytest.raises(ArmError, match=r"whether batch 1 was created is not known: .*500"):
            submitted(work, server)
        assert Ledger(tmp_path).batch(1).stage == "planned"
        stand_in.change(Script())
        done = submitted(work, server)
        assert (done.adopted, done.open, done.asked) == (([1], 3, 0) if created else ([], 0, 3))
        assert len(stand_in.batches()) == 1
        assert collected(work, server).outcomes == {"answered": 3}


@pytest.mark.parametrize("days", [-10_000, 90])
def test_a_batch_is_found_whatever_the_clock_says(days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, now = Questions(tmp_path, 3), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_400 * days)
    with StandIn(Script(faults=(Fault("500", on="batches", after=True), Fault("503", on="batches_list")))) as stand_in:
        with pytest.raises(ArmError, match="whether batch 1 was created is not known"):
            submitted(work, server_of(stand_in))
        stand_in.change(Script())
        assert submitted(work, server_of(stand_in)).adopted == [1]
        assert len(stand_in.batches()) == 1


def test_an_account_of_more_batches_than_can_be_looked_through_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, odd = Questions(tmp_path, 1), "none of the first 10,000 batches"

    def nothing(id_: str) -> Remote:
        return Remote(id_, "completed", None, None, None, None, None, None, None, {}, ())

    pages = (([nothing(str(page))], True) for page in range(200))
    with StandIn(Script(faults=(Fault("500", on="batches"), Fault("503", on="batches_list")))) as stand_in:
        with pytest.raises(ArmError):
            submitted(work, server_of(stand_in))
        stand_in.change(Script())
        monkeypatch.setattr(service, "_page", lambda page: next(pages))
        with pytest.raises(ArmError, match=odd):
            submitted(work, server_of(stand_in))
    assert Ledger(tmp_path).batch(1).stage == "planned"


def test_a_draft_that_a_full_disk_spoils_gives_back_what_it_reserved(tmp_path: Path) -> None:
    request, price = next(Questions(tmp_path, 1).requests()), Price(1.0, 1.0)
    draft = Draft(tmp_path / "draft.jsonl", Part(BatchLimits()))
    draft._file.close()
    with Path("/dev/full").open("wb") as full, Purse(tmp_path, price) as purse:
        draft._file = full
        draft.add(request, b"line\n", 1, purse.reserve(request, batch=True))
        assert purse.reserved_usd
        draft.drop(purse)
        assert not purse.reserved_usd


def test_a_service_without_a_list_is_told(tmp_path: Path) -> None:
    work = Questions(tmp_path, 1)
    with StandIn(Script(faults=(Fault("500", on="batches"), Fault("404", on="batches_list")))) as stand_in:
        server = server_of(stand_in)
        with pytest.raises(ArmError, match="500"):
            submitted(work, server)
        with pytest.raises(ArmError, match="batch 1 may have been created, and the service does not say so"):
            submitted(work, server)
