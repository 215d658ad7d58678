"""Starting, asking and stopping; one server per folder; what a killed hub leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.hub_sync.local_hub.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "hub"
    if (tmp_path / "hub").exists():
        serve.stop(tmp_path / "hub")


def test_start_status_stop(folder: Path) -> None:
    assert serve.status(folder) is None
    assert not serve.stop(folder)
    found = serve.start(folder, user="someone")
    assert found == serve.status(folder) == json.loads((folder / "hub.json").read_text())
    assert found["url"] == f"http://127.0.0.1:{found['port']}"
    token = (folder / "token").read_text()
    request = urllib.request.Request(f"{found['url']}/api/whoami-v2", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.load(answer)["name"] == "someone"
    assert token not in Path(f"/proc/{found['pid']}/cmdline").read_text()
    began = time.monotonic()
    assert serve.stop(folder)
    assert time.monotonic() - began < 5
    assert not (folder / "hub.json").exists()
    assert serve.status(folder) is None
    again = serve.start(folder, found["port"])
    assert again["port"] == found["port"]
    assert (folder / "token").read_text() == token


def test_one_server_per_folder(folder: Path) -> None:
    serve.start(folder)
    with pytest.raises(serve.ServeError, match="another hub runs on"):
        serve.start(folder)
    with pytest.raises(serve.ServeError, match="another hub runs on"):
        serve.serve(folder, 0, ready=print)
    assert serve.status(folder)


def test_taken_port(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(serve.ServeError, match="cannot be listened on"):
            serve.start(folder, taken.getsockname()[1])
    assert serve.status(folder) is None


def test_killed_hub_is_not_believed(folder: Path) -> None:
    found = serve.start(folder)
    os.kill(found["pid"], signal.SIGKILL)
    os.waitpid(found["pid"], 0)
    assert serve.status(folder) is None
    assert (folder / "hub.json").exists()
    assert not serve.stop(folder), "there is nothing to stop, and nobody else is killed for it"
    git = Store(folder).root / "git" / "left-over"
    git.mkdir(parents=True)
    (folder / "incoming" / "half").write_bytes(b"x")
    again = serve.start(folder)
    assert again["pid"] != found["pid"]
    assert not git.exists()
    assert not list((folder / "incoming").iterdir())


def test_stop_waits_for_no_idle_client(folder: Path) -> None:
    found = serve.start(folder)
    with socket.create_connection(("127.0.0.1", found["port"])) as idle:
        idle.sendall(b"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        assert serve.stop(folder)
        assert time.monotonic() - began < 5


def test_upload_under_way_ends_with_the_hub(folder: Path) -> None:
    found = serve.start(folder)
    with socket.create_connection(("127.0.0.1", found["port"])) as slow:
        slow.sendall(b"POST /api/validate-yaml HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        began = time.monotonic()
        assert serve.stop(folder)
        assert time.monotonic() - began < 8


def test_in_this_process(tmp_path: Path) -> None:
    """`serve` itself, as a command would run it, with Ctrl-C."""
    code = "import sys, pathlib; from action_reward_models.hub_sync.local_hub.serve import serve\n"
    code += "serve(pathlib.Path(sys.argv[1]), 0, ready=lambda url: print(url, flush=True))\nprint('ended')"
    command = [sys.executable, "-c", code, str(tmp_path / "hub")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("ended\n", "", 0)
    assert not (tmp_path / "hub" / "hub.json").exists()


def test_only_loopback_unless_asked(folder: Path) -> None:
    """Another interface is listened on only when it is named, and then answers for that name, too."""
    code = "import sys, pathlib; from action_reward_models.hub_sync.local_hub.serve import serve\n"
    code += "serve(pathlib.Path(sys.argv[1]), 0, host='127.0.0.2', ready=lambda url: print(url, flush=True))"
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.2:")
        found = serve.status(folder)
        assert found is not None
        assert found["url"] == url
        process.terminate()
        process.wait(20)
