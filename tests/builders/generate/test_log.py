"""The log under everything that can be done to it: cuts at every byte, damage, full disks, many processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from action_reward_models.builders.generate.log import SHARDS, AnswerLog, shard_of
from action_reward_models.schemas.errors import ArmError
from action_reward_models.servers.answers import Answer, Choice, Outcome

NOT_PATHS = ("a/b", "a#b", "..", "../../etc/passwd", "a\nb", "", "\0", "ä\u2028", "/", "C:\\x", "con")


def answer(key: str, outcome: Outcome = "answered", text: str = "klick – \U0001f600\u2028") -> Answer:
    choices = (Choice(text, "stop", logprob=-0.5),) if outcome == "answered" else ()
    return Answer(key, f"slot {key}", outcome, choices, "" if choices else "500: oh", "m", usage={"prompt_tokens": 3})


def shard(log: AnswerLog, *answers: Answer) -> Path:
    log.extend(7, answers)
    return log.path(7)


def test_what_is_appended_comes_back(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "made" / "when needed")
    shard(log, answer("a"), answer("b", "failed"))
    assert log.shard(7) == {"a": answer("a"), "b": answer("b", "failed")}
    assert log.outcomes(7) == {"a": "answered", "b": "failed"}
    assert not log.shard(8)
    assert [path.name for path in log.folder.iterdir()] == ["shard-007.jsonl"]


def test_the_first_answer_stays_and_the_last_failure(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path)
    shard(
        log, answer("a", "failed"), answer("a", text="1"), answer("a", text="2"), answer("a", "expired"),
        answer("b", "failed"), answer("b", "rejected"),
    )  # fmt: skip
    assert log.shard(7) == {"a": answer("a", text="1"), "b": answer("b", "rejected")}
    with log.claim(7) as claim:
        assert claim
        assert claim.answers == log.outcomes(7) == {"a": "answered", "b": "rejected"}


def test_ids_are_never_paths(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "log")
    for group in NOT_PATHS:
        log.append(group, answer(group))
    assert {path.parent for path in tmp_path.rglob("*.jsonl")} == {log.folder}
    assert {path.name for path in log.folder.iterdir()} == {f"shard-{shard_of(group):03}.jsonl" for group in NOT_PATHS}
    for group in NOT_PATHS:
        assert log.shard(shard_of(group))[group] == answer(group)


def test_groups_are_spread_and_stay_where_they_are() -> None:
    assert {shard_of(f"state {n}") for n in range(1000)} == set(range(SHARDS))
    assert shard_of("state 1") == 16


def test_a_line_torn_at_any_byte_loses_itself_only(tmp_path: Path) -> None:
    """Also within a character of several bytes, and where only the newline is missing."""
    log = AnswerLog(tmp_path)
    whole = shard(log, answer("a"), answer("b")).read_bytes()
    begin = whole.index(b"\n") + 1
    for end in range(begin, len(whole)):
        log.path(7).write_bytes(whole[:end])
        kept = {"a": answer("a")} | ({"b": answer("b")} if end == len(whole) - 1 else {})
        assert log.shard(7) == kept
        with log.claim(7) as claim:
            assert claim
            assert set(claim.answers) == set(kept)
            claim.append(answer("c"))
        assert log.shard(7) == kept | {"c": answer("c")}


@pytest.mark.parametrize("tail", [b"", b"\0" * 70_000, b"{", b'"x"', b"\xff\xfe", b"x" * 200_000, b'{"key":"a"}'])
def test_what_is_no_line_at_the_end_is_cut(tail: bytes, tmp_path: Path) -> None:
    log = AnswerLog(tmp_path)
    log.path(7).write_bytes(tail)
    assert log.shard(7) == {}
    shard(log, answer("a"))
    before = log.path(7).read_bytes()
    assert before.count(b"\n") == 1
    log.path(7).write_bytes(before + tail)
    shard(log, answer("b"))
    assert set(log.shard(7)) == {"a", "b"}


@pytest.mark.parametrize(
    "damage", [b"\n", b"{}\n", b'{"key": "x"\n', b"null\n", b"\xf0\x9f\x98\n", b"\0\0\0\n", b'["a"]\n', b"half a line"]
)
def test_damage_elsewhere_is_told_and_never_dropped(damage: bytes, tmp_path: Path) -> None:
    log = AnswerLog(tmp_path)
    lines = shard(log, answer("a"), answer("b")).read_bytes().splitlines(keepends=True)
    log.path(7).write_bytes(lines[0] + damage + lines[1])
    for look in (log.shard, log.outcomes, lambda number: log.extend(number, [answer("c")])):
        with pytest.raises(ArmError, match="this line of the log is damaged") as caught:
            look(7)
        assert caught.value.where == f"{log.path(7)}:2"
        assert "delete line 2" in str(caught.value.next_command)
    assert log.path(7).read_bytes() == lines[0] + damage + lines[1]


@pytest.mark.parametrize("field", ["outcome", "key", "slot", "detail", "choices"])
def test_a_line_of_another_kind_is_damage_too(field: str, tmp_path: Path) -> None:
    import orjson

    log = AnswerLog(tmp_path)
    data = orjson.loads(shard(log, answer("a")).read_bytes()) | {field: 3}
    log.path(7).write_bytes(orjson.dumps(data) + b"\n")
    with pytest.raises(ArmError, match="damaged"):
        log.shard(7)


def test_texts_that_are_no_text_do_not_stop_a_run(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path)
    odd = Answer("a", "s", "answered", (Choice("\ud83d\ude00 \ud800", logprob=float("nan")),), usage={"n": 2**70})
    shard(log, odd, answer("b"))
    kept = log.shard(7)
    assert kept["a"].choices == (Choice("\U0001f600 \ufffd"),)
    assert kept["b"] == answer("b")


# -- full disks and odd files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_leaves_no_half_line(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AnswerLog(tmp_path)
    before = shard(log, answer("a")).read_bytes()
    write, left = os.write, [40]

    def full(handle: int, data: bytes | memoryview) -> int:
        """Some of the line still fits."""
        if not left[0]:
            raise OSError(number, os.strerror(number))
        done = write(handle, data[: left[0]])
        left[0] = 0
        return done

    with log.claim(7) as claim:
        assert claim
        monkeypatch.setattr("action_reward_models.builders.generate.log.os.write", full)
        with pytest.raises(ArmError, match="cannot be written" if number == errno.EIO else "disk is full") as caught:
            claim.append(answer("b"))
        assert claim.answers == {"a": "answered"}
        monkeypatch.undo()
        assert log.path(7).read_bytes() == before
        claim.append(answer("b"))
    assert caught.value.where == str(log.path(7))
    assert set(log.shard(7)) == {"a", "b"}


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    """The registry may be another's, and the link lead to a file of one's own."""
    mine, log = tmp_path / "mine", AnswerLog(tmp_path / "log")
    mine.write_text("my own words, without a newline")
    log.folder.mkdir()
    log.path(7).symlink_to(mine)
    with pytest.raises(ArmError, match="is a symbolic link"):
        shard(log, answer("a"))
    assert mine.read_text() == "my own words, without a newline"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file")
    with pytest.raises(ArmError, match="cannot be written"):
        shard(AnswerLog(tmp_path / "log"), answer("a"))


# -- processes ---------------------------------------------------------------------------------------------------------


def test_a_shard_has_one_holder(tmp_path: Path) -> None:
    log, other = AnswerLog(tmp_path), AnswerLog(tmp_path)
    with log.claim(7) as claim, other.claim(7) as second, other.claim(8) as third:
        assert claim
        assert second is None
        assert third
    with other.claim(7) as again:
        assert again


HOLDER = """
import sys
from pathlib import Path
from action_reward_models.builders.generate.log import AnswerLog
with AnswerLog(Path(sys.argv[1])).claim(7) as claim:
    print("held" if claim else "not held", flush=True)
    sys.stdin.read()
"""


def test_no_claim_outlives_a_crash(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with log.claim(7) as claim:
            assert claim is None
        holder.send_signal(signal.SIGKILL)
        holder.wait(30)
    with log.claim(7) as claim:
        assert claim
