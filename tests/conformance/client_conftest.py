"""The conftest.py of the client's own tests, which their release leaves out: written from what the tests ask for.

The script `run.py` copies it beside the tests; it is not a test of this project and imports nothing of it. It reads
two variables: ARM_CONFORMANCE_PLAN, a JSON file with what to leave out and whether the endpoint is dead, and
ARM_CONFORMANCE_RESULT, the JSON file it writes at the end.
"""

from __future__ import annotations

import json
import os
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from huggingface_hub import HfApi, RepoUrl, constants
from huggingface_hub.utils import _http

from .testing_constants import ENDPOINT_STAGING, TOKEN, USER  # type: ignore[import-not-found]
from .testing_utils import repo_name  # type: ignore[import-not-found]

PLAN: dict[str, Any] = json.loads(Path(os.environ["ARM_CONFORMANCE_PLAN"]).read_text("utf-8"))
XET = not constants.HF_HUB_DISABLE_XET
MARKERS = ("api", "transfer", "inference", "xet", "no_xet", "production", "deprecated", "git_lfs", "vcr")


class RepoFactory(Protocol):
    """Creates a repository that is gone after the session."""

    def __call__(self, repo_type: str = ..., **options: Any) -> RepoUrl: ...


@pytest.fixture(scope="session")
def api() -> HfApi:
    return HfApi(endpoint=ENDPOINT_STAGING, token=TOKEN)


@pytest.fixture(scope="session")
def repo_factory(api: HfApi) -> Iterator[RepoFactory]:
    created: list[tuple[str, str, str]] = []

    def create(repo_type: str = "model", *, repo_id: str | None = None, token: str = TOKEN, **options: Any) -> RepoUrl:
        name = repo_id or repo_name(prefix=repo_type)
        url = api.create_repo(name, repo_type=repo_type, token=token, **options)
        created.append((url.repo_id, repo_type, token))
        return url

    yield create
    for name, repo_type, token in created:
        api.delete_repo(name, repo_type=repo_type, token=token, missing_ok=True)


@pytest.fixture
def new_repo_id(api: HfApi) -> Iterator[str]:
    """The id of a model that does not exist yet, and does not any more after the test."""
    name = f"{USER}/{repo_name()}"
    yield name
    api.delete_repo(name, missing_ok=True)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    """No test sees the cache, the token or the files of another one."""
    home = tmp_path_factory.mktemp("home")
    places = {
        "HF_HOME": home,
        "HF_HUB_CACHE": home / "hub",
        "HUGGINGFACE_HUB_CACHE": home / "hub",
        "HF_ASSETS_CACHE": home / "assets",
        "HF_TOKEN_PATH": home / "token",
        "HF_STORED_TOKENS_PATH": home / "stored_tokens",
    }
    for name, place in places.items():
        monkeypatch.setattr(constants, name, str(place))
    if request.instance is not None:
        request.instance.cache_dir = home / "hub"


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client at a dead endpoint does not sit out its waits between tries: nobody is coming."""
    if PLAN["dead"]:
        clock = types.SimpleNamespace(**{**vars(time), "sleep": lambda _: None})
        monkeypatch.setattr(_http, "time", clock)
        monkeypatch.setattr(_http, "close_session", lambda: None)  # a new session costs 50 ms, at each try


def pytest_configure(config: pytest.Config) -> None:
    for name in MARKERS:
        config.addinivalue_line("markers", f"{name}: see the tests' own release")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs the public Hub, the other transport, or a feature that the plan declines."""
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    only = set(PLAN["only"] or ())
    for item in items:
        wrong = "asks huggingface.co itself" if item.get_closest_marker("production") else None
        if item.get_closest_marker("no_xet" if XET else "xet"):
            wrong = "is about the other transport"
        text = " ".join([item.nodeid, *getattr(item, "fixturenames", ())])
        for reason, parts in PLAN["declined"].items():
            if any(part in text for part in parts):
                wrong = reason
        if PLAN["only"] is not None and _name(item.nodeid) not in only:
            wrong = "no signal"
        (dropped if wrong else kept).append(item)
        _outcomes[_name(item.nodeid)] = f"declined: {wrong}" if wrong else "not run"
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


_outcomes: dict[str, str] = {}
_reasons: dict[str, str] = {}


def _name(nodeid: str) -> str:
    return nodeid.removeprefix("tests/")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test passes when its set-up, its call and its clean-up do."""
    name = _name(report.nodeid)
    if report.failed:
        _outcomes[name] = "failed"
        _reasons.setdefault(name, str(report.longrepr)[-2000:])
    elif report.skipped:
        _outcomes[name] = "skipped"
        _reasons.setdefault(name, str(report.longrepr)[-300:])
    elif report.when == "call" and _outcomes.get(name) != "failed":
        _outcomes[name] = "passed"


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _outcomes[_name(report.nodeid)] = "failed"
        _reasons[_name(report.nodeid)] = str(report.longrepr)[-2000:]


def pytest_sessionfinish() -> None:
    found = {"outcomes": _outcomes, "reasons": _reasons}
    Path(os.environ["ARM_CONFORMANCE_RESULT"]).write_text(json.dumps(found), "utf-8")
