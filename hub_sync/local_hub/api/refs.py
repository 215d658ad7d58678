"""Branches, tags and history."""

from __future__ import annotations

from itertools import islice
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import revisions, web
from ..commits import may_move, move_ref, record_commit
from ..errors import HubError, revision_not_found
from ..git import Git
from ..paths import is_ref_name

_PAGE = 50  # commits
_MOST = 1000


def refs(request: Request) -> Response:
    """`GET refs[?include_prs=1]`."""
    repo = web.repo(request)
    with web.store(request).database.read() as db:
        rows = db.execute("SELECT name, sha FROM refs WHERE repo = ? ORDER BY name", (repo.uid,)).fetchall()
    kinds = {"branches": "refs/heads/", "tags": "refs/tags/", "converts": "refs/convert/", "pullRequests": "refs/pr/"}
    found: dict[str, list[dict[str, str]]] = {
        kind: [
            {"name": row["name"].removeprefix(prefix), "ref": row["name"], "targetCommit": row["sha"]}
            for row in rows
            if row["name"].startswith(prefix)
        ]
        for kind, prefix in kinds.items()
    }
    found["branches"].sort(key=lambda item: (item["name"] != "main", item["name"]))
    found["pullRequests"].sort(key=lambda item: int(item["name"]))
    if not web.flag(request, "include_prs"):
        del found["pullRequests"]
    return web.answer(found)


def commits(request: Request) -> Response:
    """`GET commits/{rev}?p=&limit=`: newest first; with `expand[]=formatted` also what a page would show."""
    repo, hub, query = web.repo(request), web.store(request), request.query_params
    page, limit = web.number(query.get("p"), 0), web.number(query.get("limit"), _PAGE, least=1, most=_MOST)
    formatted = "formatted" in (*query.getlist("expand[]"), *query.getlist("expand"))
    with hub.database.read() as db:
        sha = revisions.resolve(db, repo.uid, web.param(request, "rev")).sha
    found = list(islice(Git(hub.git_folder(repo)).log(sha), page * limit, (page + 1) * limit + 1))
    items = []
    for commit in found[:limit]:
        item: dict[str, Any] = {
            "id": commit.sha,
            "title": commit.title,
            "message": commit.body,
            "authors": [{"user": commit.author}],
            "date": commit.date,
        }
        if formatted:
            item["formatted"] = {"title": web.as_html(commit.title), "message": web.as_html(commit.body)}
        items.append(item)
    more = len(found) > limit
    return web.answer(items, headers=web.link(request, "p", page + 1) if more else {})


async def create_tag(request: Request) -> Response:
    """`POST tag/{rev}` `{tag, message?}`: 201; 409 when there is one already."""
    return await run_in_threadpool(_create_tag, request, await web.json_body(request))


def _create_tag(request: Request, asked: dict[str, Any]) -> Response:
    repo, tag, message = web.repo(request, write=True), asked.get("tag"), asked.get("message")
    ref = f"refs/tags/{tag}"
    with web.store(request).database.write() as db:
        sha = revisions.resolve(db, repo.uid, web.param(request, "rev")).sha
        if not is_ref_name(tag) or str(tag).startswith("refs/"):
            raise HubError(400, f"Invalid reference for a tag: {ref}")
        if tag == "main":
            raise HubError(400, "a tag 'main' would hide the branch that everybody reads")
        if db.execute("SELECT 1 FROM refs WHERE repo = ? AND name = ?", (repo.uid, ref)).fetchone():
            raise HubError(409, f"Tag reference {ref} already exists")
        db.execute("INSERT INTO refs VALUES (?, ?, ?, ?)", (repo.uid, ref, sha, str(message) if message else None))
    return web.answer({"name": tag, "ref": ref, "targetCommit": sha}, 201)


def delete_tag(request: Request) -> Response:
    """`DELETE tag/{tag}`."""
    return _delete(request, f"refs/tags/{web.param(request, 'rev')}")


async def create_branch(request: Request) -> Response:
    """`POST branch/{branch}` `{startingPoint?, emptyBranch?, overwrite?}`."""
    return await run_in_threadpool(_create_branch, request, await web.json_body(request))


def _create_branch(request: Request, asked: dict[str, Any]) -> Response:
    repo, name = web.repo(request, write=True), web.param(request, "branch")
    ref = revisions.branch_ref(name)
    if not is_ref_name(name) or not ref.startswith(("refs/heads/", "refs/convert/")):
        raise HubError(400, f"Invalid reference for a branch: {name}")
    if name.startswith("refs/") and ref.startswith("refs/heads/refs/"):
        raise HubError(400, f"Invalid reference for a branch: {name}")
    hub, start = web.store(request), asked.get("startingPoint")
    with hub.database.write() as db:
        present = db.execute("SELECT 1 FROM refs WHERE repo = ? AND name = ?", (repo.uid, ref)).fetchone()
        if present and not asked.get("overwrite"):
            raise HubError(409, f"Reference {ref} already exists")
        if asked.get("emptyBranch"):
            git = Git(hub.git_folder(repo))
            sha = git.write_commit(str(git.edit(None).write()), [], web.caller(request).user or "", "initial commit")
            record_commit(db, repo, sha)
        else:
            sha = revisions.resolve(db, repo.uid, start if isinstance(start, str) and start else "main").sha
        db.execute("INSERT OR REPLACE INTO refs VALUES (?, ?, ?, NULL)", (repo.uid, ref, sha))
    return web.answer({"name": name, "ref": ref, "targetCommit": sha}, 201)


def delete_branch(request: Request) -> Response:
    """`DELETE branch/{branch}`."""
    ref = revisions.branch_ref(web.param(request, "branch"))
    if ref == "refs/heads/main" or ref.startswith("refs/pr/"):
        web.repo(request, write=True)
        raise HubError(403, f"Cannot delete {ref}")
    return _delete(request, ref)


def _delete(request: Request, ref: str) -> Response:
    repo = web.repo(request, write=True)
    with web.store(request).database.write() as db:
        done = db.execute("DELETE FROM refs WHERE repo = ? AND name = ?", (repo.uid, ref))
        if done.rowcount == 0:
            raise revision_not_found(ref)
    return Response(None, 204)


async def squash(request: Request) -> Response:
    """`POST super-squash/{branch}` `{message?}`: one commit without a parent holds what the branch holds."""
    return await run_in_threadpool(_squash, request, await web.json_body(request))


def _squash(request: Request, asked: dict[str, Any]) -> Response:
    repo, hub, caller = web.repo(request, contribute=True), web.store(request), web.caller(request)
    branch, message = web.param(request, "branch"), asked.get("message")
    with hub.database.write() as db:
        head = revisions.writable(db, repo.uid, branch)
        assert head.ref is not None
        may_move(db, repo, caller, head.ref)
        git = Git(hub.git_folder(repo))
        text = message if isinstance(message, str) and message else f"Super-squash branch '{branch}'"
        sha = git.write_commit(git.tree(head.sha), [], caller.user or "", text)
        record_commit(db, repo, sha)
        move_ref(db, repo, head.ref, sha)
    return web.answer({"commitOid": sha})


_REPO = "/api/{kind}/{namespace}/{name}"
routes = [
    Route(f"{_REPO}/refs", refs),
    Route(f"{_REPO}/commits/{{rev:path}}", commits),
    Route(f"{_REPO}/tag/{{rev:path}}", create_tag, methods=["POST"]),
    Route(f"{_REPO}/tag/{{rev:path}}", delete_tag, methods=["DELETE"]),
    Route(f"{_REPO}/branch/{{branch:path}}", create_branch, methods=["POST"]),
    Route(f"{_REPO}/branch/{{branch:path}}", delete_branch, methods=["DELETE"]),
    Route(f"{_REPO}/super-squash/{{branch:path}}", squash, methods=["POST"]),
]
