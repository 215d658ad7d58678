"""The difference of two versions of a release: CPU seconds and memory, beside a script that loads both.

    python benchmarks/diff.py [--sets 5000] [--image-kb 10] [--rounds 3] [--keep DIR] [--json]

Version 1.1.0 has 1 % of the labels flipped, 1 % of the candidate sets with another response, 0.3 % of the states with
another screenshot (their rows move to other shards), and a few sets gone and new. Both are built with screenshots
embedded in every table. Seconds are user + system of a whole process with one thread, imports included; memory is the
peak of its resident set.
What the difference says is compared with what the script finds, so that a fast answer is also a right one.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from action_reward_models.benchmarks.make_release import _write_lines, png, write_sources
from action_reward_models.benchmarks.processes import run
from action_reward_models.benchmarks.release_spec import release_spec

MAX_SECONDS, MAX_MB = 10.0, 300  # for 50,000 sets; fewer take less
MIN_RATIO = 2.0
MAX_SCRIPT_SETS = 10_000  # more do not fit into the memory of most machines
Record = dict[str, Any]


def write_versions(folder: Path, sets: int, image_kb: int) -> None:
    """Two versions of the source files, ``<kind>-before.jsonl`` and ``<kind>-after.jsonl``, and their pictures."""
    states = max(20, sets // 16)
    release = write_sources(folder, states, sets, image_kb, ending="-before.jsonl")
    draw = random.Random(1)
    gone = {f"{release.ids[draw.randrange(states)]}#d{draw.randrange(8)}" for _ in range(sets // 500)}

    def state(record: Record) -> Record | None:
        if draw.random() < 0.003:
            name = f"state_images/new-{record['state_id']}.png"
            (folder / name).write_bytes(png(draw.randrange(10**9), image_kb))
            record["images"] = [name]
        return record

    def candidates(record: Record) -> Record | None:
        if record["state_id"] in gone:
            return None
        if draw.random() < 0.01:
            record["candidates"][draw.randrange(5)] = release.response(*release.call())
        if draw.random() < 0.002:  # the same under a new id
            record["state_id"] = record["state_id"].replace("#d", "#d9")
        return record

    def label(record: Record) -> Record | None:
        if record["state_id"] not in known:
            return None
        if draw.random() < 0.01:
            record["selection"] = draw.choice([n for n in range(5) if n != record["selection"]])
        return record

    _revise(folder, "states", state)
    _revise(folder, "candidate_sets", candidates)
    known = {record["state_id"] for record in _records(folder / "candidate_sets-after.jsonl")}
    _revise(folder, "teacher_labels", label)


def _revise(folder: Path, kind: str, change: Callable[[Record], Record | None]) -> None:
    changed = map(change, _records(folder / f"{kind}-before.jsonl"))
    _write_lines(folder / f"{kind}-after.jsonl", (record for record in changed if record is not None))


def _records(path: Path) -> Any:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def build(sources: Path, version: str, out: Path) -> None:
    from action_reward_models.builders.runner import build as run_build
    from action_reward_models.builders.spec import BASE_TABLES
    from action_reward_models.cards.dataset import render

    files = {kind: (f"{kind}.jsonl", sources / f"{kind}-{version}.jsonl") for kind in BASE_TABLES}
    spec = release_spec(files, {"before": "1.0.0", "after": "1.1.0"}[version])
    run_build(spec, out, card=render, workers=2)
    print("{}")


def compare(before: Path, after: Path) -> dict[str, dict[str, int]]:
    """Table -> rows added, removed, changed: what `arm diff` finds."""
    from action_reward_models.registry.diff import Side, compare

    with Side.folder(before) as old, Side.folder(after) as new:
        diff = compare(old, new)
    return {
        name: {"added": table.total.added, "removed": table.total.removed, "changed": table.total.changed}
        for name, table in diff.tables.items()
        if name != "exclusions"
    }


def load_both(before: Path, after: Path) -> dict[str, dict[str, int]]:
    """The same by a script as anyone would write it: both versions as dictionaries, table by table."""
    import pyarrow.parquet as pq
    from action_reward_models.schemas.store import ID_FIELDS

    found = {}
    for table, key in ID_FIELDS.items():
        if not any((folder / "data" / table).is_dir() for folder in (before, after)):
            continue
        old, new = (
            {
                row[key]: {name: value for name, value in row.items() if name != "source"}
                for path in sorted((folder / "data" / table).glob("*.parquet"))
                for row in pq.read_table(path).to_pylist()
            }
            for folder in (before, after)
        )
        changed = sum(old[key] != new[key] for key in old.keys() & new.keys())
        found[table] = {
            "added": len(new.keys() - old.keys()),
            "removed": len(old.keys() - new.keys()),
            "changed": changed,
        }
    return found


def measure(folder: Path, sets: int, image_kb: int, rounds: int) -> list[dict[str, Any]]:
    if not (folder / "after" / "manifest.json").is_file():
        run(__file__, "--sources", str(folder / "sources"), str(sets), str(image_kb))
        for version in ("before", "after"):
            run(__file__, "--build", str(folder / "sources"), version, str(folder / version))
    sides = str(folder / "before"), str(folder / "after")
    ours, scripts = [], []
    for _ in range(rounds):
        ours.append(run(__file__, "--compare", *sides))
        if sets <= MAX_SCRIPT_SETS:
            scripts.append(run(__file__, "--load-both", *sides))
    seconds = statistics.median(one.cpu for one in ours)
    wall = statistics.median(one.wall for one in ours)
    changed = sum(sum(table.values()) for table in ours[0].said.values())
    stored = sum(path.stat().st_size for side in sides for path in Path(side).rglob("*.parquet"))
    note = f"{wall:.1f} s by the clock; {changed:,} rows differ; {stored / 1e6:,.0f} MB of Parquet in both"
    lines: list[dict[str, Any]] = [
        {"name": f"diff: {sets:,} sets, CPU s", "value": seconds, "at_most": MAX_SECONDS, "note": note},
        {"name": "diff: peak memory, MB", "value": max(one.largest_mb for one in ours), "at_most": MAX_MB},
    ]
    if scripts:
        script = statistics.median(one.cpu for one in scripts)
        peak = max(one.largest_mb for one in scripts)
        wrong = [name for name, counts in scripts[0].said.items() if ours[0].said[name] != counts]
        lines += [
            {
                "name": "diff: script / ours, CPU",
                "value": script / seconds,
                "at_least": MIN_RATIO,
                "note": f"a script that loads both takes {script:.1f} s and {peak:,.0f} MB",
            },
            {"name": "diff: counts that differ", "value": len(wrong), "at_most": 0, "note": "; ".join(wrong)},
        ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=5000)
    parser.add_argument("--image-kb", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="build into this folder, or compare what was built there before")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arm-bench-") as folder:
        lines = measure(given.keep or Path(folder), given.sets, given.image_kb, given.rounds)
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:45} {line['value']:10.2f}  {line.get('note', '')}")


if __name__ == "__main__":
    match sys.argv[1:2]:
        case ["--sources"]:
            write_versions(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
            print("{}")
        case ["--build"]:
            build(Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
        case ["--compare"]:
            print(json.dumps(compare(Path(sys.argv[2]), Path(sys.argv[3]))))
        case ["--load-both"]:
            print(json.dumps(load_both(Path(sys.argv[2]), Path(sys.argv[3]))))
        case _:
            main()
