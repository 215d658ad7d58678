"""A storage of its own for the tests of Xet: in process, or on a port for the real client."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import uvicorn
from action_reward_models.hub_sync.local_hub.app import create_app
from action_reward_models.hub_sync.local_hub.store import Repo, Store
from action_reward_models.hub_sync.local_hub.xet.format import chunk_hash, hash_bytes, tree_hash
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TAG = b"HFRepoMetaData\0UigEj{\x81W\x83\xa5\xbd\xd9\\\xcd\xd1J\xa9"
END = b"\xff" * 32 + bytes(16)
UPLOAD = """
import json, sys, hf_xet
url, token, *files = sys.argv[1:]
headers = {"Authorization": "Bearer " + token}
with hf_xet.XetSession().new_upload_commit(token_refresh_url=url, token_refresh_headers=headers) as commit:
    handles = [commit.start_upload_file(file, sha256=hf_xet.COMPUTE_SHA256) for file in files]
print(json.dumps([handle.result().xet_info.sha256 for handle in handles]))
"""


@dataclass(frozen=True)
class Made:
    """An xorb as a client would send it."""

    hash: bytes
    body: bytes
    chunks: list[bytes]


def make_xorb(*chunks: bytes, scheme: int = 0) -> Made:
    body = b""
    for chunk in chunks:
        data = chunk
        if scheme == 2:
            data = b"".join(chunk[place::4] for place in range(4))
        if scheme:
            data = pa.Codec("lz4").compress(data, asbytes=True)
        body += struct.pack("<I", len(data) << 8) + bytes([scheme]) + struct.pack("<I", len(chunk))[:3] + data
    return Made(tree_hash([(chunk_hash(chunk), len(chunk)) for chunk in chunks]), body, list(chunks))


def make_shard(*files: tuple[str | None, list[tuple[bytes, int, int, int]]]) -> bytes:
    """``files``: sha256 and segments (xorb, bytes, first chunk, stop); in the form that the client sends."""
    shard = TAG + struct.pack("<QQ", 2, 0)
    for sha256, segments in files:
        flags = 1 << 31 | (0 if sha256 is None else 1 << 30)
        shard += bytes(32) + struct.pack("<IIII", flags, len(segments), 0, 0)
        shard += b"".join(xorb + struct.pack("<IIII", 0, size, first, stop) for xorb, size, first, stop in segments)
        shard += bytes(48 * len(segments))
        shard += b"" if sha256 is None else hash_bytes(sha256) + bytes(16)
    return shard + END + END


@dataclass
class Storage:
    """A store with two users, and requests to its Xet routes. ``seen`` is (method, path, status, bytes received)."""

    store: Store
    app: ASGIApp
    http: TestClient
    seen: list[tuple[str, str, int, int]] = field(default_factory=list)
    url: str = ""

    def repo(self, name: str, *, user: str = "ann", private: bool = False) -> Repo:
        with self.store.database.write() as db:
            return self.store.insert_repo(db, "dataset", user, name, private, None, self.store.caller(f"hf_{user}"))

    def token(self, repo: Repo, *, user: str = "ann", right: str = "write") -> dict[str, Any]:
        url = f"/api/datasets/{repo.id}/xet-{right}-token/main"
        answer = self.http.get(url, headers={"authorization": f"Bearer hf_{user}"})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def call(self, method: str, access: dict[str, Any], path: str, body: bytes = b"") -> Any:
        url = "/xet/" + access["casUrl"].rsplit("/", 1)[1] + path
        return self.http.request(
            method, url, content=body, headers={"authorization": f"Bearer {access['accessToken']}"}
        )

    def received(self, part: str) -> int:
        """Bytes of the bodies sent to paths that contain ``part`` since the last call; forgets all."""
        found = sum(size for _, path, _, size in self.seen if part in path)
        self.seen.clear()
        return found


class _Counted:
    def __init__(self, app: ASGIApp, seen: list[tuple[str, str, int, int]]) -> None:
        self._app = app
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = status = 0

        async def counted_receive() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, counted_receive, counted_send)
        finally:
            if scope["type"] == "http":
                self._seen.append((scope["method"], scope["path"], status, size))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    store = Store(tmp_path / "hub")
    store.add_user("ann", token="hf_ann", owner=False)
    store.add_user("bob", token="hf_bob")
    store.add_user("eve", token="hf_eve", role="read")
    seen: list[tuple[str, str, int, int]] = []
    counted = _Counted(create_app(store), seen)
    return Storage(store, counted, TestClient(counted, base_url="http://127.0.0.1"), seen)


@pytest.fixture
def served(storage: Storage) -> Iterator[Storage]:
    """The storage on a port of this machine."""
    with _serving(storage.app) as url:
        storage.url = url
        yield storage


@pytest.fixture
def upload(served: Any, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Upload files to a repository: ``home`` names the cache of the client."""

    def run(home: str, repo: Any, *files: Path, user: str = "ann") -> subprocess.CompletedProcess[str]:
        url = f"{served.url}/api/datasets/{repo.id}/xet-write-token/main"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        return subprocess.run(
            [sys.executable, "-c", UPLOAD, url, f"hf_{user}", *map(str, files)],
            env={**kept, "HF_HOME": str(tmp_path / home), "NO_PROXY": "127.0.0.1"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


@contextmanager
def _serving(app: ASGIApp) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        end = time.monotonic() + 20
        while not server.started and time.monotonic() < end:
            thread.join(0.01)
        assert server.started
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def serving() -> Callable[[ASGIApp], AbstractContextManager[str]]:
    """Serves an application on a free port until the block ends; gives its address."""
    return _serving


@pytest.fixture
def xorb() -> Callable[..., Made]:
    return make_xorb


@pytest.fixture
def shard() -> Callable[..., bytes]:
    return make_shard
