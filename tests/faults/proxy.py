"""A proxy on loopback that stands between a client and a hub and lets things go wrong.

As a library::

    with FaultProxy("http://127.0.0.1:8000", [Rule(Fault("drop_after"), method="POST", path="/commit/")]) as proxy:
        HfApi(endpoint=proxy.url)...
    proxy.requests

As a process, which prints its address, then one JSON line per request, and ends with its standard input or SIGTERM::

    python tests/faults/proxy.py --upstream http://127.0.0.1:8000 --script script.json --kill PID

The Host header goes on unchanged, so that the addresses a hub puts into its answers (uploads, storage) lead through
the proxy again. Bodies stream; a repeated request is spooled to a temporary file.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from urllib.parse import urlsplit

from action_reward_models.tests.faults.script import Fault, Rule, Script, from_json

_BLOCK = 1 << 16  # bytes in memory at a time
_TIMEOUT = 120.0  # seconds a connection may be silent
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
_SECRET = re.compile(r"hf_[A-Za-z0-9]+|[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_.-]{16,}")


@dataclass(frozen=True)
class Request:
    """One request that reached the proxy: no header, no query, no body, so nothing secret."""

    number: int  # from 1, in the order of arrival
    method: str
    path: str
    status: int | None  # what the client was told; None: the connection ended without an answer
    forwarded: int  # how many times the hub has had it
    sent: int  # bytes of the client's body
    fault: str | None


class FaultProxy:
    """A running proxy. ``url`` is its address, ``requests`` its log: complete after the `with` block, and within it
    without the requests that are under way.

    ``on_stop`` is called with the request's number by the "stop" faults, in the thread of that request. A hub that
    does not answer looks to the client as it would without the proxy: the connection ends.
    """

    def __init__(
        self,
        upstream: str,
        script: Iterable[Rule] = (),
        on_stop: Callable[[int], None] | None = None,
        on_request: Callable[[Request], None] = lambda _: None,
    ) -> None:
        parts = urlsplit(upstream)
        if not parts.hostname or not parts.port:
            raise ValueError(f"{upstream} names no host and port")
        self.upstream = (parts.hostname, parts.port)
        self.on_request = on_request
        self._script = Script(script)
        if on_stop is None and any(rule.fault.kind.startswith("stop") for rule in self._script.rules):
            raise ValueError("a script that stops needs a hook")
        self._on_stop = on_stop
        self._lock = threading.Lock()
        self._count = 0
        self._requests: list[Request] = []
        self.closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """The requests so far, sorted by number."""
        with self._lock:
            return sorted(self._requests, key=lambda request: request.number)

    def arrive(self, method: str, path: str) -> tuple[int, Fault | None]:
        """Number a request and look up its fault."""
        with self._lock:
            self._count += 1
            return self._count, self._script.fault(self._count, method, path)

    def log(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)
        self.on_request(request)

    def stop(self, number: int) -> None:
        assert self._on_stop is not None
        self._on_stop(number)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing the server waits for the threads of its connections
    block_on_close = True
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            if self.proxy.closing.is_set():
                return
            self._open.add(request)
        try:
            super().finish_request(request, client_address)
        finally:
            with self._guard:
                self._open.discard(request)

    def end_connections(self) -> None:
        """Idle keep-alive connections would otherwise hold their threads."""
        with self._guard:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is what this proxy is for; anything else is a bug and shows."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        proxy = self.server.proxy
        self._number, fault = proxy.arrive(self.command, self.path)
        self._status: int | None = None
        self._forwarded = 0
        self._sent = 0
        try:
            self._meet(fault)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the hub or the client is gone
        finally:
            path = _SECRET.sub("***", self.path.partition("?")[0])
            kind = fault.kind if fault else None
            proxy.log(Request(self._number, self.command, path, self._status, self._forwarded, self._sent, kind))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _serve  # noqa: N815 (the base class asks)

    def _meet(self, fault: Fault | None) -> None:
        proxy = self.server.proxy
        kind = fault.kind if fault else None
        match kind:
            case None | "delay" | "truncate":
                if fault and fault.seconds is not None:
                    proxy.closing.wait(fault.seconds)
                self._forward(self._body(), lambda answer: self._relay(answer, cut=kind == "truncate"))
            case "drop":
                self.close_connection = True
            case "drop_after":
                self._forward(self._body(), _drain)
                self.close_connection = True
            case "repeat" | "repeat_first":
                self._repeat(told=0 if kind == "repeat_first" else 1)
            case "stop":
                proxy.stop(self._number)
                self.close_connection = True
            case "stop_during":
                self._forward(self._body(), None)
                self.close_connection = True
            case "stop_after":
                self._forward(self._body(), _drain)
                proxy.stop(self._number)
                self.close_connection = True
            case _:
                assert fault is not None
                if kind == "status_after":
                    self._forward(self._body(), _drain)
                else:
                    for _ in self._body():
                        pass
                self._answer(fault)

    def _answer(self, fault: Fault) -> None:
        """An answer of the proxy's own."""
        body = b'{"error":"the fault proxy answered"}'
        self._status = 307 if fault.kind == "redirect" else fault.status
        self.send_response_only(self._status)
        if fault.kind == "redirect":
            self.send_header("Location", f"{fault.origin}{self.path}")
        elif fault.seconds is not None:
            self.send_header("Retry-After", str(int(fault.seconds)))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _repeat(self, told: int) -> None:
        with tempfile.TemporaryFile() as spool:
            for block in self._body():
                spool.write(block)
            for turn in range(2):
                spool.seek(0)
                self._forward(_blocks(spool), self._relay if turn == told else _drain)

    def _body(self) -> Iterator[bytes]:
        """The client's body, a block at a time, without its framing."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            while size := int(self.rfile.readline(1024).partition(b";")[0], 16):
                yield from self._exactly(size)
                self.rfile.readline(1024)
            while self.rfile.readline(8192) not in (b"\r\n", b"\n", b""):
                pass  # trailers
        else:
            yield from self._exactly(int(self.headers.get("Content-Length", "0")))

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            block = self.rfile.read(min(size, _BLOCK))
            if not block:
                raise ConnectionError("the client went away within its body")
            size -= len(block)
            self._sent += len(block)
            yield block

    def _forward(self, body: Iterator[bytes], then: Callable[[http.client.HTTPResponse], None] | None) -> None:
        """Send the request to the hub and hand its answer on; with no receiver, call the hook instead of reading it."""
        connection = http.client.HTTPConnection(*self.server.proxy.upstream, timeout=_TIMEOUT)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            chunked = "Transfer-Encoding" in self.headers
            for name, value in self.headers.items():
                if name.lower() not in _HOP_BY_HOP and name.lower() != "expect":
                    connection.putheader(name, value)
            if chunked:
                connection.putheader("Transfer-Encoding", "chunked")
            connection.putheader("Connection", "close")
            connection.endheaders()
            try:
                for block in body:
                    connection.send(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
                if chunked:
                    connection.send(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                for _ in body:  # the hub has answered before the end; the client is still sending
                    pass
            self._forwarded += 1
            if then is None:
                self.server.proxy.stop(self._number)
            else:
                then(connection.getresponse())
        finally:
            connection.close()

    def _relay(self, answer: http.client.HTTPResponse, cut: bool = False) -> None:
        """Pass an answer on; cut: at most the first half of its body, then the end of the connection."""
        length = answer.getheader("Content-Length")
        silent = self.command == "HEAD" or answer.status in (204, 304)
        chunked = length is None and not silent
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._status = answer.status
        left = int(length) // 2 if cut and length is not None else _BLOCK if cut else None
        while block := answer.read1(_BLOCK):
            part = block if left is None else block[:left]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked and part else part)
            if left is not None:
                left -= len(part)
                if not left:
                    self.close_connection = True
                    return
        if chunked and not cut:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or cut

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the request line may hold what the log must not."""


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _drain(answer: http.client.HTTPResponse) -> None:
    while answer.read1(_BLOCK):
        pass


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A fault proxy on 127.0.0.1.")
    parser.add_argument("--upstream", required=True, help="the hub, http://HOST:PORT")
    parser.add_argument("--script", type=Path, help="a JSON file: a list of rules")
    parser.add_argument("--kill", type=int, help="the process that the stop faults end with SIGKILL")
    args = parser.parse_args(argv)

    def emit(line: object) -> None:
        sys.stdout.write(json.dumps(line) + "\n")  # one call: several connections write
        sys.stdout.flush()

    def kill(_number: int) -> None:
        os.kill(args.kill, signal.SIGKILL)

    rules = from_json(json.loads(args.script.read_text("utf-8"))) if args.script else []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    on_stop = kill if args.kill is not None else None
    with FaultProxy(args.upstream, rules, on_stop, on_request=lambda request: emit(asdict(request))) as proxy:
        emit({"url": proxy.url})
        sys.stdin.read()


if __name__ == "__main__":
    main()
