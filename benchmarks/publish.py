"""Publish a large dataset to the embedded hub: memory of both sides, and what the next version sends.

    python benchmarks/publish.py [--states 12000] [--image-kb 100] [--json]

Screenshots of noise, so that nothing compresses. Version 1.1.0 has 1 % more states, whose screenshots scatter over all
shards. It is published twice on top of 1.0.0: by the client that published 1.0.0, and by one with an empty cache.
Bytes are those of the chunks that the hub received. Memory of the client is that of its largest process: the publisher,
or the one that loads the result back as anyone would.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from action_reward_models.benchmarks.make_release import Release, Sizes, _write_lines
from action_reward_models.benchmarks.processes import SAMPLE_SECONDS, Run, family, memory_kb, run
from action_reward_models.hub_sync.local_hub import serve

MAX_CLIENT_MB, MAX_HUB_MB = 400, 300
MAX_WARM, MAX_FRESH = 0.10, 0.20  # of the version's bytes
REGISTRY = """registry: 1
namespace: benchmark
datasets:
  - name: release
    version: "{version}"
    license: mit
    sources:
{sources}
    split: {{validation: 0.1, seed: 42}}
    tables:
      states: {{}}
      candidate_sets: {{}}
      teacher_labels: {{}}
      selection_sft: {{prompt: selection/1}}
      bt_pairs: {{prompt: scalar/1}}
"""
SOURCES = """\
      - {{kind: states, format: first_release, path: {0}/states.jsonl, dialect: openwebrl, space: norm1000}}
      - {{kind: candidate_sets, format: first_release, path: {0}/sets.jsonl, dialect: openwebrl, space: norm1000}}
      - {{kind: teacher_labels, format: first_release, path: {0}/labels.jsonl, teacher: synthetic}}
"""


def write_source(folder: Path, name: str, states: int, image_kb: int, seed: int) -> None:
    """States with one candidate set and one label each, under ids that start with ``name``."""
    out = folder / name
    out.mkdir()
    tasks = max(1, states // 8)
    release = Release(Sizes(states, tasks, tasks, states, 0, states, 0, states), seed, image_kb)
    release.image = lambda state: f"state_images/{name}{state:012x}.png"  # type: ignore[method-assign]
    release.images = states
    _write_lines(out / "states.jsonl", _renamed(release.states(), name))
    release.write_images(out)
    _write_lines(out / "sets.jsonl", _renamed(release.candidate_sets(), name))
    _write_lines(out / "labels.jsonl", _renamed(release.labels(), name))


def _renamed(records: Any, name: str) -> Iterator[dict[str, Any]]:
    for record in records:
        yield json.loads(json.dumps(record).replace('"task0', f'"{name}0').replace('"task1', f'"{name}1'))


@contextmanager
def peak_of(pid: int) -> Iterator[list[float]]:
    """The peak memory in MB of a process that runs already, in a list of one."""
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], sum(map(memory_kb, family(pid))) / 1024)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def push(built: Path, hub: Path, home: Path) -> tuple[Run, float, float]:
    """Publish: (the client's process, peak of the hub in MB, bytes of chunks that the hub received)."""
    running = serve.start(hub, 0)
    before = received(hub)
    env = {
        **os.environ,
        "HF_ENDPOINT": running["url"],
        "HF_TOKEN": (hub / "token").read_text().strip(),
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    with peak_of(running["pid"]) as peak:
        client = run(__file__, "--push", str(built), env=env)
    serve.stop(hub)
    return client, peak[0], received(hub) - before


def received(hub: Path) -> int:
    return sum(path.stat().st_size for path in (hub / "xorbs").rglob("*") if path.is_file())


def size_of(built: Path) -> int:
    return sum(path.stat().st_size for path in (built / "data").rglob("*.parquet"))


def measure(states: int, image_kb: int, work: Path) -> list[dict[str, Any]]:
    from action_reward_models.registry import Registry

    write_source(work, "first", states, image_kb, seed=1)
    write_source(work, "second", max(1, states // 100), image_kb, seed=2)
    built = {}
    for version, names in (("1.0.0", ["first"]), ("1.1.0", ["first", "second"])):
        text = REGISTRY.format(version=version, sources="".join(SOURCES.format(name) for name in names))
        (work / "registry.yaml").write_text(text)
        built[version] = work / version
        Registry.load(work).build(out=built[version], workers=2)
    hub, home = work / "hub", work / "home"
    started = time.monotonic()
    client, hub_mb, sent = push(built["1.0.0"], hub, home)
    seconds = time.monotonic() - started
    shutil.copytree(hub, work / "hub-fresh")
    warm_client, warm_hub_mb, warm = push(built["1.1.0"], hub, home)
    fresh_client, fresh_hub_mb, fresh = push(built["1.1.0"], work / "hub-fresh", work / "home-fresh")
    size, next_size = size_of(built["1.0.0"]), size_of(built["1.1.0"])
    clients = (client, warm_client, fresh_client)
    together = max(c.peak_mb for c in clients)
    return [
        {
            "name": "publish: GB of Parquet",
            "value": size / 1e9,
            "note": f"{len(list(built['1.0.0'].rglob('*.parquet')))} files in {seconds:.0f} s, {sent / size:.0%} sent",
        },
        {
            "name": "publish: peak of the client, MB",
            "value": max(c.largest_mb for c in clients),
            "at_most": MAX_CLIENT_MB,
            "note": f"{together:.0f} MB with the process that loads the result back",
        },
        {
            "name": "publish: peak of the hub, MB",
            "value": max(hub_mb, warm_hub_mb, fresh_hub_mb),
            "at_most": MAX_HUB_MB,
        },
        {"name": "publish: 1 % more, warm cache, share sent", "value": warm / next_size, "at_most": MAX_WARM},
        {"name": "publish: 1 % more, fresh cache, share sent", "value": fresh / next_size, "at_most": MAX_FRESH},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=12_000)
    parser.add_argument("--image-kb", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arm-bench-") as folder:
        lines = measure(given.states, given.image_kb, Path(folder))
    if given.json:
        print(json.dumps(lines))
        return
    for line in lines:
        print(f"{line['name']:45} {line['value']:10.2f}  {line.get('note', '')}")


def _push(built: Path) -> None:
    """What `arm push` does, without a question."""
    from action_reward_models.hub_sync.hub import Hub
    from action_reward_models.hub_sync.plan import plan
    from action_reward_models.hub_sync.publish import publish
    from action_reward_models.registry import check_build

    hub = Hub()
    publish(plan(built, hub, check=check_build), hub)
    print("{}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--push"]:
        _push(Path(sys.argv[2]))
    else:
        main()
