"""Run all benchmarks, print one table, and exit 1 when a target is missed.

    python benchmarks/run.py [--quick | --large]

``--quick`` builds a tenth of the release, where starting processes weighs more than building: CPU ratios are shown, not
judged. ``--large`` also builds ten times the release; that takes half an hour, 10 GB of disk and, for the
script that is compared, as much memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def measure(script: str, *arguments: str) -> list[dict[str, Any]]:
    """The lines of one benchmark, in a process of its own."""
    command = [sys.executable, str(HERE / script), *arguments, "--json"]
    lines: list[dict[str, Any]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return lines


def verdict(line: dict[str, Any]) -> tuple[str, str]:
    """(target, PASS or FAIL); empty for a line without target."""
    if "at_most" in line:
        return f"<= {line['at_most']:g}", "PASS" if line["value"] <= line["at_most"] else "FAIL"
    if "at_least" in line:
        return f">= {line['at_least']:g}", "PASS" if line["value"] >= line["at_least"] else "FAIL"
    return "", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    quick = given.quick
    lines = measure("validate.py") + measure("images.py")
    scales = ("0.1",) if quick else ("1", "10") if given.large else ("1",)
    lines += measure("build.py", "--scale", *scales, "--rounds", "2" if quick else "3")
    lines += measure("diff.py", "--sets", "1000" if quick else "5000")
    lines += measure("gallery.py", "--states", "400" if quick else "1000", "--sets", "2000" if quick else "8000")
    lines += measure("publish.py", "--states", "300" if quick else "2000")
    lines += measure("generate.py", "--requests", "2560" if quick else "20000", "--rounds", "1")
    lines += measure("score.py", "--rounds", "1" if quick else "3")
    if quick:
        for line in lines:
            if line["name"].startswith("build") and line["name"].endswith("CPU"):
                line.pop("at_most", None)
            if line["name"] == "diff: script / ours, CPU":
                del line["at_least"]
            if line["name"] == "generate, small: memory, last / second tenth":
                del line["at_most"]  # a tenth of few requests is less than are under way at once
    missed = False
    for line in lines:
        target, result = verdict(line)
        missed |= result == "FAIL"
        print(f"{line['name']:50} {line['value']:10.2f}  {target:8} {result:5} {line.get('note', '')}".rstrip())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
