"""Servers that keep what they were asked, with every header: one that passes it on to a hub, one that makes it up."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

SHA = "5" * 40  # of the one commit that a made-up hub has


@dataclass(frozen=True)
class Asked:
    """One request. Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """A running server at ``url``; ``asked`` is what reached it so far. Subclasses say what it answers."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, asked: Asked, body: bytes) -> Answer:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Recorder(Server):
    """Passes all on to the hub at ``upstream``. The Host header stays, so that storage addresses lead here again."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        super().__init__()

    def answer(self, asked: Asked, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self._upstream.hostname or "", self._upstream.port, timeout=60)
        headers = {
            name: value for name, value in asked.headers.items() if name not in ("connection", "transfer-encoding")
        }
        connection.request(asked.method, asked.path, body or None, {**headers, "content-length": str(len(body))})
        got = connection.getresponse()
        answer = Answer(got.read(), got.status, {k: v for k, v in got.getheaders() if k.lower() != "connection"})
        connection.close()
        return answer


class MadeUp(Server):
    """A hub with one dataset at one commit, whose listing and files are whatever a test gives."""

    def __init__(self, listing: list[str], files: dict[str, bytes]) -> None:
        self._files = files
        self.sha: str | None = SHA  # what it calls the commit
        given = [(name, files.get(name, b"")) for name in listing]
        self._tree = [
            {"type": "file", "path": name, "size": len(data), "oid": sha1(b"blob %d\0" % len(data) + data).hexdigest()}
            for name, data in given
        ]
        super().__init__()

    def answer(self, asked: Asked, body: bytes) -> Answer:
        path = urlsplit(asked.path).path
        if "/revision/" in path:
            return _json({"id": "lab/toy", "sha": self.sha})
        if "/tree/" in path:
            return _json(self._tree)
        data = self._files.get(path.partition(f"/resolve/{SHA}/")[2])
        if data is None:
            return Answer(b"", 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": SHA})
        return Answer(data, 200, {"X-Repo-Commit": SHA, "ETag": '"0"'})


class Refusing(Server):
    """Answers every request in one way."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        super().__init__()

    def answer(self, asked: Asked, body: bytes) -> Answer:
        return self._answer


class Redirecting(Server):
    """Sends everyone to the same path at ``elsewhere``."""

    def __init__(self, elsewhere: str) -> None:
        self._elsewhere = elsewhere
        super().__init__()

    def answer(self, asked: Asked, body: bytes) -> Answer:
        return Answer(b"", 307, {"Location": self._elsewhere + asked.path})


def _json(value: Any) -> Answer:
    return Answer(json.dumps(value).encode(), 200, {"Content-Type": "application/json"})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def _serve(self) -> None:
        asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        self.server.asked.append(asked)
        answer = self.server.answer(asked, self._body())
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding"):
                self.send_header(name, value)
        length = answer.headers.get("content-length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 (the base class asks)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        parts = []
        while size := int(self.rfile.readline(1024).partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline(1024)
        self.rfile.readline(1024)
        return b"".join(parts)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
