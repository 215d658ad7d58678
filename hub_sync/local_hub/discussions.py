"""Discussions and pull requests as rows of the database, and what happened in them as events."""

from __future__ import annotations

import json
import sqlite3
import uuid
from html import escape
from typing import Any

from .errors import HubError
from .store import Caller, Repo, now

OPEN = ("open", "draft")


def open_discussion(
    db: sqlite3.Connection, repo: Repo, caller: Caller, title: str, description: str,
    *, pull_request: tuple[str, str] | None, status: str = "open",
) -> int:  # fmt: skip
    """A new discussion, or a pull request (target reference, its commit), and its number."""
    row = db.execute("SELECT coalesce(max(num), 0) + 1 AS num FROM discussions WHERE repo = ?", (repo.uid,)).fetchone()
    number = int(row["num"])
    target = pull_request[0] if pull_request else None
    db.execute(
        "INSERT INTO discussions VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?)",
        (repo.uid, number, title, caller.user or "", pull_request is not None, status, target, now()),
    )
    if pull_request:
        db.execute("INSERT INTO refs VALUES (?, ?, ?, NULL)", (repo.uid, f"refs/pr/{number}", pull_request[1]))
    add_event(db, repo, number, "comment", caller, comment(description, caller))
    return number


def comment(text: str, caller: Caller) -> dict[str, Any]:
    """The data of a comment's event. Comments are shown as text, never as HTML."""
    return {"text": text, "edited": False, "updated": now(), "editor": caller.user, "history": []}


def add_event(db: sqlite3.Connection, repo: Repo, number: int, kind: str, caller: Caller, data: dict[str, Any]) -> str:
    """Something that happened in a discussion, now; returns the event's id."""
    event = uuid.uuid4().hex[:24]
    db.execute(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
        (event, repo.uid, number, kind, caller.user or "", now(), json.dumps(data)),
    )
    return event


def summary(repo: Repo, row: sqlite3.Row) -> dict[str, Any]:
    """A discussion as a list of them has it."""
    return {
        "num": row["num"],
        "title": row["title"],
        "status": row["status"],
        "author": {"name": row["author"]},
        "createdAt": row["created"],
        "isPullRequest": bool(row["is_pr"]),
        "repo": {"name": repo.id, "type": repo.type},
    }


def set_status(
    db: sqlite3.Connection, repo: Repo, row: sqlite3.Row, caller: Caller, status: str, text: str | None
) -> dict[str, Any]:
    db.execute("UPDATE discussions SET status = ? WHERE repo = ? AND num = ?", (status, repo.uid, row["num"]))
    if text:
        add_event(db, repo, row["num"], "comment", caller, comment(text, caller))
    event = add_event(db, repo, row["num"], "status-change", caller, {"status": status})
    return event_json(event_row(db, repo, row["num"], event))


def discussion_row(db: sqlite3.Connection, repo: Repo, number: int) -> sqlite3.Row:
    row = db.execute("SELECT * FROM discussions WHERE repo = ? AND num = ?", (repo.uid, number)).fetchone()
    if row is None:
        raise HubError(404, "Discussion not found")
    found: sqlite3.Row = row
    return found


def event_row(db: sqlite3.Connection, repo: Repo, number: int, event: str) -> sqlite3.Row:
    row = db.execute("SELECT * FROM events WHERE repo = ? AND num = ? AND id = ?", (repo.uid, number, event)).fetchone()
    if row is None:
        raise HubError(404, "Comment not found")
    found: sqlite3.Row = row
    return found


def event_json(row: sqlite3.Row) -> dict[str, Any]:
    data = json.loads(row["data"])
    if row["kind"] == "comment":
        data = {
            "edited": data["edited"],
            "hidden": data.get("hidden", False),
            "latest": {
                "raw": data["text"],
                "html": escape(data["text"]),
                "updatedAt": data["updated"],
                "author": {"name": data["editor"]},
            },
            "numEdits": len(data["history"]),
            "history": [{"raw": text} for text in data["history"]],
        }
    author = {"name": row["author"]}
    return {"id": row["id"], "type": row["kind"], "createdAt": row["created"], "author": author, "data": data}


def head(db: sqlite3.Connection, repo: Repo, ref: str) -> str | None:
    """The commit of a full reference, None when there is no such reference."""
    row = db.execute("SELECT sha FROM refs WHERE repo = ? AND name = ?", (repo.uid, ref)).fetchone()
    return row and str(row["sha"])
