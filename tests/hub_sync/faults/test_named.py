"""One kind of fault at a time: what the publisher makes of it, and that its token goes nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from action_reward_models.hub_sync.hub import Hub, transient
from action_reward_models.schemas.ids import sha256_hex
from action_reward_models.tests.faults.proxy import FaultProxy, Request
from action_reward_models.tests.faults.script import Fault, Rule
from action_reward_models.tests.hub_sync.faults.forks import Ended, Pool
from action_reward_models.tests.hub_sync.faults.hold import Held, read
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

_REQUEST = httpx.Request("GET", "http://hub/")

if TYPE_CHECKING:
    from tests.hub_sync.conftest import Running

# One request of every kind that the publisher itself makes, in LFS mode.
EVERYWHERE = (
    ("GET", "/refs"),
    ("POST", "/repos/create"),
    ("POST", "/preupload/"),
    ("POST", "/info/lfs/objects/batch"),
    ("PUT", "/lfs/"),
    ("POST", "/lfs/.*/verify"),
    ("POST", "/validate-yaml"),
    ("POST", "/commit/"),
    ("GET", "/tree/"),
    ("HEAD", "/resolve/.*/manifest.json"),
    ("GET", "/resolve/.*/README.md"),
    ("POST", "/tag/"),
)


# Left out where they are sent by the same function of the client as others.
_SAME_CLIENT_CALLS = ("/repos/create", "/info/lfs/objects/batch", "/validate-yaml", "/tree/")


class Push:
    """Publishes through a proxy with a script, then without; each test to a repository of its own."""

    def __init__(self, running: Running, built: Path, pool: Pool, repo: str) -> None:
        self.running, self.built, self.pool, self.repo = running, built, pool, repo
        self.log: list[tuple[float, Request]] = []

    def through(self, rules: list[Rule], *words: str) -> Ended:
        """``log`` has the time at which each request was answered."""
        self.log = []
        record = lambda request: self.log.append((time.monotonic(), request))  # noqa: E731
        with FaultProxy(self.running.url, rules, on_request=record) as proxy, self.pool.one() as forks:
            ended = forks.push(self.built, self.repo, proxy.url, self.running.token, *words)
        assert "Traceback" not in ended.errors, ended.errors
        return ended

    def again(self) -> str:
        with self.pool.one() as forks:
            ended = forks.push(self.built, self.repo, self.running.url, self.running.token)
        assert ended.status == 0, ended.errors
        return self.held().complete(self.built)

    def held(self) -> Held:
        return read(self.running.url, self.running.token, self.repo)

    def count(self, method: str, part: str) -> int:
        """Requests of that kind that reached the hub."""
        return sum(r.forwarded for _, r in self.log if r.method == method and part in r.path)


@pytest.fixture
def push(
    running: Running, built: Path, held: Callable[[str], Held], pools: Callable[[bool], Pool],
    request: pytest.FixtureRequest,
) -> Push:  # fmt: skip
    return Push(running, built, pools(False), f"lab/named-{sha256_hex(request.node.name.encode())[:12]}")


@pytest.mark.parametrize(
    "fault",
    [
        Fault("drop"), Fault("drop_after"), Fault("status", 500), Fault("status_after", 500), Fault("repeat"),
        Fault("repeat_first"), Fault("truncate"),
    ],
    ids=lambda fault: f"{fault.kind}",
)  # fmt: skip
def test_the_same_fault_once_at_every_kind_of_request(push: Push, fault: Fault) -> None:
    rules = [Rule(fault, method=method, path=path) for method, path in EVERYWHERE]
    done = push.through(rules)
    met = sum(request.fault is not None for _, request in push.log)
    assert met == len(EVERYWHERE)
    assert done.status == 0, done.errors
    commit = push.held().complete(push.built)
    assert done.output
    assert done.output["published"]["commit"] == commit


def test_a_412_although_the_head_did_not_move(push: Push) -> None:
    done = push.through([Rule(Fault("status", 412), method="POST", path="/commit/")])
    assert done.status == 0, done.errors
    assert push.count("POST", "/commit/") == 1
    push.held().complete(push.built)


def test_412_for_ever_ends_with_a_word_and_nothing_published(push: Push) -> None:
    failed = push.through([Rule(Fault("status", 412), method="POST", path="/commit/", nth=None)])
    assert failed.status == 1
    assert failed.output
    assert "committing: HTTP 412" in failed.output["error"]
    assert "again" in failed.output["next"]
    assert sum("/commit/" in request.path for _, request in push.log) == 6
    held = push.held()
    assert (len(held.commits), held.tags) == (1, {})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/commit/"),
        pytest.param("GET", "/refs", marks=pytest.mark.slow),
        pytest.param("POST", "/tag/", marks=pytest.mark.slow),
    ],
)
def test_retry_after_is_honoured(push: Push, method: str, path: str) -> None:
    done = push.through([Rule(Fault("status", 429, seconds=1), method=method, path=path)])
    assert done.status == 0, done.errors
    answered = next(at for at, request in push.log if request.fault)
    following = [at for at, request in push.log if at > answered and request.method == method and path in request.path]
    assert following[0] - answered >= 1.0
    assert "429" in done.errors
    push.held().complete(push.built)


def test_a_retry_after_longer_than_the_hubs_window_is_told_not_waited(push: Push) -> None:
    started = time.monotonic()
    failed = push.through([Rule(Fault("status", 429, seconds=3600), method="POST", path="/commit/")])
    assert time.monotonic() - started < 30
    assert failed.output
    assert "asks to wait 3600 s" in failed.output["error"]


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "7", "ratelimit": '"api";r=0;t=55'}, 7),
        (429, {"ratelimit": '"api";r=0;t=55'}, 55),
        (503, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0),
        (500, {}, 0),
        (404, {"retry-after": "7"}, None),
    ],
)
def test_the_wait_that_a_server_asks_for(status: int, headers: dict[str, str], seconds: float | None) -> None:
    error = HfHubHTTPError("said", response=httpx.Response(status, headers=headers, request=_REQUEST))
    assert transient(error) == seconds


def test_a_dead_read_back_leaves_no_tag_and_another_push_sends_nothing(push: Push) -> None:
    failed = push.through([Rule(Fault("status", 404), path="/data/states/", nth=None)])
    assert failed.status == 1
    assert failed.output
    assert "no tag was set" in failed.output["error"]
    assert "arm push" in failed.output["next"]
    before = push.held()
    assert not before.tags
    assert push.again() == before.commits[0]


@pytest.mark.parametrize(("method", "path"), [("POST", "/preupload/"), ("POST", "/commit/"), ("HEAD", "/resolve/")])
def test_a_token_that_is_refused_in_the_middle(push: Push, method: str, path: str) -> None:
    failed = push.through([Rule(Fault("status", 401), method=method, path=path, nth=None)])
    assert failed.status == 1
    assert failed.output
    assert "the Hub refuses" in failed.output["error"]
    assert "HF_TOKEN" in failed.output["next"]
    assert not push.held().tags


class Canary(ThreadingHTTPServer):
    """Another server, to which nobody's token may come. ``heard`` has every request as it came, body included."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Canary)
        self.heard: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Canary(BaseHTTPRequestHandler):
    server: Canary

    def do_GET(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body, self.close_connection = b"", True
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.heard.append(f"{self.command} {self.path}\n{self.headers}\n{body!r}")
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def canary() -> Iterator[Canary]:
    server = Canary()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(("method", "path"), [place for place in EVERYWHERE if place[1] not in _SAME_CLIENT_CALLS])
def test_a_redirect_to_another_origin_gets_no_token(push: Push, canary: Canary, method: str, path: str) -> None:
    failed = push.through([Rule(Fault("redirect", origin=canary.url), method=method, path=path, nth=None)])
    assert failed.status == 1, "what another server says is not what the Hub says"
    assert "redirect" in {request.fault for _, request in push.log}
    for heard in canary.heard:
        assert push.running.token not in heard
        assert "authorization" not in heard.lower()


def test_a_redirect_of_the_stock_client_gets_no_token(push: Push, canary: Canary, tmp_path: Path) -> None:
    """Both of `datasets` and of a plain download, as anyone would run them."""
    push.again()
    code = (
        "import sys, huggingface_hub, datasets\n"
        "for load in (lambda: huggingface_hub.hf_hub_download(sys.argv[1], 'manifest.json', repo_type='dataset'),\n"
        "             lambda: huggingface_hub.HfApi().list_repo_refs(sys.argv[1], repo_type='dataset'),\n"
        "             lambda: datasets.load_dataset(sys.argv[1], 'states')):\n"
        "    try:\n        load()\n    except Exception as error:\n        print(error)\n"
    )
    rules = [Rule(Fault("redirect", origin=canary.url), method="GET", nth=None)]
    with FaultProxy(push.running.url, rules) as proxy:
        env = push.running.env(tmp_path, HF_TOKEN=push.running.token) | {"HF_ENDPOINT": proxy.url}
        ran = subprocess.run(
            [sys.executable, "-c", code, push.repo], env=env, capture_output=True, text=True, check=True
        )  # fmt: skip
    assert len(canary.heard) >= 3
    assert not [heard for heard in canary.heard if push.running.token in heard or "authorization" in heard.lower()]
    assert push.running.token not in ran.stdout + ran.stderr


def test_two_pull_requests_of_one_are_both_fine(push: Push, hub: Hub) -> None:
    """A repeated request opens a second one; one is merged, and the tag stands once."""
    done = push.through([Rule(Fault("repeat"), method="POST", path=r"/commit/.*create_pr")], "--stage")
    assert done.status == 0, done.errors
    held = push.held()
    held.complete(push.built)
    assert held.pull_requests == 2


def test_a_strangers_pull_request_is_not_merged(push: Push, hub: Hub) -> None:
    """It has the title and every file of the release, and one more."""
    from huggingface_hub import CommitOperationAdd

    hub.api.create_repo(push.repo, repo_type="dataset")
    manifest = json.loads((push.built / "manifest.json").read_text("utf-8"))["identity"]
    operations = [
        CommitOperationAdd(path.relative_to(push.built).as_posix(), path)
        for path in sorted(push.built.rglob("*"))
        if path.is_file()
    ]
    hub.api.create_commit(
        push.repo, [*operations, CommitOperationAdd("tool.py", b"print('hello')")], create_pr=True, repo_type="dataset",
        commit_message=f"{manifest['name']} {manifest['version']}",
    )  # fmt: skip
    done = push.through([], "--stage")
    assert done.status == 0, done.errors
    held = push.held()
    assert "tool.py" not in held.files[held.complete(push.built)]
    assert held.pull_requests == 2


def test_no_log_of_the_hub_holds_its_token(running: Running) -> None:
    assert running.token not in (running.folder / "hub.log").read_text("utf-8")


XET = (("GET", "/xet-write-token/"), ("GET", "/v1/chunks/"), ("POST", "/v1/xorbs/"), ("POST", "/v[12]/shards"))


@pytest.fixture
def xet_push(new_hub: Callable[[], Running], built: Path, pools: Callable[[bool], Pool]) -> Push:
    return Push(new_hub(), built, pools(True), "lab/xet")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", [Fault("status", 500), Fault("drop_after"), Fault("repeat")], ids=lambda f: f"{f.kind}"
)
def test_the_same_fault_once_at_every_request_to_xet_storage(xet_push: Push, fault: Fault) -> None:
    done = xet_push.through([Rule(fault, method=method, path=path) for method, path in XET])
    assert sum(request.fault is not None for _, request in xet_push.log) == len(XET)
    assert done.status == 0, done.errors
    xet_push.held().complete(xet_push.built)


@pytest.mark.parametrize(("method", "path"), [*XET[:3], pytest.param(*XET[3], marks=pytest.mark.slow)])
def test_a_redirect_of_xet_storage_gets_no_token(xet_push: Push, canary: Canary, method: str, path: str) -> None:
    xet_push.through([Rule(Fault("redirect", origin=canary.url), method=method, path=path)])
    assert "redirect" in {request.fault for _, request in xet_push.log}
    assert not [heard for heard in canary.heard if xet_push.running.token in heard or "authorization" in heard.lower()]
