"""One embedded hub with people in it, spoken to by the unmodified client and by plain requests."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.hub_sync.local_hub import serve
from action_reward_models.hub_sync.local_hub.store import Store
from huggingface_hub import HfApi

PEOPLE = ("ann", "bob")  # ann is also in the organisation `lab`


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Site:
    """A running hub. Everyone's token is ``hf_<name>``; ``hf_reader`` is a token of ann's that may only read."""

    folder: Path
    url: str

    def api(self, user: str | None = "ann") -> HfApi:
        return HfApi(endpoint=self.url, token=f"hf_{user}" if user else False)

    def call(
        self, method: str, path: str, *, user: str | None = None, body: bytes | Any = None, **headers: str
    ) -> Answer:
        """One request, sent exactly as given. A body that is not bytes goes as JSON."""
        if user:
            headers["Authorization"] = f"Bearer hf_{user}"
        if body is not None and not isinstance(body, bytes):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def new(self, user: str = "ann", *, kind: str = "dataset", private: bool = False) -> str:
        """A new repository's id."""
        name = f"{user}/r-{uuid.uuid4().hex[:10]}"
        self.api("ann").create_repo(name, repo_type=kind, private=private)
        return name

    def commit(
        self, repo: str, *lines: tuple[str, dict[str, Any]], user: str = "ann", rev: str = "main", **header: Any
    ) -> Answer:
        """A commit of raw lines (key, value) to a dataset."""
        all_lines = [("header", {"summary": "change", **header}), *lines]
        body = b"".join(json.dumps({"key": key, "value": value}).encode() + b"\n" for key, value in all_lines)
        return self.call("POST", f"/api/datasets/{repo}/commit/{rev}", user=user, body=body)

    def store(self, repo: str, data: bytes, user: str = "ann") -> str:
        """Upload a stored file to a dataset over the LFS protocol and return its sha256."""
        oid = hashlib.sha256(data).hexdigest()
        action = self.batch(repo, oid, len(data), user=user).json["objects"][0]
        if "actions" in action:
            path = action["actions"]["upload"]["href"].removeprefix(self.url)
            assert self.call("PUT", path, body=data).status == 200
        return oid

    def batch(self, repo: str, oid: Any, size: Any, *, user: str | None = "ann", operation: str = "upload") -> Answer:
        asked = {"operation": operation, "transfers": ["basic"], "objects": [{"oid": oid, "size": size}]}
        return self.call("POST", f"/datasets/{repo}.git/info/lfs/objects/batch", user=user, body=asked)


def text_file(path: str, content: bytes) -> tuple[str, dict[str, Any]]:
    """The line of a commit that adds a regular file."""
    return "file", {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One hub for all tests; each uses repositories of its own."""
    folder = tmp_path_factory.mktemp("site")
    store = Store(folder)
    for name in PEOPLE:
        store.add_user(name, token=f"hf_{name}")
    store.add_user("ann", token="hf_reader", role="read")
    store.add_org("lab", ["ann"], private_by_default=True)
    found = serve.start(folder)
    yield Site(folder, found["url"])
    assert serve.stop(folder)
    log = (folder / "hub.log").read_text()
    assert "hf_" not in log, "a token in the log"
    assert "Traceback" not in log, log


@pytest.fixture
def repo(site: Site) -> str:
    """A new public dataset of ann's."""
    return site.new()


@pytest.fixture(scope="session")
def add() -> Any:
    return text_file
