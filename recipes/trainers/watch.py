"""What looks on while a trainer works: progress, the time it takes, and the wish to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from transformers import TrainerCallback, TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .team import Team

_SECONDS = "seconds.json"  # in each checkpoint of the trainer: wall time until then


class Watch(TrainerCallback):
    """Between entering and leaving, SIGINT and SIGTERM end training after the step that is being made, with a
    checkpoint to go on from. A second SIGINT ends it at once; a launcher sends SIGTERM after SIGINT by itself."""

    def __init__(self, team: Team, progress: Callable[[str, int, int], None], before: float = 0.0) -> None:
        self.team, self.progress, self.before = team, progress, before
        self.stopping, self.started = 0, time.monotonic()
        self._old: list[tuple[signal.Signals, Any]] = []

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.team.first:
            self.progress("training", state.global_step, state.max_steps)
        if self.team.any(bool(self.stopping)) and state.global_step < state.max_steps:
            self.stopping = self.stopping or signal.SIGINT
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.team.first:
            folder = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            (folder / _SECONDS).write_bytes(orjson.dumps(self.seconds))

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old.append((number, signal.signal(number, self._stop)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._old:
            signal.signal(number, before)

    def _stop(self, number: int, _: Any) -> None:
        if self.stopping == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stopping = self.stopping or number


def last(folder: Path) -> Path | None:
    """The newest checkpoint of a trainer that was written to its end: its state is written last."""
    found = [
        path for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*")
        if path.name.rpartition("-")[2].isdigit() and (path / "trainer_state.json").is_file()
        and (path / _SECONDS).is_file()
    ]  # fmt: skip
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def ended(trainer: Any, checkpoint: Path | None) -> bool:
    """Whether ``checkpoint`` was written after the last step; then ``trainer`` has its weights and its state.

    A trainer that is told to go on from there makes another step before it looks at how many there are to be.
    """
    if checkpoint is None:
        return False
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    if state.global_step < state.max_steps:
        return False
    trainer._load_from_checkpoint(str(checkpoint))
    trainer.state = state
    return True


def seconds(checkpoint: Path | None) -> float:
    """Wall time that led to ``checkpoint``."""
    return float(orjson.loads((checkpoint / _SECONDS).read_bytes())) if checkpoint else 0.0
