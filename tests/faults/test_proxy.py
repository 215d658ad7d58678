"""The fault proxy itself, in front of a small server that counts what reaches it."""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from action_reward_models.tests.faults.proxy import FaultProxy
from action_reward_models.tests.faults.script import KINDS, Fault, Rule, Script, from_json, random_script

MB = 1 << 20
PROXY = Path(__file__).with_name("proxy.py")


class _Upstream(ThreadingHTTPServer):
    """Answers what it got: host, path, length and sha256 of the body. ``got`` counts per path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.got: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Upstream

    def do_POST(self) -> None:
        digest, size = hashlib.sha256(), 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while length := int(self.rfile.readline(), 16):
                digest.update(self.rfile.read(length))
                self.rfile.readline()
                size += length
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", "0"))
            while left:
                block = self.rfile.read(min(left, MB))
                digest.update(block)
                left -= len(block)
                size += len(block)
        self.server.got.append(self.path)
        turn = len(self.server.got)
        told = {"host": self.headers["Host"], "path": self.path, "size": size, "sha256": digest.hexdigest(), "n": turn}
        self._send(json.dumps(told).encode())

    def do_GET(self) -> None:
        self.server.got.append(self.path)
        if self.path.startswith("/chunked"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(3):
                self.wfile.write(b"5\r\nabcde\r\n")
            self.wfile.write(b"0\r\n\r\n")
        elif self.path.startswith("/big"):
            size = int(self.path.partition("?")[2])
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            for _ in range(size // MB):
                self.wfile.write(bytes(MB))
        else:
            self._send(b"0123456789" * 10)

    do_HEAD = do_GET  # noqa: N815

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Twice", "a")
        self.send_header("X-Twice", "b")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[_Upstream]:
    server = _Upstream()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)


def ask(
    url: str, method: str = "POST", path: str = "/echo", body: Any = b"hello", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = connect(url)
    try:
        connection.request(method, path, body if method != "GET" else None, headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_a_healthy_proxy_changes_nothing_and_keeps_connections(upstream: _Upstream) -> None:
    with FaultProxy(upstream.url) as proxy:
        connection = connect(proxy.url)
        connection.connect()
        first = connection.sock
        for path in ("/a%2Fb?x=1", "/c"):
            connection.request("POST", path, b"hello")
            answer = connection.getresponse()
            told = json.loads(answer.read())
            assert told["path"] == path
            assert told["sha256"] == hashlib.sha256(b"hello").hexdigest()
            assert "http://" + told["host"] == proxy.url
            assert answer.headers.get_all("X-Twice") == ["a", "b"]
            assert connection.sock is first
        connection.request("HEAD", "/head")
        answer = connection.getresponse()
        assert (answer.getheader("Content-Length"), answer.read()) == ("100", b"")
        connection.request("GET", "/chunked")
        assert connection.getresponse().read() == b"abcde" * 3
        assert connection.sock is first
        connection.close()
    log = [(r.number, r.method, r.path, r.status, r.forwarded, r.sent, r.fault) for r in proxy.requests]
    assert log == [
        (1, "POST", "/a%2Fb", 200, 1, 5, None),
        (2, "POST", "/c", 200, 1, 5, None),
        (3, "HEAD", "/head", 200, 1, 0, None),
        (4, "GET", "/chunked", 200, 1, 0, None),
    ]


def test_a_chunked_upload_arrives(upstream: _Upstream) -> None:
    with FaultProxy(upstream.url) as proxy:
        _, body = ask(proxy.url, body=iter([b"ab", b"cde"]))
    assert json.loads(body)["sha256"] == hashlib.sha256(b"abcde").hexdigest()


def test_the_log_holds_no_token(upstream: _Upstream) -> None:
    with FaultProxy(upstream.url) as proxy:
        ask(proxy.url, path="/hf_SecretSecret/x?token=hf_OtherOther", Authorization="Bearer hf_ThirdThird")
    assert [request.path for request in proxy.requests] == ["/***/x"]
    assert "Other" not in repr(proxy.requests)
    assert "Third" not in repr(proxy.requests)
    assert upstream.got == ["/hf_SecretSecret/x?token=hf_OtherOther"]


@pytest.mark.parametrize(("kind", "reached"), [("drop", 0), ("drop_after", 1)])
def test_dropped(upstream: _Upstream, kind: str, reached: int) -> None:
    with FaultProxy(upstream.url, [Rule(Fault(kind), number=1)]) as proxy:
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            ask(proxy.url)
        assert len(upstream.got) == reached
        assert json.loads(ask(proxy.url)[1])["n"] == reached + 1  # once only
    assert [(r.status, r.forwarded, r.fault) for r in proxy.requests] == [(None, reached, kind), (200, 1, None)]


@pytest.mark.parametrize(("kind", "told"), [("repeat", 2), ("repeat_first", 1)])
def test_repeated(upstream: _Upstream, kind: str, told: int) -> None:
    with FaultProxy(upstream.url, [Rule(Fault(kind), number=1)]) as proxy:
        answer = json.loads(ask(proxy.url, body=b"x" * MB)[1])
    assert (answer["n"], answer["size"]) == (told, MB)
    assert len(upstream.got) == 2
    assert proxy.requests[0].forwarded == 2


@pytest.mark.parametrize(
    ("fault", "retry_after", "reached"),
    [
        (Fault("status", 412), None, 0),
        (Fault("status", 429, seconds=1), "1", 0),
        (Fault("status", 500), None, 0),
        (Fault("status_after", 500), None, 1),
    ],
)
def test_answered_by_the_proxy(upstream: _Upstream, fault: Fault, retry_after: str | None, reached: int) -> None:
    with FaultProxy(upstream.url, [Rule(fault, number=1)]) as proxy:
        connection = connect(proxy.url)
        connection.request("POST", "/echo", b"x" * MB)  # more than the buffers of the sockets hold at first
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, answer.getheader("Retry-After")) == (fault.status, retry_after)
        connection.request("POST", "/echo", b"")
        assert connection.getresponse().status == 200
        connection.close()
    assert len(upstream.got) == reached + 1


@pytest.mark.parametrize(("path", "most"), [("/plain", 50), ("/chunked", 15)])
def test_truncated(upstream: _Upstream, path: str, most: int) -> None:
    with FaultProxy(upstream.url, [Rule(Fault("truncate"), path=path)]) as proxy:
        with pytest.raises(http.client.IncompleteRead) as caught:
            ask(proxy.url, "GET", path)
        assert len(caught.value.partial) <= most
        assert ask(proxy.url, "GET", path)[0].status == 200


def test_redirected(upstream: _Upstream) -> None:
    with FaultProxy(upstream.url, [Rule(Fault("redirect", origin="http://127.0.0.1:1"), method="POST")]) as proxy:
        answer, _ = ask(proxy.url, path="/x?y=1")
    assert (answer.status, answer.getheader("Location")) == (307, "http://127.0.0.1:1/x?y=1")
    assert not upstream.got


def test_delayed_answer_comes_and_closing_does_not_wait_for_a_delay(upstream: _Upstream) -> None:
    rules = [Rule(Fault("delay", seconds=0.05), number=1), Rule(Fault("delay", seconds=3600), number=2)]
    with FaultProxy(upstream.url, rules) as proxy:
        assert ask(proxy.url)[0].status == 200
        waiting = connect(proxy.url)
        waiting.request("POST", "/late", b"hello")
        deadline = threading.Event()
        while proxy._count < 2:  # until it has arrived
            assert not deadline.wait(0.01)
    waiting.close()
    assert [r.fault for r in proxy.requests] == ["delay", "delay"]


@pytest.mark.parametrize(("kind", "reached"), [("stop", False), ("stop_during", True), ("stop_after", True)])
def test_stop_calls_the_hook_at_its_request(upstream: _Upstream, kind: str, reached: bool) -> None:
    stops: list[tuple[int, int]] = []
    rules = [Rule(Fault(kind), number=2)]
    with FaultProxy(upstream.url, rules, on_stop=lambda n: stops.append((n, len(upstream.got)))) as proxy:
        ask(proxy.url)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            ask(proxy.url)
        assert [number for number, _ in stops] == [2]
        if kind != "stop_during":  # there the hub may be at work still
            assert stops[0][1] == 1 + reached
    assert proxy.requests[1].forwarded == int(reached)


def test_a_stopping_script_without_a_hook_is_refused(upstream: _Upstream) -> None:
    with pytest.raises(ValueError, match="hook"):
        FaultProxy(upstream.url, [Rule(Fault("stop"), number=1)])


def test_a_dead_hub_looks_dead() -> None:
    server = _Upstream()
    server.server_close()
    with FaultProxy(server.url) as proxy, pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        ask(proxy.url)
    assert [(r.status, r.forwarded) for r in proxy.requests] == [(None, 0)]


def test_the_process_streams_in_bounded_memory_and_kills(upstream: _Upstream, tmp_path: Path) -> None:
    """100 MB up, down and twice, in under 80 MB; then the process it was told to end is ended by its signal."""
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    script = tmp_path / "script.json"
    rules = [
        {"path": "^/again", "fault": {"kind": "repeat"}},
        {"method": "POST", "path": "^/end", "fault": {"kind": "stop"}},
    ]
    script.write_text(json.dumps(rules), "utf-8")
    command = [sys.executable, str(PROXY), "--upstream", upstream.url, "--script", str(script), "--kill"]
    with subprocess.Popen(
        [*command, str(victim.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        assert victim.stdin
        url = json.loads(process.stdout.readline())["url"]
        for path in ("/up", "/again"):
            body = (bytes(MB) for _ in range(100))
            told = json.loads(ask(url, path=path, body=body)[1])
            assert told["size"] == 100 * MB
        assert len(ask(url, "GET", f"/big?{100 * MB}")[1]) == 100 * MB
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            ask(url, path="/end")
        assert victim.wait(20) == -signal.SIGKILL
        victim.stdin.close()
        status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))  # KiB
        assert peak < 80 * 1024
        process.stdin.close()
        lines = [json.loads(line) for line in process.stdout]
        assert process.wait(20) == 0
    assert [(line["path"], line["forwarded"], line["fault"]) for line in lines] == [
        ("/up", 1, None),
        ("/again", 2, "repeat"),
        ("/big", 1, None),
        ("/end", 0, "stop"),
    ]


def test_rules_count_their_own_requests() -> None:
    once = Rule(Fault("drop"), method="POST", path=r"/commit/", nth=2)
    always = Rule(Fault("status", 500), path="^/a", nth=None)
    script = Script([once, always])
    asked = [("POST", "/commit/main"), ("GET", "/commit/main"), ("POST", "/commit/main"), ("GET", "/a"), ("GET", "/a")]
    met = [script.fault(n, *request) for n, request in enumerate(asked, 1)]
    assert met == [None, None, once.fault, always.fault, always.fault]


def test_rules_from_json_are_checked() -> None:
    assert from_json([{"number": 3, "fault": {"kind": "drop"}}]) == [Rule(Fault("drop"), number=3)]
    with pytest.raises(ValueError, match="no fault"):
        from_json([{"fault": {"kind": "melt"}}])
    with pytest.raises(ValueError, match="origin"):
        Fault("redirect")
    with pytest.raises(ValueError, match="seconds"):
        Fault("delay")


def test_random_scripts_are_repeatable_bounded_and_varied() -> None:
    scripts = [random_script(seed) for seed in range(200)]
    assert scripts == [random_script(seed) for seed in range(200)]
    assert all(1 <= len(script) <= 3 for script in scripts)
    assert all(rule.nth is not None for script in scripts for rule in script)
    assert all((rule.fault.seconds or 0) <= 1 for script in scripts for rule in script)
    kinds = {rule.fault.kind for script in scripts for rule in script}
    assert kinds == {kind for kind in KINDS if kind != "redirect" and not kind.startswith("stop")}
    assert len({repr(script) for script in scripts}) > 190
