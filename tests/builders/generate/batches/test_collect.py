"""Whatever a batch ends as, each of its requests ends in one outcome, and what is missing is asked again."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from action_reward_models.builders.generate.batches.collect import collect
from action_reward_models.builders.generate.batches.ledger import FILE, Ledger
from action_reward_models.builders.generate.batches.service import Remote, Service
from action_reward_models.builders.generate.batches.status import status
from action_reward_models.builders.generate.log import SHARDS, AnswerLog
from action_reward_models.builders.generate.spend import Purse
from action_reward_models.schemas.errors import ArmError
from action_reward_models.servers.answers import Answer
from action_reward_models.tests.builders.generate.batches.scenes import (
    MODEL,
    Questions,
    Waits,
    collected,
    lines_of_log,
    outcomes,
    server_of,
    spent,
    states,
    submitted,
)
from action_reward_models.tests.servers.stand_in import BatchScript, Fault, Script, StandIn


@pytest.fixture(scope="module")
def shared() -> Iterator[StandIn]:
    """Whose batches all complete; a test says what its rows and files are like."""
    with StandIn() as server:
        yield server


def script(*ends: str, faults: tuple[Fault, ...] = (), **batch: object) -> Script:
    return Script(faults=faults, batch=BatchScript(ends=(*ends, "completed"), **batch))  # type: ignore[arg-type]


def answers(work: Questions) -> dict[str, Answer]:
    log = AnswerLog(work.folder)
    return {key: answer for shard in range(SHARDS) for key, answer in log.shard(shard).items()}


@pytest.mark.parametrize(
    ("end", "found", "detail"),
    [
        ("completed", {"answered": 10}, ""),
        ("expired", {"answered": 5, "expired": 5}, "batch_expired"),
        ("cancelled", {"answered": 5, "expired": 5}, "batch_cancelled"),
        ("no_output", {"failed": 10}, "500"),
        ("no_files", {"missing": 10}, "the batch ended as completed, and none of its files names it"),
    ],
)
def test_every_end(end: str, found: dict[str, int], detail: str, tmp_path: Path) -> None:
    work = Questions(tmp_path, 10)
    with StandIn(script(end)) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        assert collected(work, server).outcomes == found
        assert outcomes(work) == found
        assert states(work) == found
        (batch,) = stand_in.batches()
        for answer in answers(work).values():
            assert answer.batch_id == batch["id"]
            assert answer.detail.startswith(detail if answer.outcome != "answered" else "")
        again = submitted(work, server)
        assert again.asked == 10 - found.get("answered", 0)
        collected(work, server)
        assert outcomes(work) == states(work) == {"answered": 10}


def test_a_batch_that_is_refused_as_a_whole_is_told_by_request(tmp_path: Path) -> None:
    """One request spoils it. The others are asked again without it."""
    work = Questions(tmp_path, 8)
    with StandIn(replace(Script(), models=("stand-in", "other"))) as stand_in:
        server = server_of(stand_in)
        spoilt = Spoilt(tmp_path, 8)
        submitted(spoilt, server)
        found = collected(spoilt, server)
        assert found.outcomes == {"rejected": 1, "not_asked": 7}
        (problem,) = found.problems
        assert "refused as a whole: line" in problem
        assert "mismatched_model" in problem
        (rejected,) = answers(spoilt).values()
        assert "All requests must name one model" in rejected.detail
        done = submitted(spoilt, server)
        assert (done.asked, done.batches) == (8, [2, 3])
        assert collected(spoilt, server).outcomes == {"answered": 8}
        assert states(work) == {"answered": 8}


class Spoilt(Questions):
    """One request, not the first, names another model than the rest."""

    def request(self, index: int, group: str, text: str):  # type: ignore[no-untyped-def]
        request = super().request(index, group, text)
        last = list(Questions(self.folder, self.count).requests())[-1].group
        return replace(request, body={**request.body, "model": "other"}) if group == last else request


def test_a_refusal_without_lines_asks_everything_again(tmp_path: Path) -> None:
    work = Questions(tmp_path, 4)
    with StandIn(script("failed")) as stand_in:
        server = server_of(stand_in, price=True)
        submitted(work, server)
        found = collected(work, server)
        assert found.outcomes == {"not_asked": 4}
        assert found.problems == ["batch 1 was refused as a whole: invalid_request this batch failed by script"]
        assert spent(work).reserved_usd == spent(work).spent_usd == 0
        submitted(work, server)
        assert collected(work, server).outcomes == {"answered": 4}


@pytest.mark.parametrize(
    ("kind", "found", "odd"),
    [
        ("drop", {"missing": 6}, {}),
        ("400", {"rejected": 6}, {}),
        ("429", {"failed": 6}, {}),
        ("500", {"failed": 6}, {}),
        ("expired", {"expired": 6}, {}),
        ("no_choices", {"failed": 6}, {}),
        ("repeat", {"answered": 6}, {"repeated": 6}),
        ("repeat_other", {"answered": 6}, {"conflicting": 6}),
        ("both", {"answered": 6}, {"conflicting": 6}),
        ("unknown", {"answered": 6}, {"unknown": 6}),
    ],
)
def test_every_fault_of_a_row(
    kind: str, found: dict[str, int], odd: dict[str, int], shared: StandIn, tmp_path: Path
) -> None:
    work, server = Questions(tmp_path, 6), server_of(shared)
    shared.change(script(rows={kind: 1.0}))
    submitted(work, server)
    done = collected(work, server)
    assert done.outcomes == found
    assert outcomes(work) == states(work) == found
    assert {name: names.count for name, names in vars(done.odd).items() if names.count} == odd
    named = {name for name, _ in Ledger(tmp_path).events(1)} & {"repeated", "conflicting", "unknown"}
    assert named == set(odd)
    for names in (done.odd.repeated, done.odd.conflicting):
        assert set(names.shown) <= work.keys()


def test_of_two_replies_the_first_line_counts(tmp_path: Path) -> None:
    work = Questions(tmp_path, 5, n=2)
    with StandIn(script(rows={"repeat_other": 1.0}, shuffle=False)) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        collected(work, server)
        first = {key: answer.choices for key, answer in answers(work).items()}
        other = Questions(tmp_path / "other", 5, n=2)
        stand_in.change(script())
        submitted(other, server)
        collected(other, server)
    assert {key: answer.choices for key, answer in answers(other).items()} == first
    assert all(len(choices) == 2 for choices in first.values())


def test_lines_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    work = Questions(tmp_path, 20)
    with StandIn(script(rows={"garbage": 0.3}, shuffle=False)) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        done = collected(work, server)
    assert done.odd.unreadable.count == done.outcomes["missing"] > 0
    assert done.outcomes.total() == 20
    assert done.odd.unreadable.shown[0].startswith("00001.output.jsonl:")


@pytest.mark.parametrize("fault", ["truncate", "cut", "drop", "500", "429", "html", "redirect"])
def test_a_file_that_does_not_come_whole_is_fetched_again(fault: str, shared: StandIn, tmp_path: Path) -> None:
    work, server = Questions(tmp_path, 9), server_of(shared)
    shared.change(script(faults=(Fault(fault, on="content", attempts=2, location="/v1/elsewhere"),)))
    before = shared.counts()["content"]
    submitted(work, server)
    if fault == "redirect":  # what a key is sent with goes nowhere else
        with pytest.raises(ArmError, match="307"):
            collected(work, server)
        return
    done = collected(work, server)
    assert (done.outcomes, done.problems) == ({"answered": 9}, [])
    assert shared.counts()["content"] == before + 3


def test_one_that_never_comes_whole_is_left_and_told(tmp_path: Path) -> None:
    work = Questions(tmp_path, 9)
    with StandIn(script(faults=(Fault("cut", on="content"),))) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        done = collected(work, server, looks=3)
        assert (done.outcomes, done.open) == ({}, 1)
        assert done.problems[-1] == (
            "batch 1: the file 00001.output.jsonl did not come whole in 4 tries; the last: it ends inside a line; "
            "arm label collect --accept-cut takes what is there"
        )
        assert stand_in.counts()["content"] == 8
        assert submitted(work, server).open == 9  # and nothing is asked again
        taken = collected(work, server, accept_cut=True)
        assert taken.outcomes["answered"] == taken.outcomes.total() - taken.outcomes["missing"] > 0
        assert taken.odd.unreadable.count == 1
        stand_in.change(script())
        submitted(work, server)
        collected(work, server)
        assert outcomes(work) == {"answered": 9}


def test_collecting_again_changes_nothing(tmp_path: Path) -> None:
    work = Questions(tmp_path, 30)
    with StandIn(script(rows={"repeat": 0.2, "drop": 0.2, "500": 0.2})) as stand_in:
        server = server_of(stand_in, price=True)
        submitted(work, server)
        collected(work, server)
        before = (outcomes(work), states(work), lines_of_log(work), spent(work).spent_usd)
        with closing(sqlite3.connect(tmp_path / FILE)) as db, db:  # as a process leaves it that is killed at the end
            db.execute("UPDATE batches SET stage = 'open'")
            db.execute("UPDATE requests SET state = 'asked' WHERE state = 'answered'")
        done = collect(work, server, sleep=Waits())
        assert (outcomes(work), states(work), spent(work).spent_usd) == (before[0], before[1], before[3])
        assert lines_of_log(work) - before[2] == 30 - before[0]["answered"]  # failures are said again
        assert done.outcomes == before[0]
        assert stand_in.counts()["content"] == 2  # what has been fetched is there


def test_what_was_fetched_is_kept_for_its_owner(tmp_path: Path) -> None:
    work = Questions(tmp_path, 10)
    with StandIn(script(rows={"500": 0.5})) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        collected(work, server)
        (batch,) = stand_in.batches()
        kept = sorted((tmp_path / "batches").glob("*/*.jsonl"))
        assert [path.name for path in kept] == ["00001.errors.jsonl", "00001.output.jsonl"]
        assert kept[1].read_text() == stand_in.file(batch["output_file_id"])
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "batches", kept[0].parent)} == {0o700}


def test_a_ledger_that_was_lost_leaves_its_files_alone(tmp_path: Path) -> None:
    """Its successor counts from 1 again."""
    work = Questions(tmp_path, 3)
    with StandIn(script("no_output")) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        assert collected(work, server).outcomes == {"failed": 3}
        (tmp_path / FILE).unlink()
        submitted(work, server)
        assert collected(work, server).outcomes == {"answered": 3}
    names = sorted(path.name for path in (tmp_path / "batches").glob("*/*.jsonl"))
    assert names == ["00001.errors.jsonl", "00001.output.jsonl"]


def test_files_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "batches").symlink_to(tmp_path / "elsewhere")
    with StandIn() as stand_in, pytest.raises(ArmError, match="symbolic link"):
        submitted(Questions(tmp_path / "log", 1), server_of(stand_in))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_service_that_is_slow_to_name_its_files_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, looks, real = Questions(tmp_path, 3), Waits(), Service.retrieve

    def late(service: Service, batch_id: str) -> Remote:
        remote = real(service, batch_id)
        looks.append(float(remote.ended))
        return replace(remote, output_file_id=None) if looks.count(1.0) <= 2 else remote

    monkeypatch.setattr(Service, "retrieve", late)
    with StandIn(script()) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        assert collected(work, server).outcomes == {"answered": 3}
    assert looks == [0.0, 1.0, 1.0, 1.0]


def test_batches_at_a_server_of_another_name_are_told(tmp_path: Path) -> None:
    work = Questions(tmp_path, 1)
    with StandIn(script()) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        renamed = replace(server, name="other")
        done = collect(work, renamed, sleep=Waits())
        assert (done.open, done.problems) == (
            1,
            ["batch 1: it is at the server 'teacher', and 'other' is declared now"],
        )
        assert status(work, renamed).batches[0].problem == done.problems[0].removeprefix("batch 1: ")


def test_spending_is_settled_by_answer_and_released_by_what_never_ran(tmp_path: Path) -> None:
    work = Questions(tmp_path, 12)
    with StandIn(script(rows={"expired": 0.2, "400": 0.2, "drop": 0.2}, shuffle=False)) as stand_in:
        server = server_of(stand_in, price=True)
        with Purse(tmp_path / "other", server.prices[MODEL]) as purse:
            purse.reserve(next(work.requests()), batch=True)
            each_usd = purse.reserved_usd
        submitted(work, server)
        assert spent(work).batch_usd == pytest.approx(12 * each_usd, rel=0.01)
        done = collected(work, server)
    assert set(done.outcomes) == {"answered", "expired", "rejected", "missing"}
    tokens = sum(answer.usage["total_tokens"] for answer in answers(work).values() if answer.usage)
    missing_usd = done.outcomes["missing"] * each_usd  # they may have been billed
    assert spent(work).reserved_usd == 0
    assert spent(work).spent_usd == pytest.approx(tokens * 0.001 * 0.5 + missing_usd, rel=0.01)


def test_a_batch_that_the_service_does_not_know_is_told(tmp_path: Path) -> None:
    work = Questions(tmp_path, 2)
    with StandIn() as first:
        submitted(work, server_of(first))
    with StandIn() as other:
        done = collect(work, server_of(other), sleep=Waits())
    assert done.open == 1
    assert done.problems[0].startswith("batch 1: 404")
    assert states(work) == {"asked": 2}


def test_a_file_that_is_gone_leaves_its_requests_missing(tmp_path: Path) -> None:
    work = Questions(tmp_path, 2)
    with StandIn(script(faults=(Fault("404", on="content", message="expired"),))) as stand_in:
        server = server_of(stand_in)
        submitted(work, server)
        done = collected(work, server)
    assert done.outcomes == {"missing": 2}
    assert done.problems == ["batch 1: the service no longer has its file of answers (404: not_found_error expired)"]
