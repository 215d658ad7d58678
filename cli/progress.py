"""How far a verb is: a bar on a terminal, a line now and then elsewhere, with rows per second and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

LINE_SECONDS = 10.0  # between two lines where there is no terminal; what is done sooner prints none
RESUMED = "building"  # is first reported before anything is done here
SURE_SECONDS = 2.0  # before which a rate says little
Show = Callable[..., None]  # (what, done, total) in any unit; where it is known, how many rows that is


@dataclass
class _Stage:
    """One thing that is counted. What was done at its first report was done by another run, or at once."""

    what: str
    started: float
    first_done: int
    first_rows: int
    done: int = 0
    total: int = 0
    rows: int | None = None

    def facts(self, now: float) -> str:
        """``3,400 rows/s, 50 s left``, as far as it can be known yet."""
        seconds, done = now - self.started, self.done - self.first_done
        if seconds < SURE_SECONDS or done <= 0:
            return ""
        known = []
        if self.rows is not None:
            known.append(f"{(self.rows - self.first_rows) / seconds:,.0f} rows/s")
        if self.done < self.total:
            known.append(f"{duration(seconds * (self.total - self.done) / done)} left")
        return ", ".join(known)

    def line(self, now: float) -> str:
        share = f"{100 * self.done / self.total:.0f}%" if self.total else "100%"
        counted = "" if self.rows is None else f", {self.rows:,} rows"
        facts = self.facts(now)
        return f"{self.what}: {share}{counted}{', ' if facts else ''}{facts}"


def duration(seconds: float) -> str:
    """A duration to two figures: ``50 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def progress() -> Iterator[Show]:
    """A progress callback. On a terminal it draws a bar; elsewhere what takes long prints a line every ten seconds."""
    stages: dict[str, _Stage] = {}

    def reported(what: str, done: int, total: int, rows: int | None) -> _Stage:
        stage = stages.get(what)
        if stage is None or done < stage.done:  # the same thing again, as for the next dataset
            stage = stages[what] = _Stage(what, time.monotonic(), done, rows or 0)
            if what == RESUMED and done:
                click.echo(f"{what}: goes on where an earlier run ended, {done / total:.0%} is finished", err=True)
        stage.done, stage.total, stage.rows = done, total, rows
        return stage

    yield from _bars(reported) if sys.stderr.isatty() else _lines(reported)


def _lines(reported: Callable[..., _Stage]) -> Iterator[Show]:
    last = time.monotonic()

    def show(what: str, done: int, total: int, rows: int | None = None, /) -> None:
        nonlocal last
        stage, now = reported(what, done, total, rows), time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            click.echo(stage.line(now), err=True)

    yield show


def _bars(reported: Callable[..., _Stage]) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[facts]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int, rows: int | None = None, /) -> None:
            stage = reported(what, done, total, rows)
            if what not in tasks:
                for earlier in tasks.values():  # one thing after another; the last report may come before its end
                    bars.update(earlier, completed=bars.tasks[earlier].total)
                tasks[what] = bars.add_task(what, total=total, facts="")
            bars.update(tasks[what], completed=done, total=total, facts=stage.facts(time.monotonic()))

        yield show
