"""Discussions and pull requests: list, open, comment, rename, close, merge."""

from __future__ import annotations

import json
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import web
from ..commits import move_ref, record_commit
from ..discussions import (
    OPEN,
    add_event,
    comment,
    discussion_row,
    event_json,
    event_row,
    head,
    open_discussion,
    set_status,
    summary,
)
from ..errors import HubError, revision_not_found
from ..git import Git
from ..store import Caller, Repo, now

_PAGE = 50  # discussions
_LONGEST_COMMENT = 2**16  # characters
_STATUSES = {"open": OPEN, "closed": ("closed", "merged")}
_HIDDEN = "This comment has been hidden"


def list_discussions(request: Request) -> Response:
    """`GET discussions?p=&type=&status=&author=`: newest first."""
    repo, query = web.repo(request), request.query_params
    kind, status, author = query.get("type", "all"), query.get("status", "all"), query.get("author")
    start = web.number(query.get("p"), 0) * _PAGE
    with web.store(request).database.read() as db:
        rows = db.execute("SELECT * FROM discussions WHERE repo = ? ORDER BY num DESC", (repo.uid,)).fetchall()
    found = [
        row
        for row in rows
        if (kind == "all" or bool(row["is_pr"]) is (kind == "pull_request"))
        and (status == "all" or row["status"] in _STATUSES.get(status, (status,)))
        and author in (None, row["author"])
    ]
    shown = [summary(repo, row) for row in found[start : start + _PAGE]]
    return web.answer({"discussions": shown, "count": len(found), "start": start, "numClosedDiscussions": 0})


def details(request: Request) -> Response:
    """`GET discussions/{num}`: with its events, and for a pull request what it changes.

    The difference, asked for with `?diff=1`, is left out for those who may not read the files.
    """
    repo, hub = web.repo(request), web.store(request)
    with hub.database.read() as db:
        row = discussion_row(db, repo, web.number(request.path_params["num"], 0))
        events = db.execute(
            "SELECT * FROM events WHERE repo = ? AND num = ? ORDER BY created, rowid", (repo.uid, row["num"])
        ).fetchall()
        found = summary(repo, row) | {"events": [event_json(event) for event in events]}
        if row["is_pr"]:
            found["changes"] = {"base": row["target"], "mergeCommitId": row["merge_commit"]}
            found["filesWithConflicts"] = []
            git = Git(hub.git_folder(repo))
            ours, theirs = head(db, repo, row["target"]), head(db, repo, f"refs/pr/{row['num']}")
            base = git.base(ours, theirs) if ours and theirs else None
            if ours and theirs and row["status"] in OPEN:
                merged, conflicts = git.merge(ours, theirs)
                found["filesWithConflicts"] = True if merged is None and not conflicts else conflicts
            if base and theirs and web.flag(request, "diff") and web.may_read(repo, web.caller(request)):
                found["diff"] = git.patch(base, theirs)
    return web.answer(found)


async def create(request: Request) -> Response:
    """`POST discussions` `{title, description, pullRequest}`; a pull request is a draft until it is opened."""
    return await run_in_threadpool(_create, request, await web.json_body(request))


def _create(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller = web.repo(request, contribute=True), web.caller(request)
    title, text, is_pr = _title(asked.get("title")), _text(asked.get("description")), asked.get("pullRequest") is True
    with web.store(request).database.write() as db:
        start = head(db, repo, "refs/heads/main") if is_pr else None
        if is_pr and start is None:
            raise revision_not_found("main")
        number = open_discussion(
            db, repo, caller, title, text, status="draft" if is_pr else "open",
            pull_request=("refs/heads/main", start) if start else None,
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
        row = discussion_row(db, repo, web.number(request.path_params["num"], 0))
        event = add_event(db, repo, row["num"], "comment", caller, comment(text, caller))
        return web.answer({"newMessage": event_json(event_row(db, repo, row["num"], event))})


async def change_comment(request: Request) -> Response:
    """`POST discussions/{num}/comment/{id}/edit` `{content}`, and `.../hide`."""
    return await run_in_threadpool(_change_comment, request, await web.json_body(request))


def _change_comment(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller = web.repo(request, contribute=True), web.caller(request)
    hide = request.url.path.endswith("/hide")
    text = _HIDDEN if hide else _text(asked.get("content"))
    with web.store(request).database.write() as db:
        row = discussion_row(db, repo, web.number(request.path_params["num"], 0))
        found = event_row(db, repo, row["num"], web.param(request, "event"))
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
        return web.answer({"updatedComment": event_json(event_row(db, repo, row["num"], found["id"]))})


async def rename(request: Request) -> Response:
    """`POST discussions/{num}/title` `{title}`."""
    return await run_in_threadpool(_rename, request, await web.json_body(request))


def _rename(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller, title = web.repo(request, contribute=True), web.caller(request), _title(asked.get("title"))
    with web.store(request).database.write() as db:
        row = discussion_row(db, repo, web.number(request.path_params["num"], 0))
        _require_author(repo, caller, row["author"])
        db.execute("UPDATE discussions SET title = ? WHERE repo = ? AND num = ?", (title, repo.uid, row["num"]))
        event = add_event(db, repo, row["num"], "title-change", caller, {"from": row["title"], "to": title})
        return web.answer({"newTitle": event_json(event_row(db, repo, row["num"], event))})


async def change_status(request: Request) -> Response:
    """`POST discussions/{num}/status` `{status: open|closed, comment?}`."""
    return await run_in_threadpool(_change_status, request, await web.json_body(request))


def _change_status(request: Request, asked: dict[str, Any]) -> Response:
    repo, caller, status = web.repo(request, contribute=True), web.caller(request), asked.get("status")
    if status not in ("open", "closed"):
        raise HubError(400, "status: open or closed")
    with web.store(request).database.write() as db:
        row = discussion_row(db, repo, web.number(request.path_params["num"], 0))
        _require_author(repo, caller, row["author"])
        if row["status"] == "merged":
            raise HubError(400, "a merged pull request stays merged")
        return web.answer({"newStatus": set_status(db, repo, row, caller, status, _remark(asked))})


async def merge(request: Request) -> Response:
    """`POST discussions/{num}/merge` `{comment?}`: one commit on the target with what the pull request changes."""
    return await run_in_threadpool(_merge, request, await web.json_body(request))


def _merge(request: Request, asked: dict[str, Any]) -> Response:
    repo, hub, caller = web.repo(request, write=True), web.store(request), web.caller(request)
    with hub.database.write() as db:
        row = discussion_row(db, repo, web.number(request.path_params["num"], 0))
        if not row["is_pr"] or row["status"] != "open":
            raise HubError(400, "only an open pull request can be merged: change its status first")
        ours, theirs = head(db, repo, row["target"]), head(db, repo, f"refs/pr/{row['num']}")
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
        move_ref(db, repo, row["target"], sha)
        db.execute("UPDATE discussions SET merge_commit = ? WHERE repo = ? AND num = ?", (sha, repo.uid, row["num"]))
        return web.answer({"newStatus": set_status(db, repo, row, caller, "merged", _remark(asked))})


def _reaches(git: Git, head: str, sha: str) -> bool:
    return git.base(head, sha) == sha


def _require_author(repo: Repo, caller: Caller, author: str) -> None:
    if caller.user != author and not caller.owns(repo.namespace):
        raise HubError(403, "only its author and those who may write here can change it")


def _title(value: object) -> str:
    if not isinstance(value, str) or not 3 <= len(value.strip()) <= 200:
        raise HubError(400, "title: 3 to 200 characters")
    return value.strip()


def _remark(asked: dict[str, Any]) -> str | None:
    """A comment that may come with a change of status."""
    text = asked.get("comment")
    return _text(text) if isinstance(text, str) and text.strip() else None


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
