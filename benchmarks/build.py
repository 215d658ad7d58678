"""A checked build of whole releases against the unchecked script, in CPU seconds and memory.

    python benchmarks/build.py [--scale 1 10] [--rounds 3] [--workers 2] [--release DIR] [--baseline SCRIPT] [--json]

Scale 1 is a release of 50,000 candidate sets. Both run in fresh processes, alternating. CPU is user + system over all
processes; memory is the peak of the summed PSS (RSS where the kernel has none) of a process and all below it, sampled.
Without ``--release`` the releases are generated. The build's account is compared with what the release holds, so that a
fast build is also a right one. The build compared refers to screenshots, since the script stores them once; the one
with embedded screenshots is shown beside it. Above scale 2 a build runs once, because it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from action_reward_models.benchmarks.processes import Run, run
from action_reward_models.benchmarks.release_spec import release_spec

HERE = Path(__file__).resolve().parent
MAX_RATIO = 11.0  # of the script's CPU, on busy cores; the goal is 3, and benchmarks/README.md says what stands between
MAX_PEAK_MB = 1000  # at every scale
MAX_WORKERS_RATIO = 1.15  # CPU of several workers to that of one
MAX_GROWTH = 1.15  # CPU per row at the largest scale to that at the smallest


def build(release: Path, out: Path, images: Any, workers: int) -> dict[str, Any]:
    """Build the release as its registry.yaml would; return the account and the row digests."""
    from action_reward_models.builders.runner import build as run_build

    names = {
        "states": "states_full.jsonl",
        "candidate_sets": "candidates_merged.jsonl",
        "teacher_labels": "labels_drawlevel.jsonl",
    }
    spec = release_spec({kind: (name, release / name) for kind, name in names.items()}, images=images)
    built = run_build(spec, out, card=lambda manifest: "", workers=workers)
    identity = built.manifest["identity"]
    return {
        "ledger": identity["ledger"],
        "label_status": identity["statistics"]["label_status"],
        "rows": {name: table["rows"] for name, table in identity["tables"].items()},
        "row_digests": {name: table["row_digest"] for name, table in identity["tables"].items()},
    }


def differences(release: Path, said: dict[str, Any]) -> list[str]:
    """What the build's account says otherwise than a plain scan of the release."""
    sets: dict[str, set[str]] = {}
    records: Counter[str] = Counter()
    for record in _records(release / "candidates_merged.jsonl"):
        records[record["state_id"]] += 1
        sets.setdefault(record["state_id"], set()).add(json.dumps(record, sort_keys=True))
    conflicts = {set_id for set_id, contents in sets.items() if len(contents) > 1}
    labels = list(_records(release / "labels_drawlevel.jsonl"))
    orphans = [label for label in labels if label["state_id"] in conflicts]
    states = sum(1 for _ in _records(release / "states_full.jsonl"))
    planted = json.loads((release / "planted.json").read_text())
    ledger = said["ledger"]
    checks = {
        "states": (ledger["states"]["out"], states, planted["states"]),
        "candidate records": (ledger["candidate_sets"]["in"], records.total(), planted["candidate_records"]),
        "candidate sets": (
            ledger["candidate_sets"]["out"],
            len(sets) - len(conflicts),
            planted["distinct_set_ids"] - planted["conflicting_ids"],
        ),
        "quarantined records": (
            ledger["candidate_sets"]["excluded"].get("conflicting_id", 0),
            sum(records[set_id] for set_id in conflicts),
            planted["candidate_records"] - planted["distinct_set_ids"] + planted["conflicting_ids"],
        ),
        "label records": (ledger["teacher_labels"]["in"], len(labels), planted["labels"]),
        "labels without set": (ledger["teacher_labels"]["excluded"].get("no_candidate_set", 0), len(orphans)),
        "null labels": (
            said["label_status"].get("null_in_source", 0),
            planted["null_labels"] - sum(label["selection"] is None for label in orphans),
        ),
    }
    return [f"{name}: built {found}" for name, found in checks.items() if len(set(found)) > 1]


def _records(path: Path) -> Any:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def compare(
    release: Path, baseline: Path, rounds: int, workers: int, work: Path, name: str
) -> tuple[list[dict[str, Any]], float]:
    """Run both ``rounds`` times and return the lines of the report, and our CPU seconds per row."""
    naive, ours, alone = [], [], []

    def built(images: str, number: int) -> Run:
        out = work / f"{name}-{images}-{number}"
        return run(__file__, "--child", str(release), str(out), images, str(number))

    for _ in range(rounds):
        naive.append(run(str(baseline), str(release), str(work / f"{name}-naive")))
        ours.append(built("reference", workers))
        alone.append(built("reference", 1))
    floor = run(str(HERE / "floor.py"), str(release), str(work / f"{name}-reference-1")).said["seconds"]
    embedded = built("embed", workers)
    naive_cpu, our_cpu, alone_cpu = (statistics.median(r.cpu for r in runs) for runs in (naive, ours, alone))
    peak, naive_peak = max(r.peak_mb for r in ours), max(r.peak_mb for r in naive)
    wrong = differences(release, ours[0].said)
    if any(r.said["row_digests"] != ours[0].said["row_digests"] for r in [*ours, *alone]):
        wrong.append("row digests differ between two builds")
    rows = sum(ours[0].said["rows"].values())
    wall = statistics.median(r.wall for r in ours)
    lines = [
        {"name": "CPU of the script, s", "value": naive_cpu, "note": f"peak {naive_peak:.0f} MB"},
        {"name": "CPU of ours, s", "value": our_cpu, "note": f"{rows:,} rows, {rows / wall:,.0f} rows/s"},
        {"name": "ours / script, CPU", "value": our_cpu / naive_cpu, "at_most": MAX_RATIO},
        {
            "name": "libraries alone / script, CPU",
            "value": floor / naive_cpu,
            "note": f"{floor:.1f} s for the same rows, without a line of Python between",
        },
        {"name": f"{workers} workers / 1, CPU", "value": our_cpu / alone_cpu, "at_most": MAX_WORKERS_RATIO},
        {"name": f"peak memory, {workers} workers, MB", "value": peak, "at_most": MAX_PEAK_MB},
        {"name": "counts that differ", "value": len(wrong), "at_most": 0, "note": "; ".join(wrong)},
        {
            "name": "embedded screenshots, peak MB",
            "value": embedded.peak_mb,
            "at_most": MAX_PEAK_MB,
            "note": f"{embedded.cpu:.1f} s, {embedded.cpu / naive_cpu:.1f} x script",
        },
    ]
    return [line | {"name": f"build {name}: {line['name']}"} for line in lines], our_cpu / rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, nargs="+", default=[1.0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--release", type=Path)
    parser.add_argument("--baseline", type=Path, default=HERE / "naive_build.py")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    lines: list[dict[str, Any]] = []
    per_row: list[float] = []
    for scale in sorted(given.scale):
        with tempfile.TemporaryDirectory(prefix="arm-bench-") as folder:
            release = given.release or Path(folder) / "release"
            if not given.release:
                run(str(HERE / "make_release.py"), str(release), "--scale", str(scale))
            rounds = 1 if scale > 2 else given.rounds
            name = given.release.name if given.release else f"x{scale:g}"
            found, cpu = compare(release.resolve(), given.baseline.resolve(), rounds, given.workers, Path(folder), name)
            lines += found
            per_row.append(cpu)
    if len(per_row) > 1:
        growth = per_row[-1] / per_row[0]
        lines.append({"name": "build: CPU per row, largest / smallest", "value": growth, "at_most": MAX_GROWTH})
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:50} {line['value']:10.2f}  {line.get('note', '')}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(build(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))))
    else:
        main()
