"""Time from `pip install` to the first score, in an environment of its own.

    python benchmarks/first_score.py [--json]

Installs the committed files with the extra `inference` and the tested versions, and runs `arm score` on one question of
five candidates with a screenshot: once, with everything that a first run does, and once more. The model has a million
parameters and lies in a folder, so no weights are downloaded; those of a real one take what they take. How long the
packages take depends on the line and the index: with pip's cache they are only unpacked.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CANDIDATES = [f"<action>click({40 * number}, 139)</action>" for number in range(1, 6)]


def measure() -> list[dict[str, Any]]:
    from action_reward_models.tests.inference import process
    from action_reward_models.tests.inference.asked import png, state, url
    from action_reward_models.tests.tiny_vlm import cached

    env = {name: value for name, value in cached.environment().items() if name not in ("USE_TORCH", "PYTHONWARNINGS")}
    with tempfile.TemporaryDirectory() as work:
        folder, base = Path(work), process.base()
        process.run("made", folder / "model", base, "scalar")
        asked = {"state": state(screenshot=url(png(160, 120))), "candidates": CANDIDATES}
        (folder / "question.json").write_text(json.dumps(asked))
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder / "source", filter="data")
        binaries = folder / "venv" / "bin"
        pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install = [*pip, "-c", str(folder / "source" / "constraints.txt"), f"{folder / 'source'}[inference]"]
        score = [str(binaries / "arm"), "score", str(folder / "model"), str(folder / "question.json")]
        score += ["--base", str(base), "--json"]
        took = [seconds(command, env) for command in ([sys.executable, "-m", "venv", str(folder / "venv")], install)]
        took += [seconds(score, env), seconds(score, env)]
        files_mb = sum(path.lstat().st_size for path in (folder / "venv").rglob("*")) / 1e6
    names = ("python -m venv", "pip install", "first score", "second score")
    lines: list[dict[str, Any]] = [
        {"name": f"first score: {name}, seconds", "value": wall, "note": f"{cpu:.1f} s of CPU"}
        for name, (wall, cpu) in zip(names, took, strict=True)
    ]
    lines[1]["note"] += f"; {files_mb:,.0f} MB on disk"
    both = [sum(part) for part in zip(took[1], took[2], strict=True)]
    name = "first score: from pip install to it, seconds"
    return [*lines, {"name": name, "value": both[0], "note": f"{both[1]:.1f} s of CPU"}]


def seconds(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Of a command: by the clock on the wall, and of CPU."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=os.sep)
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    lines = measure()
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:50} {line['value']:10.1f}  {line.get('note', '')}".rstrip())


if __name__ == "__main__":
    main()
