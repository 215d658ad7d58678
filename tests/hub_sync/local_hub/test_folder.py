"""Which folder a hub takes for its own, who holds it, and what it tidies there."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub import folder as folders
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.hub_sync.local_hub.errors import HubError
from action_reward_models.hub_sync.local_hub.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "hub"
    serve.stop(tmp_path / "hub")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with hubs."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *folder.rglob("*")]
    }


@pytest.mark.parametrize("name", ["git/project/thesis.tex", "incoming/mail.txt", "token", "hub.json", "lock", "x/y"])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("years of work")
    folder.chmod(0o755)
    before = everything(folder)
    with pytest.raises(serve.ServeError, match="is no hub's folder: name another one with --dir"):
        serve.start(folder)
    with pytest.raises(serve.ServeError, match="is no hub's folder"):
        serve.serve(folder, 0, ready=print)
    assert serve.status(folder) is None
    assert not serve.stop(folder)
    assert everything(folder) == before
    with pytest.raises(serve.ServeError, match="is no folder"):
        serve.start(folder / name)


def test_a_folder_made_for_it_keeps_its_rights_and_tells_nothing(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "lock").write_text("123")  # a first start that was killed left these
    (folder / "hub.log").write_text("")
    serve.start(folder)
    assert folder.stat().st_mode & 0o777 == 0o755
    for path in folder.iterdir():
        assert path.name in ("lock", "hub.log", "hub.json") or path.stat().st_mode & 0o077 == 0, path
    assert serve.stop(folder)
    serve.start(folder)


def test_a_folder_of_its_own_is_private(folder: Path) -> None:
    serve.start(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("given", ["hf_of_before", ""])
def test_there_is_always_an_owner(folder: Path, given: str) -> None:
    folder.mkdir()
    Store(folder).add_user("local", token="hf_plain")
    (folder / "token").write_text(given)
    serve.start(folder)
    token = (folder / "token").read_text()
    store = Store(folder)
    assert given in ("", token)
    assert store.caller(token).is_owner
    assert store.caller("hf_plain").user == "local"
    (folder / "token").unlink()
    assert serve.stop(folder)
    serve.start(folder, user="another")
    assert store.owner() == store.caller((folder / "token").read_text()).user == "local"
    with pytest.raises(HubError):
        store.caller("hf_unknown")


def test_who_only_looks_keeps_no_hub_from_starting(folder: Path) -> None:
    """`arm hub status`, asked at the moment at which a hub takes the lock."""
    folder.mkdir()
    (folder / "lock").touch()
    with (folder / "lock").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        leaves = threading.Timer(0.2, fcntl.flock, (looking, fcntl.LOCK_UN))
        leaves.start()
        with folders.locked(folder):
            assert folders.holder(folder) == os.getpid()
            with pytest.raises(serve.ServeError, match="another hub runs"), folders.locked(folder):
                pass
        leaves.join()
    assert folders.holder(folder) is None


def test_the_hub_before_is_not_taken_for_the_one_that_starts(
    folder: Path, stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a killed hub may be another process's by now: nobody may stop that one."""
    folder.mkdir()
    (folder / "lock").write_text(str(stranger.pid))
    assert folders.holder(folder) is None
    asked = threading.Event()
    found: list[int | None] = []
    taking = fcntl.flock

    def ask() -> None:
        asked.set()
        found.append(folders.holder(folder))

    def slow(file: int, how: int) -> None:
        taking(file, how)
        if how == fcntl.LOCK_EX | fcntl.LOCK_NB:
            asker = threading.Thread(target=ask)
            asker.start()
            assert asked.wait(10)
            asker.join(0.2)  # it waits for the number, or has taken the one that stood there

    monkeypatch.setattr(fcntl, "flock", slow)
    with folders.locked(folder):
        end = time.monotonic() + 10
        while not found:
            assert time.monotonic() < end
            time.sleep(0.001)
    assert found == [os.getpid()]
    assert stranger.poll() is None


def test_files_of_a_deletion_that_was_killed_go(folder: Path) -> None:
    """Rows go first, files after them: a hub that is killed in between must not keep the files for ever."""
    store = Store(folder)
    kept = hashlib.sha256(b"kept").hexdigest()
    with store.database.write() as db:
        db.execute("INSERT INTO objects VALUES ('some', ?, 4)", (kept,))
    wanted = store.objects.path(kept)
    lost = [store.objects.path(hashlib.sha256(b"%d" % number).hexdigest()) for number in range(2_000)]
    lost.append(store.xorbs.path(bytes(32)))
    for path in (wanted, *lost):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"kept")
    (folder / "objects" / "notes.txt").write_text("mine")
    begin = time.thread_time()
    store.clear_unfinished()
    assert time.thread_time() - begin < 2
    assert [path for path in (folder / "objects").rglob("*") if path.is_file()] == [
        path for path in (folder / "objects").rglob("*") if path in (wanted, folder / "objects" / "notes.txt")
    ]
    assert wanted.read_bytes() == b"kept"
    assert not lost[-1].exists()


def test_a_repository_whose_deletion_was_killed_leaves_nothing(folder: Path) -> None:
    """The process dies for good between the rows and the files."""
    found = serve.start(folder)
    assert serve.stop(folder)
    code = (
        "import os, pathlib, signal, sys\n"
        "from action_reward_models.hub_sync.local_hub.store import Caller, Store\n"
        "store = Store(pathlib.Path(sys.argv[1]))\n"
        "owner = store.caller((store.root / 'token').read_text())\n"
        "with store.database.write() as db: repo = store.insert_repo(db, 'dataset', 'local', 'r', False, None, owner)\n"
        "with store.objects.receive() as incoming, store.database.write() as db:\n"
        "    incoming.write(b'x'); store.objects.place(db, incoming, sys.argv[2], repo.uid)\n"
        "assert store.objects.path(sys.argv[2]).exists()\n"
        "store.objects.drop_unused = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "store.delete_repo(repo)\n"
    )
    sha256 = hashlib.sha256(b"x").hexdigest()
    done = subprocess.run([sys.executable, "-c", code, str(folder), sha256], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert Store(folder).objects.path(sha256).exists()
    assert serve.start(folder)["pid"] != found["pid"]
    assert not Store(folder).objects.path(sha256).exists()
