"""What is said while a verb works: nothing of what is soon done; of the rest how much, how fast, how long yet."""

from __future__ import annotations

import io
import sys

import pytest
from action_reward_models.cli import output
from action_reward_models.cli import progress as progresses


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_what_is_soon_done_prints_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as show:
        for done in range(100):
            show("reading", done, 100, done)
            clock.passes(0.09)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_long_run_says_every_ten_seconds_how_far_it_is(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with output.progress() as show:
        for tenth in range(201):  # 20 s in one stage
            show("reading", tenth * 1000, 400_000, tenth * 10)
            clock.passes(0.1)
        show("checking", 0, 7)
        clock.passes(12)
        show("checking", 5, 7)
        clock.passes(12)
        show("checking", 7, 7)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 25%, 1,000 rows, 100 rows/s, 30 s left",
        "reading: 50%, 2,000 rows, 100 rows/s, 20 s left",
        "checking: 71%, 5 s left",
        "checking: 100%",
    ]


def test_what_an_earlier_run_did_counts_as_done_and_not_as_speed(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with output.progress() as show:
        show("building", 900, 1000, 900)
        clock.passes(10)
        show("building", 950, 1000, 950)
    assert capsys.readouterr().err.splitlines() == [
        "building: goes on where an earlier run ended, 90% is finished",
        "building: 95%, 950 rows, 5 rows/s, 10 s left",
    ]


def test_the_next_dataset_is_counted_anew(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as show:
        show("building", 0, 10, 0)
        clock.passes(8)
        show("building", 10, 10, 10)
        show("building", 0, 1000, 0)
        clock.passes(5)
        show("building", 500, 1000, 500)
    assert capsys.readouterr().err == "building: 50%, 500 rows, 100 rows/s, 5 s left\n"


def test_nothing_to_do_is_all_done(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as show:
        clock.passes(11)
        show("building", 0, 0, 0)
    assert capsys.readouterr().err == "building: 100%, 0 rows\n"


def test_a_terminal_shows_the_same_facts_in_a_bar(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with output.progress() as show:
        show("reading", 1, 3)  # its last report, as the end of a file may come without one
        show("building", 0, 1000, 0)
        clock.passes(10)
        show("building", 250, 1000, 250)
    last = screen.getvalue().rpartition("reading")[2]
    assert "100%" in last.partition("building")[0]
    assert "building" in screen.getvalue()
    assert "25%" in screen.getvalue()
    assert "25 rows/s, 30 s left" in screen.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (59.4, "59 s"), (90, "2 min"), (3540, "59 min"), (12_000, "3 h 20 min")]
)
def test_durations_have_two_figures(seconds: float, words: str) -> None:
    assert progresses.duration(seconds) == words
