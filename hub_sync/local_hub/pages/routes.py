"""The web pages of the hub, for people. They only read, need no script, and show to anybody what anybody may see."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import web
from ..errors import HubError
from . import discussions, files
from .list import listed
from .render import POLICY, STYLE_PATH, respond, style
from .tables import tables
from .use import usage
from .view import View, view

Handler = Callable[[Request], Response]
_COMMITS_PER_PAGE = 30
_STYLE_SECONDS = 86_400


def start(request: Request) -> Response:
    """`GET /`: what the caller may see, which for a browser is what is public."""
    repos = listed(web.store(request), web.caller(request))
    return respond(request, "start", repos=repos, endpoint=web.base_url(request))


def card(request: Request) -> Response:
    """`GET /[datasets/]{id}`: the card of `main`, rows, facts, how to load it."""
    with view(request) as seen:
        return _overview(seen, "card")


def _overview(seen: View, template: str, **values: Any) -> Response:
    counted = tables(seen)
    readme = seen.card
    return respond(
        seen.request,
        template,
        view=seen,
        tables=counted,
        usage=usage(seen, counted),
        problem=readme.problem if readme else None,
        **files.card_values(seen),
        **values,
    )


def tree(request: Request) -> Response:
    """`GET tree/{rev}[/path]`: a folder; at the root with the rows and the card of that revision."""
    with view(request, request.path_params["rest"]) as seen:
        entry = seen.entry()
        if not entry.is_folder:
            return _redirect(seen.url("blob", seen.path))
        rows = files.listing(seen, entry)
        if seen.path:
            return respond(request, "folder", view=seen, rows=rows)
        return _overview(seen, "tree", rows=rows)


def blob(request: Request) -> Response:
    """`GET blob/{rev}/{path}`: one file, as far as it can be shown."""
    with view(request, request.path_params["rest"]) as seen:
        entry = seen.entry()
        if entry.is_folder:
            return _redirect(seen.url("tree", seen.path))
        return files.show(seen, entry)


def commits(request: Request) -> Response:
    """`GET commits/{rev}`: newest first, `?p=` counts pages from 0."""
    with view(request, request.path_params["rest"]) as seen:
        asked = request.query_params.get("p", "0")
        page = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 0
        first = page * _COMMITS_PER_PAGE
        found = list(islice(seen.git.log(seen.commit), first, first + _COMMITS_PER_PAGE + 1))
        more = len(found) > _COMMITS_PER_PAGE
        return respond(request, "commits", view=seen, commits=found[:_COMMITS_PER_PAGE], page=page, more=more)


def commit(request: Request) -> Response:
    """`GET commit/{sha}`: what one commit changed."""
    with view(request, request.path_params["rest"]) as seen:
        return files.changes(seen)


def preview_picture(request: Request) -> Response:
    """`GET preview/{rev}/{path}?picture=0`: one picture out of the first rows of a Parquet file."""
    with view(request, request.path_params["rest"]) as seen:
        return files.preview_picture(seen, request.query_params.get("picture", ""))


def _redirect(address: str) -> Response:
    return Response(None, 302, {"Location": address})


def style_sheet(request: Request) -> Response:
    headers = {"Cache-Control": f"max-age={_STYLE_SECONDS}", "Content-Security-Policy": POLICY}
    return Response(style()[1], 200, headers, "text/css; charset=utf-8")


def _page(handler: Handler, kind: str, request: Request) -> Response:
    """``handler`` for repositories of ``kind``; an error is a page, too."""
    request.path_params["kind"] = kind
    try:
        return handler(request)
    except HubError as error:
        if "Location" in error.headers:
            raise
        response = respond(request, "error", error.status, message=error.message, code=error.status)
        if error.code:
            response.headers["X-Error-Code"] = error.code
        return response


_HANDLERS: dict[str, Handler] = {
    "": card,
    "/tree/{rest:path}": tree,
    "/blob/{rest:path}": blob,
    "/commits/{rest:path}": commits,
    "/commit/{rest:path}": commit,
    "/preview/{rest:path}": preview_picture,
    "/discussions": discussions.discussions,
    "/discussions/{number:int}": discussions.discussion,
}
_PREFIXES = {"datasets": "/datasets", "spaces": "/spaces", "models": ""}  # models last: their ids begin with any name

routes = [
    Route("/", partial(_page, start, "models")),
    Route(STYLE_PATH, style_sheet),
    *(
        Route(f"{prefix}/{{namespace}}/{{name}}{suffix}", partial(_page, handler, kind), methods=["GET"])
        for kind, prefix in _PREFIXES.items()
        for suffix, handler in _HANDLERS.items()
    ),
]
