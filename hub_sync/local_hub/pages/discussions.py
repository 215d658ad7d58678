"""Pages of discussions and pull requests."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..errors import HubError
from .markdown import render
from .render import respond
from .view import view

_MOST = 500


def discussions(request: Request) -> Response:
    """`GET discussions`: newest first."""
    with view(request) as seen:
        rows = seen.db.execute(
            "SELECT * FROM discussions WHERE repo = ? ORDER BY num DESC LIMIT ?", (seen.repo.uid, _MOST)
        ).fetchall()
        return respond(request, "discussions", view=seen, discussions=rows)


def discussion(request: Request) -> Response:
    """`GET discussions/{number}`: what happened, in order. Texts are Markdown from anyone."""
    with view(request) as seen:
        number = min(request.path_params["number"], 2**62)
        row = seen.db.execute(
            "SELECT * FROM discussions WHERE repo = ? AND num = ?", (seen.repo.uid, number)
        ).fetchone()
        if row is None:
            raise HubError(404, f"There is no discussion {number}")
        events = seen.db.execute(
            "SELECT * FROM events WHERE repo = ? AND num = ? ORDER BY rowid LIMIT ?", (seen.repo.uid, number, _MOST)
        ).fetchall()
        shown = [_shown(event, json.loads(event["data"])) for event in events]
        place = seen.place("")
        for event in shown:
            event["html"] = render(event["text"], place) if event["text"].strip() else None
        return respond(request, "discussion", view=seen, discussion=row, events=shown)


def _shown(event: Any, data: dict[str, Any]) -> dict[str, Any]:
    """One event: who, when, what; ``text`` is Markdown, ``commit`` a sha to link to."""
    what = {
        "comment": "wrote",
        "commit": f"committed “{data.get('subject', '')}”",
        "status-change": f"changed the state to {data.get('status', '')}",
        "title-change": f"changed the title to “{data.get('to', '')}”",
    }.get(event["kind"], event["kind"])
    text = "" if event["kind"] != "comment" or data.get("hidden") else str(data.get("text", ""))
    commit = str(data.get("oid", "")) if event["kind"] == "commit" else ""
    return {"author": event["author"], "created": event["created"], "what": what, "text": text, "commit": commit}
