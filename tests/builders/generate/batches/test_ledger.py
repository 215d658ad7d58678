"""The ledger knows every batch that a request ever stood in, whatever happens to the processes that write it."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from action_reward_models.builders.generate.batches.ledger import Asked, Ledger
from action_reward_models.schemas.errors import ArmError


def asked(*keys: str, shard: int = 0) -> list[Asked]:
    return [Asked(key, f"slot of {key}", shard, 1, None, line) for line, key in enumerate(keys, 1)]


def planned(ledger: Ledger, *keys: str, shard: int = 0) -> int:
    return ledger.plan("service", "teacher", "m", "00" * 32, 100, 10 * len(keys), asked(*keys, shard=shard))


def test_a_request_goes_through_batches_until_it_is_answered(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert planned(ledger, "a", "b", "c", "d", "e") == 1
    ledger.note(1, stage="open", batch_id="batch_1", status="validating")
    assert ledger.open_keys(0) == {"a", "b", "c", "d", "e"}
    ledger.decide(
        1, {"a": ("answered", ""), "b": ("expired", "batch_expired"), "c": ("missing", ""), "d": ("failed", "")}
    )
    ledger.decide(1, {"e": ("rejected", "400")})
    ledger.note(1, "collected", stage="ended")
    assert ledger.states() == {"answered": 1, "expired": 1, "failed": 1, "missing": 1, "rejected": 1}
    assert ledger.open_keys(0) == set()
    assert planned(ledger, "b", "c") == 2
    assert ledger.states() == {"answered": 1, "asked": 2, "failed": 1, "rejected": 1}
    ledger.refuse(2, "429")
    assert ledger.states() == {"answered": 1, "failed": 1, "not_asked": 2, "rejected": 1}
    assert planned(ledger, "b") == 3
    ledger.decide(3, {"b": ("answered", "")})
    assert ledger.history("b") == [(1, "expired", "batch_expired"), (2, "not_asked", ""), (3, "answered", "")]
    assert ledger.states()["answered"] == 2
    assert [what for what, _ in ledger.events(1)] == ["planned", "noted", "collected"]


def test_what_is_answered_stays_answered(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    planned(ledger, "a")
    ledger.decide(1, {"a": ("answered", "")})
    ledger.decide(1, {"a": ("missing", "later")})
    assert ledger.history("a") == [(1, "answered", "")]


def test_a_batch_that_was_found_is_open_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    planned(ledger, "a", "b")
    ledger.reopen(1, "batch_x")
    (batch,) = ledger.batches("open")
    assert (batch.batch_id, batch.requests, batch.tokens) == ("batch_x", 2, 20)
    assert ledger.open_tokens("teacher", "m") == 20
    assert ledger.open_tokens("teacher", "other") == ledger.open_tokens("other", "m") == 0


def test_keys_are_told_by_shard(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    planned(ledger, "a", shard=3)
    planned(ledger, "b", shard=4)
    assert (ledger.open_keys(3), ledger.open_keys(4), ledger.open_keys(5)) == ({"a"}, {"b"}, set())
    ledger.decide(1, {"a": ("rejected", "line 1")})
    assert ledger.suspects(3) == set()  # one that a service answered with 400 spoils nothing
    ledger.refuse(1, "invalid")
    assert ledger.suspects(3) == {"a"}


def test_nothing_is_written_to_look(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "log")
    assert (ledger.batches(), ledger.states(), ledger.open_keys(1), ledger.history("a")) == ([], {}, set(), [])
    assert not list(tmp_path.iterdir())


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert len(ledger.id) == 16
    assert ledger.id == Ledger(tmp_path).id
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    planned(ledger, *map(str, range(200)))
    whole = ledger.path.read_bytes()
    for damage in (b"not a database" * 1_000, whole[:1_024] + bytes(len(whole) - 1_024), b"\x00" * 50):
        ledger.path.write_bytes(damage)
        with pytest.raises(ArmError, match="is damaged") as caught:
            ledger.states()
        assert caught.value.where == str(ledger.path)
        with pytest.raises(ArmError, match="is damaged"):
            planned(ledger, "x")
        assert ledger.path.read_bytes() == damage


def test_another_version_and_a_link_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    planned(ledger, "a")
    with sqlite3.connect(ledger.path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(ArmError, match="version 2, and this program knows version 1"):
        ledger.states()
    there = tmp_path / "elsewhere"
    ledger.path.rename(there)
    ledger.path.symlink_to(there)
    with pytest.raises(ArmError, match="symbolic link"):
        ledger.batches()


def test_threads_and_processes_write_at_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    threads = [threading.Thread(target=lambda i=i: [planned(ledger, f"{i}-{j}") for j in range(5)]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [batch.number for batch in ledger.batches()] == list(range(1, 21))
    assert ledger.states() == {"asked": 20}


WRITER = """
import sys
from pathlib import Path
from action_reward_models.builders.generate.batches.ledger import Asked, Ledger

ledger = Ledger(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    number = len(ledger.batches()) + 1
    keys = [f"{number}-{i}" for i in range(200)]
    ledger.plan("service", "s", "m", "0", 1, 1, [Asked(key, "", 0, 1, None, i) for i, key in enumerate(keys, 1)])
    ledger.reopen(number, f"batch_{number}")
    ledger.decide(number, {key: ("answered", "") for key in keys})
    ledger.note(number, stage="ended")
"""


def test_a_kill_leaves_the_state_before_or_after(tmp_path: Path) -> None:
    """At whatever point: a batch has all its requests or none, and the next process goes on."""
    before = 0
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout
        writer.stdout.readline()
        ledger = Ledger(tmp_path)
        while len(ledger.batches()) < before + 3:
            pass
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        batches = ledger.batches()
        before = len(batches)
        assert [batch.number for batch in batches] == list(range(1, before + 1))
        for batch in batches:
            found = {asked.state for asked in ledger.requests(batch.number).values()}
            assert (batch.requests, len(ledger.requests(batch.number)), len(found)) == (200, 200, 1)
            assert found == {"answered"} or batch.stage != "ended"
    assert sqlite3.connect(ledger.path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
