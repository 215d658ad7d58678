"""Discussions and pull requests: list, open, comment, rename, close, merge."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from . import web
from .commits import add_event, comment, open_discussion, record_commit
from .errors import HubError, revision_not_found
from .git import Git
from .store import Caller, Repo, now

_PAGE = 50  # discussions
_LONGEST_COMMENT = 2**16  # characters
_STATUSES = {"open": ("open", "draft"), "closed": ("closed", "merged")}
_HIDDEN = "This comment has been hidden"


def list_discussions(request: Request) -> Response:
    """`GET discussions?p=&type=&status=&author=`: newest first."""
    repo, query = web.repo(request), request.query_params
    kind, status, author = query.get("type", "all"), query.get("status", "all"), query.get("author")
    start = int(query.get("p", "0")) * _PAGE if query.get("p", "0").isdecimal() else 0
    with web.store(request).database.read() as db:
        rows = db.execute("SELECT * FROM discussions WHERE repo = ? ORDER BY num DESC", (repo.uid,)).fetchall()
    found = [
        row
        for row in rows
        if (kind == "all" or bool(row["is_pr"]) is (kind == "pull_request"))
        and (status == "all" or row["status"] in _STATUSES.get(status, (status,)))
        and author in (None, row["author"])
    ]
    shown = [_summary(repo, row) for row in found[start : start + _PAGE]]
    return web.answer({"discussions": shown, "count": len(found), "start": start, "numClosedDiscussions": 0})


def _summary(repo: Repo, row: sqlite3.Row) -> dict[str, Any]:
    return {
        "num": row["num"],
        "title": row["title"],
        "status": row["status"],
        "author": {"name": row["author"]},
        "createdAt": row["created"],
        "isPullRequest": bool(row["is_pr"]),
        "repo": {"name": repo.id, "type": repo.type},
    }


def details(request: Request) -> Response:
    """`GET discussions/{num}`: with its events, and for a pull request what it changes."""
    repo, hub = web.repo(request), web.store(request)
    with hub.database.read() as db:
        row = _row(request, db, repo)
        events = db.execute(
            "SELECT * FROM events WHERE repo = ? AND num = ? ORDER BY created, rowid", (repo.uid, row["num"])
        ).fetchall()
        found = _summary(repo, row) | {"events": [_event(event) for event in events]}
        if row["is_pr"]:
            found["changes"] = {"base": row["target"], "mergeCommitId": row["merge_commit"]}
            found["filesWithConflicts"] = []
            git = Git(hub.git_folder(repo))
            ours, theirs = _head(db, repo, row["target"]), _head(db, repo, f"refs/pr/{row['num']}")
            base = git.base(ours, theirs) if ours and theirs else None
            if ours and theirs and row["status"] in _STATUSES["open"]:
                merged, conflicts = git.merge(ours, theirs)
                found["filesWithConflicts"] = True if merged is None and not conflicts else conflicts
            if base and theirs and web.flag(request, "diff"):
                found["diff"] = git.patch(base, theirs)
    return web.answer(found)


async def create(request: Request) -> Response:
    """`POST discussions` `{title, description, pullRequest}`; a pull request is a draft until it is opened."""
    return await run_in_threadpool(_create, request, await web.json_body(request))


def _create(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller = web.repo(request, contribute=True), web.caller(request)
    title, text, is_pr = _title(asked.get("title")), _text(asked.get("description")), asked.get("pullRequest") is True
    with web.store(request).database.write() as db:
        head = _head(db, repo, "refs/heads/main") if is_pr else None
        if is_pr and head is None:
            raise revision_not_found("main")
        number = open_discussion(
            db, repo, caller, title, text, status="draft" if is_pr else "open",
            pull_request=("refs/heads/main", head) if head else None,
        )  # fmt: skip
    url = f"{web.base_url(request)}/{repo.web_path}/discussions/{number}"
    return web.answer({"num": number, "url": url, "pullRequest": is_pr})


async def add_comment(request: Request) -> Response:
    """`POST discussions/{num}/comment` `{comment}`."""
    return await run_in_threadpool(_add_comment, request, await web.json_body(request))


def _add_comment(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller = web.repo(request, contribute=True), web.caller(request)
    text = _text(asked.get("comment"))
    with web.store(request).database.write() as db:
        row = _row(request, db, repo)
        event = add_event(db, repo, row["num"], "comment", caller, comment(text, caller))
        return web.answer({"newMessage": _event(_event_row(db, repo, row["num"], event))})


async def change_comment(request: Request) -> Response:
    """`POST discussions/{num}/comment/{id}/edit` `{content}`, and `.../hide`."""
    return await run_in_threadpool(_change_comment, request, await web.json_body(request))


def _change_comment(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller = web.repo(request, contribute=True), web.caller(request)
    hide = request.url.path.endswith("/hide")
    text = _HIDDEN if hide else _text(asked.get("content"))
    with web.store(request).database.write() as db:
        row = _row(request, db, repo)
        found = _event_row(db, repo, row["num"], web.param(request, "event"))
        if found["kind"] != "comment":
            raise HubError(404, "Comment not found")
        _require_author(repo, caller, found["author"])
        data = json.loads(found["data"])
        if data.get("hidden"):
            raise HubError(400, "a hidden comment stays hidden")
        history = [] if hide else [*data["history"], data["text"]]
        data |= {
            "text": text,
            "edited": True,
            "updated": now(),
            "editor": caller.user,
            "history": history,
            "hidden": hide,
        }
        db.execute("UPDATE events SET data = ? WHERE id = ?", (json.dumps(data), found["id"]))
        return web.answer({"updatedComment": _event(_event_row(db, repo, row["num"], found["id"]))})


async def rename(request: Request) -> Response:
    """`POST discussions/{num}/title` `{title}`."""
    return await run_in_threadpool(_rename, request, await web.json_body(request))


def _rename(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller, title = web.repo(request, contribute=True), web.caller(request), _title(asked.get("title"))
    with web.store(request).database.write() as db:
        row = _row(request, db, repo)
        _require_author(repo, caller, row["author"])
        db.execute("UPDATE discussions SET title = ? WHERE repo = ? AND num = ?", (title, repo.uid, row["num"]))
        event = add_event(db, repo, row["num"], "title-change", caller, {"from": row["title"], "to": title})
        return web.answer({"newTitle": _event(_event_row(db, repo, row["num"], event))})


async def change_status(request: Request) -> Response:
    """`POST discussions/{num}/status` `{status: open|closed, comment?}`."""
    return await run_in_threadpool(_change_status, request, await web.json_body(request))


def _change_status(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller, status = web.repo(request, contribute=True), web.caller(request), asked.get("status")
    if status not in ("open", "closed"):
        raise HubError(400, "status: open or closed")
    with web.store(request).database.write() as db:
        row = _row(request, db, repo)
        _require_author(repo, caller, row["author"])
        if row["status"] == "merged":
            raise HubError(400, "a merged pull request stays merged")
        return web.answer({"newStatus": _set_status(db, repo, row, caller, status, asked.get("comment"))})


async def merge(request: Request) -> Response:
    """`POST discussions/{num}/merge` `{comment?}`: one commit on the target with what the pull request changes."""
    return await run_in_threadpool(_merge, request, await web.json_body(request))


def _merge(request: Request, asked: dict[str, Any]) -> Response:
    repo, hub, caller = web.repo(request, write=True), web.store(request), web.caller(request)
    with hub.database.write() as db:
        row = _row(request, db, repo)
        if not row["is_pr"] or row["status"] != "open":
            raise HubError(400, "only an open pull request can be merged: change its status first")
        ours, theirs = _head(db, repo, row["target"]), _head(db, repo, f"refs/pr/{row['num']}")
        if ours is None or theirs is None:
            raise revision_not_found(row["target"])
        git = Git(hub.git_folder(repo))
        tree, conflicts = git.merge(ours, theirs)
        if tree is None:
            what = ", ".join(conflicts[:10]) or "the histories have nothing in common"
            raise HubError(409, f"The pull request cannot be merged, both sides changed: {what}")
        base = git.base(ours, theirs)
        since = [item for item in git.log(theirs) if item.sha != base and not _reaches(git, ours, item.sha)]
        lines = [f"- {item.title} ({item.sha})" for item in reversed(since)]
        message = "\n".join([f"{row['title']} (#{row['num']})", "", *lines])
        sha = git.write_commit(tree, [ours], caller.user or "", message)
        record_commit(db, repo, sha)
        db.execute("UPDATE refs SET sha = ? WHERE repo = ? AND name = ?", (sha, repo.uid, row["target"]))
        db.execute("UPDATE discussions SET merge_commit = ? WHERE repo = ? AND num = ?", (sha, repo.uid, row["num"]))
        return web.answer({"newStatus": _set_status(db, repo, row, caller, "merged", asked.get("comment"))})


def _reaches(git: Git, head: str, sha: str) -> bool:
    return git.base(head, sha) == sha


def _set_status(
    db: sqlite3.Connection, repo: Repo, row: sqlite3.Row, caller: Caller, status: str, text: object
) -> dict[str, Any]:
    db.execute("UPDATE discussions SET status = ? WHERE repo = ? AND num = ?", (status, repo.uid, row["num"]))
    if isinstance(text, str) and text.strip():
        add_event(db, repo, row["num"], "comment", caller, comment(_text(text), caller))
    event = add_event(db, repo, row["num"], "status-change", caller, {"status": status})
    return _event(_event_row(db, repo, row["num"], event))


def _row(request: Request, db: sqlite3.Connection, repo: Repo) -> sqlite3.Row:
    text = request.path_params["num"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    row = db.execute("SELECT * FROM discussions WHERE repo = ? AND num = ?", (repo.uid, number)).fetchone()
    if row is None:
        raise HubError(404, "Discussion not found")
    found: sqlite3.Row = row
    return found


def _event_row(db: sqlite3.Connection, repo: Repo, number: int, event: str) -> sqlite3.Row:
    row = db.execute("SELECT * FROM events WHERE repo = ? AND num = ? AND id = ?", (repo.uid, number, event)).fetchone()
    if row is None:
        raise HubError(404, "Comment not found")
    found: sqlite3.Row = row
    return found


def _event(row: sqlite3.Row) -> dict[str, Any]:
    data = json.loads(row["data"])
    if row["kind"] == "comment":
        data = {
            "edited": data["edited"],
            "hidden": data.get("hidden", False),
            "latest": {
                "raw": data["text"],
                "html": web.as_html(data["text"]),
                "updatedAt": data["updated"],
                "author": {"name": data["editor"]},
            },
            "numEdits": len(data["history"]),
            "history": [{"raw": text} for text in data["history"]],
        }
    author = {"name": row["author"]}
    return {"id": row["id"], "type": row["kind"], "createdAt": row["created"], "author": author, "data": data}


def _head(db: sqlite3.Connection, repo: Repo, ref: str) -> str | None:
    row = db.execute("SELECT sha FROM refs WHERE repo = ? AND name = ?", (repo.uid, ref)).fetchone()
    return row and str(row["sha"])


def _require_author(repo: Repo, caller: Caller, author: str) -> None:
    if caller.user != author and not caller.owns(repo.namespace):
        raise HubError(403, "only its author and those who may write here can change it")


def _title(value: object) -> str:
    if not isinstance(value, str) or not 3 <= len(value.strip()) <= 200:
        raise HubError(400, "title: 3 to 200 characters")
    return value.strip()


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_COMMENT:
        raise HubError(400, f"a text of 1 to {_LONGEST_COMMENT} characters is needed")
    return value


_ONE = "/api/{kind}/{namespace}/{name}/discussions/{num}"
routes = [
    Route("/api/{kind}/{namespace}/{name}/discussions", list_discussions),
    Route("/api/{kind}/{namespace}/{name}/discussions", create, methods=["POST"]),
    Route(_ONE, details),
    Route(f"{_ONE}/comment", add_comment, methods=["POST"]),
    Route(f"{_ONE}/comment/{{event}}/edit", change_comment, methods=["POST"]),
    Route(f"{_ONE}/comment/{{event}}/hide", change_comment, methods=["POST"]),
    Route(f"{_ONE}/title", rename, methods=["POST"]),
    Route(f"{_ONE}/status", change_status, methods=["POST"]),
    Route(f"{_ONE}/merge", merge, methods=["POST"]),
]
