"""Picks of many requests: each line has a row, and a run that was killed ends in the same bytes."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest
from action_reward_models.inference import bulk
from action_reward_models.inference.bulk import Ask, Summary
from action_reward_models.inference.choice import STATUSES, Choice, ChosenBy, Vote
from action_reward_models.inference.inputs import Lines
from action_reward_models.inference.request import Request, Spoken, read
from action_reward_models.schemas.arrow import arrow_schema
from action_reward_models.schemas.errors import ArmError
from action_reward_models.schemas.store import load
from action_reward_models.schemas.validate import for_schema
from action_reward_models.tests.inference.asked import asked

ABOUT = {"model": {"sha256": "0" * 64}, "how": {"orders": 1}}
PIECE = 3


class Killed(BaseException):
    """Ends a run as a signal does: nothing that runs catches it."""


def lines(folder: Path, *written: Any, name: str = "requests.jsonl") -> Lines:
    """A file of requests; bytes stand in it as they are."""
    path = folder / name
    path.write_bytes(b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in written))
    return Lines(path, name, lambda data, where, line: read(data, [Spoken("function", "pixel")], where, line))


def ten(folder: Path) -> Lines:
    """Ten lines of which the fifth is broken."""
    good = [asked(id=f"r{number}") for number in range(10)]
    return lines(folder, *good[:4], b'{"id": \n', *good[5:])


class Asks:
    """A model that picks by the id of a request. killed_at: the call that never returns; ``said``: ids of requests
    that it says something else about."""

    def __init__(self, killed_at: int | None = None, said: dict[str, Choice] | None = None) -> None:
        self.opened, self.calls, self.asked = 0, 0, list[str]()
        self._killed_at, self._said = killed_at, said or {}

    def open(self) -> Ask:
        self.opened += 1
        return self.ask

    def ask(self, requests: Sequence[Request], renderer: object) -> list[Choice]:
        assert renderer is None
        if self.calls == self._killed_at:
            raise Killed
        self.calls += 1
        self.asked += [request.id for request in requests]
        return [self._said.get(request.id) or picked(request.id, place) for place, request in enumerate(requests)]


def picked(name: str, place: int = 0) -> Choice:
    scores = tuple(0.1 * len(name) + place - index / 3 for index in range(4))
    return Choice(name, "ok", 0, "model", scores=scores)


def run(inputs: Lines, model: Asks, out: Path, about: Any = ABOUT) -> Summary:
    return bulk.pick(inputs, model.open, out, about, piece=PIECE)


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """The file of a run that nothing disturbed."""
    (tmp_path / "whole").mkdir()
    run(ten(tmp_path / "whole"), Asks(), tmp_path / "whole" / "picks.parquet")
    return tmp_path / "whole" / "picks.parquet"


def test_every_line_has_a_row(tmp_path: Path) -> None:
    inputs = lines(
        tmp_path,
        b"\xef\xbb\xbf" + json.dumps(asked(id="first")).encode() + b"\n",
        b"\n   \n",
        asked(id="no candidates", candidates=[]),
        b'{"id": 1, "id": 2}\n',
        b"\xff\xfe\n",
        asked(id="\ud800 half a pair"),
        asked(id="other", dialect="react"),
        asked(id="\u2028one line\x85"),
        b"[1, 2]\n",
        asked(id="both", candidates=[{"response": "click(1, 2)", "action": "click(1, 2)"}]),
        json.dumps(asked(id="torn")).encode()[:-9],
    )
    model = Asks()
    done = run(inputs, model, tmp_path / "picks.parquet")
    found = rows(done.out)
    assert [row["line"] for row in found] == [1, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert [row["row_index"] for row in found] == list(range(10))
    assert model.asked == ["first", "\u2028one line\x85"]
    assert [row["status"] for row in found] == ["ok", *["unreadable"] * 5, "ok", *["unreadable"] * 3]
    said = {row["line"]: row["detail"] for row in found}
    assert said[4] == "$.candidates is an empty list"
    assert said[5] == "the key 'id' stands twice in one object"
    assert "not UTF-8" in said[6]
    assert "surrogate" in said[7]
    assert said[8].startswith("the checkpoint was trained on actions in function in pixel, and the request has")
    assert said[10].startswith("$")
    assert said[11].startswith("$.candidates[0] holds either")
    assert "as after an interrupted write" in said[12]
    assert [row["id"] for row in found[1:4]] == ["no candidates", None, None]
    assert done.to_json("scores") | {"first_lacking": 0} == {
        "out": str(done.out), "rows": 10, "asked": 10, "statuses": {"ok": 2, "unreadable": 8},
        "chosen_by": {"model": 2, "nobody": 8}, "lacking": 8, "first_lacking": 0,
    }  # fmt: skip
    assert [row["line"] for row in done.first["scores"]] == [4, 5, 6, 7, 8]
    assert not (tmp_path / "picks.parquet.making").exists()


def test_the_columns_are_those_of_the_schema(tmp_path: Path) -> None:
    votes = (Vote((2, 0, 1), "ok", 2, '{"selection": 1}'), Vote((0, 1, 2), "unparsed", None, "\ud83d", True, "why"))
    other = Choice("r1", "disagreed", 0, "first", votes=votes, detail="\udc00")
    inputs = lines(tmp_path, asked(id="r0"), asked(id="r1"))
    done = run(inputs, Asks(said={"r1": other}), tmp_path / "picks.parquet")
    assert pq.read_schema(done.out).equals(arrow_schema("pick/1"))
    first, second = rows(done.out)
    assert not for_schema("pick/1").problems(first)
    assert not for_schema("pick/1").problems(second)
    assert first == {
        "row_index": 0, "line": 1, "id": "r0", "candidates": 4, "status": "ok", "detail": "", "selected_index": 0,
        "chosen_by": "model", "action": "click(3, 4)", "scores": list(picked("r0").scores or ()), "votes": [],
    }  # fmt: skip
    assert second["votes"] == [
        {"order": [2, 0, 1], "status": "ok", "selected_index": 2, "reply": '{"selection": 1}', "salvaged": False,
         "detail": ""},
        {"order": [0, 1, 2], "status": "unparsed", "selected_index": None, "reply": "\\ud83d", "salvaged": True,
         "detail": "why"},
    ]  # fmt: skip
    assert (second["scores"], second["detail"]) == (None, "\\udc00")


def test_every_outcome_has_its_name_in_the_schema() -> None:
    known = load("pick/1")["properties"]
    assert known["status"]["enum"] == [*STATUSES, bulk.UNREADABLE]
    assert set(known["votes"]["items"]["properties"]["status"]["enum"]) == {*STATUSES} - {"disagreed", "tie"}
    assert known["chosen_by"]["enum"] == [*get_args(ChosenBy), None]
    assert all(name in known["status"]["description"] for name in (*STATUSES, bulk.UNREADABLE))


@pytest.mark.parametrize("killed_at", [0, 1, 2, 3])
def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(tmp_path: Path, whole: Path, killed_at: int) -> None:
    inputs, out = ten(tmp_path), tmp_path / "picks.parquet"
    killed = Asks(killed_at)
    with pytest.raises(Killed):
        run(inputs, killed, out)
    assert not out.exists()
    again = Asks()
    done = run(inputs, again, out)
    assert sorted(killed.asked + again.asked) == sorted(f"r{number}" for number in range(10) if number != 4)
    assert done.asked == 10 - min(killed_at * PIECE, 10)
    assert out.read_bytes() == whole.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("picks")] == ["picks.parquet"]


def test_a_piece_that_is_not_whole_is_asked_again(tmp_path: Path, whole: Path) -> None:
    inputs, out = ten(tmp_path), tmp_path / "picks.parquet"
    with pytest.raises(Killed):
        run(inputs, Asks(3), out)
    pieces = sorted((tmp_path / "picks.parquet.making").glob("*.jsonl"))
    assert len(pieces) == 3
    pieces[0].write_bytes(pieces[0].read_bytes()[:-40])
    pieces[1].write_bytes(b"\0" * 40)
    (tmp_path / "picks.parquet.making" / "00000009.jsonl.part").write_bytes(b"{")
    again = Asks()
    run(inputs, again, out)
    assert again.asked == ["r0", "r1", "r2", "r3", "r5", "r9"]
    assert out.read_bytes() == whole.read_bytes()


def test_what_is_finished_is_not_asked_again(tmp_path: Path, whole: Path) -> None:
    before = whole.read_bytes()
    (whole.parent / "picks.parquet.making").mkdir()  # as of a run that was killed while it cleared up
    model = Asks()
    done = run(ten(whole.parent), model, whole)
    assert (model.opened, done.asked, done.rows) == (0, 0, 10)
    assert whole.read_bytes() == before
    assert not (whole.parent / "picks.parquet.making").exists()


@pytest.mark.parametrize("finished", [True, False])
def test_answers_of_something_else_are_not_gone_on_with(tmp_path: Path, finished: bool) -> None:
    out = tmp_path / "picks.parquet"
    if finished:
        run(ten(tmp_path), Asks(), out)
    else:
        with pytest.raises(Killed):
            run(ten(tmp_path), Asks(1), out)
    place = out if finished else tmp_path / "picks.parquet.making"

    def refused(inputs: Lines, about: Any, piece: int = PIECE) -> str:
        with pytest.raises(ArmError) as caught:
            bulk.pick(inputs, Asks().open, out, about, piece=piece)
        assert caught.value.where == str(place)
        assert caught.value.next_command == f"--out NEW, or delete {place}"
        return caught.value.message

    other = {**ABOUT, "model": {"sha256": "1" * 64}}
    assert refused(ten(tmp_path), other) == "holds picks of something else: model differs"
    assert refused(ten(tmp_path), {**other, "how": {"orders": 3}}).endswith(": how.orders, model differ")
    assert refused(lines(tmp_path, asked()), ABOUT).endswith(": inputs differs")
    assert refused(ten(tmp_path), ABOUT, 5).endswith(": piece differs")
    assert run(ten(tmp_path), Asks(), out).rows == 10, "and what was there is as it was"


@pytest.mark.parametrize("name", ["lock", "about.json.part", "00000003.jsonl.part", "whole.parquet", ""])
def test_a_folder_that_somebody_sent_along_has_no_other_file_written(tmp_path: Path, name: str) -> None:
    mine, work = tmp_path / "mine", tmp_path / "picks.parquet.making"
    mine.mkdir()
    target = mine / "kept.txt"
    target.write_text("kept")
    if name:
        work.mkdir()
        (work / name).symlink_to(target)
    else:
        work.symlink_to(mine)
    with pytest.raises(ArmError, match="is no folder of a run"):
        run(ten(tmp_path), Asks(), tmp_path / "picks.parquet")
    assert [one.name for one in mine.iterdir()] == ["kept.txt"]
    assert target.read_text() == "kept"


def test_what_is_no_answer_is_asked_again(tmp_path: Path, whole: Path) -> None:
    """A piece of other rows, and one whose rows are none; what decided them has to be an object."""
    with pytest.raises(Killed):
        run(ten(tmp_path), Asks(2), tmp_path / "picks.parquet")
    work = tmp_path / "picks.parquet.making"
    (work / "00000000.jsonl").write_bytes((work / "00000003.jsonl").read_bytes())
    (work / "00000003.jsonl").write_bytes(b"[]\n1\n{}\n")
    asks = Asks()
    run(ten(tmp_path), asks, tmp_path / "picks.parquet")
    assert len(asks.asked) == 9
    assert (tmp_path / "picks.parquet").read_bytes() == whole.read_bytes()
    (tmp_path / "other.parquet.making").mkdir()
    (tmp_path / "other.parquet.making" / "about.json").write_text("[1]")
    with pytest.raises(ArmError, match="holds no picks"):
        run(ten(tmp_path), asks, tmp_path / "other.parquet")


def test_another_file_is_left_alone(tmp_path: Path, whole: Path) -> None:
    plain = pq.read_table(whole).replace_schema_metadata(None)
    pq.write_table(plain, tmp_path / "plain.parquet")
    (tmp_path / "text.parquet").write_text("mine")
    for name in ("plain.parquet", "text.parquet"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(ArmError, match="is there already, and holds no picks"):
            run(ten(tmp_path), Asks(), tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_a_server_is_asked_again_for_what_it_did_not_answer(tmp_path: Path, whole: Path) -> None:
    down = {name: Choice(name, "error", None, None, detail="HTTP 503") for name in ("r1", "r7", "r8")}
    inputs, out = ten(tmp_path), tmp_path / "picks.parquet"
    first = run(inputs, Asks(said=down), out)
    assert (first.statuses["error"], first.lacking["selected_index"]) == (3, 4)
    again = Asks()
    done = run(inputs, again, out)
    assert again.asked == ["r1", "r7", "r8"]
    assert (done.asked, done.statuses["error"]) == (3, 0)
    # What was asked together with others gives other scores here, so that only the rest can be compared.
    same = [place for place in range(10) if place not in (1, 7, 8)]
    assert [rows(out)[place] for place in same] == [rows(whole)[place] for place in same]


def test_a_server_that_answers_nothing_is_not_asked_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_SILENCE", 4)
    down = {f"r{number}": Choice(f"r{number}", "error", None, None, detail="nobody listens") for number in range(2, 10)}
    model, out = Asks(said=down), tmp_path / "picks.parquet"
    with pytest.raises(ArmError, match="6 requests in a row got no answer: nobody listens") as caught:
        run(ten(tmp_path), model, out)
    assert "goes on from here" in str(caught.value.next_command)
    assert model.asked == [f"r{number}" for number in range(9) if number != 4]
    again = Asks()
    run(ten(tmp_path), again, out)
    assert again.asked == [f"r{number}" for number in range(2, 10) if number != 4]


def test_a_few_requests_without_an_answer_end_a_run_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_SILENCE", 4)
    some = {f"r{n}": Choice(f"r{n}", "error", None, None, detail="HTTP 500") for n in (0, 1, 3, 6, 8)}
    (tmp_path / "some").mkdir()
    done = run(ten(tmp_path / "some"), Asks(said=some), tmp_path / "some" / "picks.parquet")
    assert (done.rows, done.statuses["error"]) == (10, 5), "others are answered between them"
    down = {"r9": Choice("r9", "error", None, None, detail="HTTP 400")}  # alone in its piece
    done = run(ten(tmp_path), Asks(said=down), tmp_path / "picks.parquet")
    assert (done.rows, done.statuses["error"]) == (10, 1)


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    out = tmp_path / "picks.parquet"
    with pytest.raises(Killed):
        run(ten(tmp_path), Asks(1), out)
    with (tmp_path / "picks.parquet.making" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ArmError, match="another process is writing it"):
            run(ten(tmp_path), Asks(), out)
    assert run(ten(tmp_path), Asks(), out).rows == 10


def test_more_rows_than_a_row_group_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_GROUP", 4)
    done = run(ten(tmp_path), Asks(), tmp_path / "picks.parquet")
    with pq.ParquetFile(done.out) as file:
        assert [file.metadata.row_group(number).num_rows for number in range(3)] == [4, 4, 2]
    assert [row["row_index"] for row in rows(done.out)] == list(range(10))


def test_an_empty_file_holds_no_request(tmp_path: Path) -> None:
    with pytest.raises(ArmError, match="holds no request"):
        lines(tmp_path, b"\n \n")


def test_progress_is_told_for_all_rows(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    show: Callable[[str, int, int], None] = lambda *step: told.append(step)  # noqa: E731
    bulk.pick(ten(tmp_path), Asks().open, tmp_path / "picks.parquet", ABOUT, piece=PIECE, progress=show)
    assert told == [("picking", done, 10) for done in (3, 6, 9, 10)]
