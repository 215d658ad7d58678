"""The names of a gated repository's files are for everybody, what is in them is for those with access: every route."""

from __future__ import annotations

from typing import Any

import pytest
from action_reward_models.hub_sync.local_hub.app import _routes
from starlette.routing import Route

from .conftest import Site, text_file

SECRET = b"What nobody may read without access"
OPEN, CLOSED, OWNERS = (200, 200), (401, 403), (401, 403)  # for nobody, and for bob
API, WEB = "/api/datasets/{repo}", "/datasets/{repo}"
ROUTES: list[tuple[str, str, Any, tuple[int, int]]] = [
    ("GET", API, None, OPEN),
    ("GET", f"{API}?blobs=1&expand=siblings", None, OPEN),
    ("GET", f"{API}/revision/main?blobs=1", None, OPEN),
    ("GET", f"{API}/tree/main?recursive=1&expand=1", None, OPEN),
    ("POST", f"{API}/paths-info/main", {"paths": ["notes.txt", "stored.bin"], "expand": True}, OPEN),
    ("GET", f"{API}/refs?include_prs=1", None, OPEN),
    ("GET", f"{API}/commits/main?expand[]=formatted", None, OPEN),
    ("GET", f"{API}/discussions", None, OPEN),
    ("GET", f"{API}/discussions/1?diff=1", None, OPEN),
    ("GET", f"{API}/auth-check", None, CLOSED),
    ("GET", f"{API}/xet-read-token/main", None, CLOSED),
    ("GET", f"{WEB}/resolve/main/notes.txt", None, CLOSED),
    ("GET", f"{WEB}/resolve/refs%2Fpr%2F1/notes.txt", None, CLOSED),
    ("GET", f"{WEB}/resolve/main/stored.bin", None, CLOSED),
    ("HEAD", f"{WEB}/resolve/main/notes.txt", None, CLOSED),
    ("POST", f"{API}/lfs-files/duplicate", {"target": {"type": "dataset", "name": "{own}"}, "files": []}, CLOSED),
    ("POST", f"{WEB}.git/info/lfs/objects/batch", {"operation": "download", "objects": []}, CLOSED),
    ("GET", WEB, None, CLOSED),
    ("GET", f"{WEB}/tree/main", None, CLOSED),
    ("GET", f"{WEB}/blob/main/notes.txt", None, CLOSED),
    ("GET", f"{WEB}/commits/main", None, CLOSED),
    ("GET", f"{WEB}/commit/main", None, CLOSED),
    ("GET", f"{WEB}/commit/refs%2Fpr%2F1", None, CLOSED),
    ("GET", f"{WEB}/preview/main/notes.txt?picture=0", None, CLOSED),
    ("GET", f"{WEB}/discussions", None, CLOSED),
    ("GET", f"{WEB}/discussions/1", None, CLOSED),
    # What changes something, or is a step of it
    ("POST", f"{API}/preupload/main", {"files": [{"path": "notes.txt", "size": 1, "sample": "eA=="}]}, CLOSED),
    ("POST", f"{API}/commit/main?create_pr=1", {"key": "header", "value": {"summary": "mine"}}, CLOSED),
    ("POST", f"{WEB}.git/info/lfs/objects/batch", {"operation": "upload", "objects": []}, CLOSED),
    ("GET", f"{API}/xet-write-token/main", None, CLOSED),
    ("POST", f"{API}/discussions", {"title": "mine", "description": "x"}, CLOSED),
    ("POST", f"{API}/discussions/1/comment", {"comment": "x"}, CLOSED),
    ("POST", f"{API}/discussions/1/comment/0/edit", {"content": "x"}, CLOSED),
    ("POST", f"{API}/discussions/1/comment/0/hide", {}, CLOSED),
    ("POST", f"{API}/discussions/1/title", {"title": "mine"}, CLOSED),
    ("POST", f"{API}/discussions/1/status", {"status": "closed"}, CLOSED),
    ("POST", f"{API}/super-squash/main", {}, CLOSED),
    ("GET", f"{API}/auth-check/write", None, OWNERS),
    ("POST", f"{API}/discussions/1/merge", {}, OWNERS),
    ("GET", f"{API}/lfs-files", None, OWNERS),
    ("POST", f"{API}/lfs-files/batch", {"deletions": {"sha": []}}, OWNERS),
    ("PUT", f"{API}/settings", {"gated": False}, OWNERS),
    ("POST", f"{API}/tag/main", {"tag": "t"}, OWNERS),
    ("DELETE", f"{API}/tag/t", None, OWNERS),
    ("POST", f"{API}/branch/b", {}, OWNERS),
    ("DELETE", f"{API}/branch/b", None, OWNERS),
]
ELSEWHERE = ("/api/organizations/",)  # about no repository


@pytest.fixture(scope="module")
def gated(site: Site) -> str:
    repo = site.new()
    oid = site.store(repo, SECRET * 3)
    line = ("lfsFile", {"path": "stored.bin", "oid": oid, "size": len(SECRET) * 3})
    assert site.commit(repo, text_file("notes.txt", b"old " + SECRET), line).status == 200
    changed = [text_file("notes.txt", b"new " + SECRET)]
    assert site.commit(repo, *changed, rev="main?create_pr=1").status == 200
    assert site.call("PUT", f"/api/datasets/{repo}/settings", user="ann", body={"gated": "manual"}).status == 200
    return repo


@pytest.mark.parametrize(("method", "path", "body", "statuses"), ROUTES, ids=lambda value: str(value)[:60])
def test_contents_are_for_those_with_access(
    site: Site, gated: str, method: str, path: str, body: Any, statuses: tuple[int, int]
) -> None:
    for user, status in zip((None, "bob"), statuses, strict=True):
        answer = site.call(method, path.replace("{repo}", gated), user=user, body=body)
        assert answer.status == status, (user, answer.body)
        assert SECRET not in answer.body


def test_those_with_access_read_all_of_it(site: Site, gated: str) -> None:
    for path in (f"{API}/discussions/1?diff=1", f"{WEB}/resolve/main/stored.bin", f"{WEB}/commit/refs%2Fpr%2F1"):
        assert SECRET in site.call("GET", path.replace("{repo}", gated), user="ann").body, path


def test_no_route_is_missing_here() -> None:
    asked = [(method, path.partition("?")[0].replace("{repo}", "ann/r")) for method, path, _, _ in ROUTES]
    count = 0
    for route in _routes():
        if not isinstance(route, Route) or "{namespace}" not in route.path or route.path.startswith(ELSEWHERE):
            continue
        methods = route.methods or set()
        found = [path for method, path in asked if method in methods and route.path_regex.fullmatch(path)]
        models = route.path.startswith(("/{namespace}", "/models", "/spaces"))  # the same handlers without /datasets
        assert found or models, route.path
        count += bool(found)
    assert count > 35
