"""Commits of stock huggingface_hub over Xet, against the whole hub."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.local_hub.app import create_app
from action_reward_models.hub_sync.local_hub.store import Store

COMMIT = """
import json, sys
from pathlib import Path
from huggingface_hub import CommitOperationAdd, HfApi, constants, hf_hub_download
folder, pr = Path(sys.argv[1]), sys.argv[2:] == ["create_pr"]
rev = None if pr else "".join(sys.argv[2:]) or None
assert not constants.HF_HUB_DISABLE_XET
api = HfApi()
api.create_repo("ann/data", repo_type="dataset", exist_ok=True)
files = sorted(path for path in folder.rglob("*") if path.is_file())
names = [path.relative_to(folder).as_posix() for path in files]
adds = [CommitOperationAdd(name, path) for name, path in zip(names, files)]
adds.append(CommitOperationAdd("from_memory.bin", bytes(range(256)) * 40_000))
done = api.create_commit("ann/data", adds, commit_message="All", repo_type="dataset", revision=rev, create_pr=pr)
for name, path in zip(names, files):
    got = hf_hub_download("ann/data", name, repo_type="dataset", revision=done.oid)
    assert Path(got).read_bytes() == path.read_bytes(), name
print(json.dumps({"oid": done.oid, "pr": done.pr_url}))
"""


@pytest.fixture
def hub(tmp_path: Path, serving: Callable[[Any], Any]) -> Iterator[tuple[Store, str]]:
    store = Store(tmp_path / "hub")
    store.add_user("ann", token="hf_ann")
    store.add_user("bob", token="hf_bob")
    with serving(create_app(store)) as url:
        yield store, url


def commit(hub: tuple[Store, str], home: Path, folder: Path, *more: str, user: str = "ann") -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-c", COMMIT, str(folder), *more],
        env={**kept, "HF_HOME": str(home), "HF_ENDPOINT": hub[1], "HF_TOKEN": f"hf_{user}", "NO_PROXY": "127.0.0.1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_files_of_one_commit(hub: tuple[Store, str], tmp_path: Path) -> None:
    rng = random.Random(2)
    folder = tmp_path / "files"
    (folder / "data").mkdir(parents=True)
    (folder / "empty.bin").write_bytes(b"")
    (folder / "notes.txt").write_text("plain\n", "utf-8")
    (folder / "data" / "one.bin").write_bytes(rng.randbytes(12_000_000))
    (folder / "data" / "two.parquet").write_bytes(rng.randbytes(300_000))
    first = commit(hub, tmp_path / "home", folder)
    assert len([path for path in (hub[0].root / "xorbs").rglob("*") if path.is_file()]) >= 1
    (folder / "data" / "two.parquet").write_bytes(rng.randbytes(300_000))
    assert commit(hub, tmp_path / "home", folder)["oid"] != first["oid"]


def test_a_pull_request_by_somebody_else(hub: tuple[Store, str], tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "data.bin").write_bytes(random.Random(2).randbytes(300_000))
    commit(hub, tmp_path / "home", folder)
    (folder / "more.bin").write_bytes(random.Random(3).randbytes(300_000))
    assert commit(hub, tmp_path / "bobs", folder, "create_pr", user="bob")["pr"].endswith("/discussions/1")
    (folder / "more.bin").write_bytes(random.Random(4).randbytes(300_000))
    assert commit(hub, tmp_path / "bobs", folder, "refs/pr/1", user="bob")["oid"]
