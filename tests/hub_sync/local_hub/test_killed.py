"""A hub that is killed while it commits keeps the old or the new state, whole, and goes on from there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.hub_sync.local_hub.store import Store

from .conftest import Site, text_file


def commits_until_killed(site: Site, repo: str, start: int, done: list[int]) -> None:
    """Commit ``n`` to two files again and again; ``done`` are the numbers that were confirmed."""
    number = start
    with suppress(OSError, HTTPException):
        while True:
            oid = site.store(repo, b"stored %d" % number)
            line = ("lfsFile", {"path": "stored.bin", "oid": oid, "size": len(b"stored %d" % number)})
            answer = site.commit(repo, text_file("a.txt", b"%d" % number), text_file("d/b.txt", b"%d" % number), line)
            assert answer.status == 200, answer.body
            done.append(number)
            number += 1


def kill_and_check(folder: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    Store(folder).add_user("ann", token="hf_ann")
    site = Site(folder, serve.start(folder)["url"])
    repo, done = site.new(), [0]
    for _ in range(rounds):
        found = serve.status(folder)
        assert found is not None
        worker = threading.Thread(target=commits_until_killed, args=(site, repo, done[-1] + 1, done))
        worker.start()
        end, enough = time.monotonic() + 30, len(done) + rng.randint(1, 4)
        while len(done) < enough:
            assert time.monotonic() < end
            time.sleep(0.001)
        time.sleep(rng.random() * 0.02)  # anywhere within the next commit
        os.kill(found["pid"], signal.SIGKILL)
        worker.join(60)
        assert not worker.is_alive()
        site = Site(folder, serve.start(folder)["url"])
        a, b = (site.call("GET", f"/datasets/{repo}/resolve/main/{name}").body for name in ("a.txt", "d/b.txt"))
        assert a == b
        assert int(a) in (done[-1], done[-1] + 1), "a confirmed commit is kept; one that was not may be there or not"
        assert site.call("GET", f"/datasets/{repo}/resolve/main/stored.bin").body == b"stored " + a
        done[-1] = int(a)
        log = site.api().list_repo_commits(repo, repo_type="dataset")
        assert len(log) == int(a) + 1
    (git,) = (folder / "git").iterdir()
    checked = subprocess.run(
        ["git", "fsck", "--full", "--strict"], cwd=git, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert not list(git.rglob("*.lock"))
    assert serve.stop(folder)


def test_killed_once(tmp_path: Path) -> None:
    kill_and_check(tmp_path / "hub", 1, 0)


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path) -> None:
    kill_and_check(tmp_path / "hub", 20, 1)


def test_many_at_once_lose_nothing(site: Site, repo: str) -> None:
    """Committers that name no parent all succeed, one after the other; of those that name one, one does."""

    def together(count: int, **header: str) -> list[int]:
        statuses: list[int] = []
        threads = [
            threading.Thread(
                target=lambda n=n: statuses.append(
                    site.commit(repo, text_file(f"{n}-{len(header)}", b"x"), **header).status
                )
            )
            for n in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return sorted(statuses)

    assert together(8) == [200] * 8
    head = site.api().dataset_info(repo).sha
    assert together(8, parentCommit=head or "") == [200] + [412] * 7
    assert len(site.api().list_repo_files(repo, repo_type="dataset")) == 1 + 8 + 1
    assert len(site.api().list_repo_commits(repo, repo_type="dataset")) == 1 + 8 + 1
