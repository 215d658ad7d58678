"""The review page of a build with large screenshots: seconds, memory, and the size of the file against its budget.

    python benchmarks/gallery.py [--states 1000] [--sets 8000] [--image-kb 100] [--items 300] [--keep DIR] [--json]

Screenshots do not compress and are embedded in every table, as is the default. Seconds are user + system of a whole
process with one thread, imports included; memory is the peak of its resident set. The second page has room for a fifth
of what the first one shows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from action_reward_models.benchmarks.make_release import write_sources
from action_reward_models.benchmarks.processes import Run, run
from action_reward_models.benchmarks.release_spec import release_spec

MAX_SECONDS, MAX_MB = 10.0, 400
BUDGET = 50_000_000  # bytes, as `arm review` has it
SMALL = BUDGET // 5


def build(sources: Path, out: Path) -> None:
    from action_reward_models.builders.runner import build as run_build
    from action_reward_models.builders.spec import BASE_TABLES
    from action_reward_models.cards.dataset import render

    spec = release_spec({kind: (f"{kind}.jsonl", sources / f"{kind}.jsonl") for kind in BASE_TABLES})
    run_build(spec, out, card=render, workers=2)
    print("{}")


def review(built: Path, out: Path, items: int, budget: int) -> None:
    from action_reward_models.cards.gallery.choice import Choice
    from action_reward_models.cards.gallery.data import gallery
    from action_reward_models.cards.gallery.writing import write
    from action_reward_models.schemas.built import BuiltTables

    tables = BuiltTables.of(built, lambda *_: None, "looking for items")
    page, data = gallery(tables, Choice(items=items, budget=budget), str(built))
    write(page, out)
    counts = {"items": len(data["items"]), "pictures": len(data["pictures"])}
    shown = sum(picture["bytes"] for picture in data["pictures"].values())
    print(json.dumps({**counts, "picture_bytes": shown, "of": sum(stratum["of"] for stratum in data["strata"])}))


def measure(folder: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    if not (folder / "built" / "manifest.json").is_file():
        counts = map(str, (given.states, given.sets, given.image_kb))
        run(__file__, "--sources", str(folder / "sources"), *counts)
        run(__file__, "--build", str(folder / "sources"), str(folder / "built"))

    def made(name: str, budget: int) -> Run:
        return run(__file__, "--review", str(folder / "built"), str(folder / name), str(given.items), str(budget))

    whole, small = made("whole.html", BUDGET), made("small.html", SMALL)
    stored = sum(path.stat().st_size for path in (folder / "built").rglob("*.parquet"))
    note = (
        f"{whole.wall:.1f} s by the clock; {whole.said['items']} of {whole.said['of']:,} items with "
        f"{whole.said['pictures']} screenshots, from {stored / 1e6:,.0f} MB of Parquet"
    )
    size, tight = (folder / "whole.html").stat().st_size, (folder / "small.html").stat().st_size
    sizes = f"{size / 1e6:.1f} of {BUDGET / 1e6:g} MB, of which screenshots are {whole.said['picture_bytes'] / 1e6:.1f}"
    return [
        {"name": f"gallery: {given.items} items, CPU s", "value": whole.cpu, "at_most": MAX_SECONDS, "note": note},
        {"name": "gallery: peak memory, MB", "value": whole.largest_mb, "at_most": MAX_MB},
        {"name": "gallery: items left out", "value": given.items - whole.said["items"], "at_most": 0},
        {"name": "gallery: size / budget", "value": size / BUDGET, "at_most": 1.0, "note": sizes},
        {
            "name": "gallery: size / a fifth of the budget",
            "value": tight / SMALL,
            "at_most": 1.0,
            "note": f"{small.said['items']} items, {small.largest_mb:,.0f} MB of memory",
        },
        {"name": "gallery: share of the fifth that is used", "value": tight / SMALL, "at_least": 0.95},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=1000)
    parser.add_argument("--sets", type=int, default=8000)
    parser.add_argument("--image-kb", type=int, default=100)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="build into this folder, or look at what was built there before")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arm-bench-") as folder:
        lines = measure(given.keep or Path(folder), given)
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:45} {line['value']:10.2f}  {line.get('note', '')}")


if __name__ == "__main__":
    match sys.argv[1:2]:
        case ["--sources"]:
            write_sources(Path(sys.argv[2]), *map(int, sys.argv[3:6]))
            print("{}")
        case ["--build"]:
            build(Path(sys.argv[2]), Path(sys.argv[3]))
        case ["--review"]:
            review(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        case _:
            main()
