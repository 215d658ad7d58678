"""Workers end with their parent, however that ends."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.builders.conftest import Toy

SCRIPT = """
import pickle, sys
from pathlib import Path
from action_reward_models.builders import runner
if __name__ == "__main__":
    runner.build(pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]), card=str, workers=2)
"""


@pytest.mark.parametrize("signals", [("INT",), ("INT", "INT"), ("TERM", "TERM"), ("KILL",)], ids="+".join)
def test_workers_end_with_the_parent(signals: tuple[str, ...], toy: Toy) -> None:
    """Two interrupts are what people send, and a parent that was killed can end nobody."""
    for number in range(300):
        toy.scene(f"e{number}", picture=number, task=f"task {number}")
    script, spec, out = toy.folder / "script.py", toy.folder / "spec.pickle", toy.folder / "out"
    script.write_text(SCRIPT)
    spec.write_bytes(pickle.dumps(toy.spec(shards=64)))
    command = [sys.executable, str(script), str(spec), str(out)]
    # The workers inherit the pipe, so that reading it ends only when the last of them has ended.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 30
    while len(children.read_text().split()) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)  # two workers and the process that looks after their resources
    for name in signals:
        process.send_signal(signal.Signals[f"SIG{name}"])
        time.sleep(0.1)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert not out.exists()
