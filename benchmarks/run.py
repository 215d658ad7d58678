"""Run all benchmarks, print one table, and exit 1 when a target is missed.

    python benchmarks/run.py [--quick]

``--quick`` builds a tenth of the release, where starting processes weighs more than building: CPU ratios are shown, not
judged.
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
    quick = parser.parse_args().quick
    lines = measure("validate.py") + measure("images.py")
    lines += measure("build.py", "--scale", "0.1" if quick else "1.0", "--rounds", "2" if quick else "3")
    lines += measure("diff.py", "--sets", "1000" if quick else "5000")
    lines += measure("publish.py", "--states", "300" if quick else "2000")
    if quick:
        for line in lines:
            if line["name"] == "build: ours / script, CPU":
                del line["at_most"]
            if line["name"] == "diff: script / ours, CPU":
                del line["at_least"]
    missed = False
    for line in lines:
        target, result = verdict(line)
        missed |= result == "FAIL"
        print(f"{line['name']:42} {line['value']:10.2f}  {target:8} {result:5} {line.get('note', '')}".rstrip())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
