"""The namespace sees what tries to leave it, whoever tries; what runs in it ends with it."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from action_reward_models.tests.clients.sealed import Sealed, unshare

ENV = {"PATH": os.environ["PATH"]}
# Each as (code, what is seen).
TRIES = {
    "a connection": (
        "import socket; socket.create_connection(('203.0.113.7', 443))", "connection to 203.0.113.7 port 443",
    ),
    "over IPv6": ("import socket; socket.create_connection(('2001:db8::7', 80))", "connection to 2001:db8::7 port 80"),
    "a name": ("import socket; socket.getaddrinfo('hub.example', 443)", "name hub.example"),
    "a datagram": (
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('203.0.113.7', 9)); raise SystemExit(1)",
        "datagram to 203.0.113.7 port 9",
    ),
    "not Python": (
        "import jsonschema_rs; jsonschema_rs.validator_for({'$ref': 'http://203.0.113.7/schema.json'})",
        "connection to 203.0.113.7 port 80",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", TRIES)
def test_an_attempt_is_seen_and_fails(sealed: Sealed, tmp_path: Path, how: str) -> None:
    code, seen = TRIES[how]
    ran = sealed.run([sys.executable, "-c", code], ENV, tmp_path)
    assert ran.code == 1
    assert ran.attempts == (seen,)
    assert ran.seconds < 10


def test_loopback_is_no_attempt(sealed: Sealed, tmp_path: Path) -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    ran = sealed.run([sys.executable, "-c", code], ENV, tmp_path)
    assert (ran.code, ran.err, ran.attempts) == (0, "", ())


def test_without_a_watch_nothing_is_reachable(closed: Sealed, tmp_path: Path) -> None:
    ran = closed.run([sys.executable, "-c", TRIES["a connection"][0]], ENV, tmp_path)
    assert "Network is unreachable" in ran.err
    assert not ran.attempts


def test_a_deadline(sealed: Sealed, tmp_path: Path) -> None:
    ran = sealed.run([sys.executable, "-c", "import time; time.sleep(60)"], ENV, tmp_path, 0.2)
    assert ran.code is None
    assert ran.seconds < 10


def test_the_background_goes_on_and_ends_with_the_namespace(tmp_path: Path) -> None:
    if why := unshare()[1]:
        pytest.skip(why)
    mark = f"{tmp_path}/background"

    def processes() -> int:
        found = 0
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it ended meanwhile
                found += mark.encode() in file.read_bytes().split(b"\0")
        return found

    with Sealed(watched=False) as place:
        ran = place.run(["sh", "-c", 'sh -c "sleep 600; :" "$0" >&- 2>&- &', mark], ENV, tmp_path)
        assert ran.code == 0
        assert place.run(["true"], ENV, tmp_path).code == 0
        deadline = time.monotonic() + 10
        while processes() != 1 and time.monotonic() < deadline:  # it may be about to become the shell that it runs
            time.sleep(0.01)
        assert processes() == 1
    assert processes() == 0
