"""Repositories: create, delete, move, settings, info, lists, and the check of a card's metadata."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .. import web
from ..cards import check_card
from ..commits import record_commit
from ..errors import HubError, repo_not_found
from ..git import Git
from ..repo_info import check_expand, repo_info
from ..store import TYPES, Repo, Store
from ..upload_modes import default_attributes

_PAGE = 1000  # repositories of a list
_DATES, _COUNTS = ("createdAt", "lastModified"), ("likes", "downloads", "trendingScore")
_VISIBILITY = ("public", "private")


async def create(request: Request) -> Response:
    """`POST /api/repos/create`: the repository and its first commit; 409 with its url when it exists."""
    return await run_in_threadpool(_create, request, await web.json_body(request))


def _create(request: Request, asked: dict[str, Any]) -> Response:
    caller, hub = web.caller(request), web.store(request)
    kind, namespace, name = _named(asked, caller.user)
    private = _private(asked)
    sdk = asked.get("sdk") if kind == "space" else None
    if kind == "space" and sdk not in ("gradio", "streamlit", "docker", "static"):
        raise HubError(400, "sdk: gradio, streamlit, docker or static")
    try:
        with hub.database.write() as db:
            repo = hub.insert_repo(db, kind, namespace, name, private, sdk, caller)
            git = Git.create(hub.git_folder(repo))
            edit = git.edit(None)
            edit.put(".gitattributes", git.write_blob(default_attributes(kind)))
            sha = git.write_commit(str(edit.write()), [], caller.user or "", "initial commit")
            record_commit(db, repo, sha)
            db.execute("INSERT INTO refs VALUES (?, 'refs/heads/main', ?, NULL)", (repo.uid, sha))
    except HubError as error:
        if error.status != 409:
            raise
        repo = hub.repo(kind, namespace, name, caller)
        return web.answer(_created(request, repo) | {"error": error.message}, 409, {"X-Error-Message": error.message})
    return web.answer(_created(request, repo))


def _created(request: Request, repo: Repo) -> dict[str, str]:
    return {"url": f"{web.base_url(request)}/{repo.web_path}", "name": repo.id, "id": repo.uid[:24]}


def _named(asked: dict[str, Any], user: str | None) -> tuple[str, str, str]:
    """(type, namespace, name) of a request's body."""
    kind, name, namespace = asked.get("type") or "model", asked.get("name"), asked.get("organization")
    if kind not in TYPES:
        raise HubError(400, f"type: {', '.join(TYPES)}")
    if isinstance(name, str) and namespace is None and name.count("/") == 1:
        namespace, name = name.split("/")
    namespace = namespace or user
    if namespace is None:
        raise HubError(401, "Invalid username or password.")
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise HubError(400, "name: a string")
    return kind, namespace, name


def _private(asked: dict[str, Any]) -> bool | None:
    """What the body says about visibility, None when it says nothing."""
    visibility, private = asked.get("visibility"), asked.get("private")
    if visibility is not None:
        if visibility not in _VISIBILITY:
            raise HubError(400, f"visibility: {' or '.join(_VISIBILITY)}")
        return bool(visibility == "private")
    if private is not None and not isinstance(private, bool):
        raise HubError(400, "private: true or false")
    return private


async def delete(request: Request) -> Response:
    """`DELETE /api/repos/delete`."""
    return await run_in_threadpool(_delete, request, await web.json_body(request))


def _delete(request: Request, asked: dict[str, Any]) -> Response:
    caller, hub = web.caller(request), web.store(request)
    repo = hub.repo(*_named(asked, caller.user), caller, write=True)
    if (repo.namespace.lower(), repo.name.lower()) != tuple(part.lower() for part in _named(asked, caller.user)[1:]):
        raise repo_not_found()  # a former name deletes nothing
    hub.delete_repo(repo)
    return web.answer({})


async def move(request: Request) -> Response:
    """`POST /api/repos/move`: the former name leads to the new one from now on."""
    return await run_in_threadpool(_move, request, await web.json_body(request))


def _move(request: Request, asked: dict[str, Any]) -> Response:
    caller, hub = web.caller(request), web.store(request)
    kind, source, target = asked.get("type") or "model", asked.get("fromRepo"), asked.get("toRepo")
    if kind not in TYPES or not isinstance(target, str) or target.count("/") != 1:
        raise HubError(400, "{fromRepo, toRepo, type}, each repository as namespace/name")
    namespace, name = web.split_id(source)
    repo = hub.repo(kind, namespace, name, caller, write=True)
    namespace, name = web.split_id(target)
    with hub.database.write() as db:
        hub.move_repo(db, repo, namespace, name, caller)
    return web.answer({})


async def settings(request: Request) -> Response:
    """`PUT settings`: visibility and gating."""
    return await run_in_threadpool(_settings, request, await web.json_body(request))


def _settings(request: Request, asked: dict[str, Any]) -> Response:
    repo = web.repo(request, write=True)
    private, gated = _private(asked), asked.get("gated")
    if gated not in (None, False, "auto", "manual"):
        raise HubError(400, "gated: false, 'auto' or 'manual'")
    with web.store(request).database.write() as db:
        if private is not None:
            db.execute("UPDATE repos SET private = ? WHERE id = ?", (private, repo.uid))
        if gated is not None:
            db.execute("UPDATE repos SET gated = ? WHERE id = ?", (gated or "", repo.uid))
    return web.answer({"private": repo.private if private is None else private, "gated": gated})


def info(request: Request) -> Response:
    """`GET /api/{T}/{id}[/revision/{rev}]`, with `?blobs=true` or `?expand=`."""
    repo, hub, expand = web.repo(request), web.store(request), _expand(request)
    check_expand(repo.type, expand)
    rev = web.param(request, "rev") if "rev" in request.path_params else "main"
    with hub.database.read() as db:
        return web.answer(repo_info(hub, db, repo, rev, expand=expand, blobs=web.flag(request, "blobs")))


def list_repos(request: Request) -> Response:
    """`GET /api/{T}`: those the caller may see, filtered by `author`, `search`, `filter`, `gated`; pages by `limit`."""
    kind, query, expand = web.KINDS.get(request.path_params["kind"]), request.query_params, _expand(request)
    if kind is None:
        raise HubError(404, "there is nothing at this address")
    check_expand(kind, expand)
    hub, wanted = web.store(request), {tag for value in query.getlist("filter") for tag in value.split(",")}
    with hub.database.read() as db:
        found = []
        for repo in hub.repos(kind, web.caller(request)):
            if not _is_asked_for(request, repo):
                continue
            with suppress(HubError):  # deleted meanwhile
                item = repo_info(hub, db, repo, files=False)
                if wanted <= {*item["tags"], item.get("library_name")}:
                    found.append((repo, item))
        sort = query.get("sort", "")
        if sort not in ("", *_DATES, *_COUNTS):
            raise HubError(400, f"sort: {', '.join((*_DATES, *_COUNTS))}")
        if sort in _DATES:  # the counts are all 0 here
            found.sort(key=lambda pair: str(pair[1][sort]), reverse=query.get("direction", "-1") == "-1")
        page, link = web.page(request, found, web.number(query.get("limit"), _PAGE, least=1, most=_PAGE))
        if expand:
            items = [repo_info(hub, db, repo, expand=expand, files=False, card=False) for repo, _ in page]
        elif web.flag(request, "full"):
            items = [repo_info(hub, db, repo) for repo, _ in page]
        else:
            dropped = () if web.flag(request, "cardData") else ("cardData",)
            items = [{key: value for key, value in item.items() if key not in dropped} for _, item in page]
    return web.answer(items, headers=link)


def _is_asked_for(request: Request, repo: Repo) -> bool:
    query = request.query_params
    author, search = query.get("author", "").lower(), query.get("search", "").lower()
    return (
        author in ("", repo.namespace.lower())
        and search in repo.id.lower()
        and ("gated" not in query or bool(repo.gated) is web.flag(request, "gated"))
    )


def _expand(request: Request) -> list[str]:
    query = request.query_params
    return [name for key in ("expand", "expand[]") for value in query.getlist(key) for name in value.split(",") if name]


def storage(request: Request) -> Response:
    """`GET /api/settings/repositories` and of an organisation: what each repository takes."""
    hub, caller = web.store(request), web.caller(request)
    namespace = web.param(request, "namespace") if "namespace" in request.path_params else caller.user
    if namespace is None or not caller.owns(namespace):
        raise HubError(401 if caller.user is None else 403, "Invalid username or password.")
    with hub.database.read() as db:
        items = [_stored(hub, db, r) for r in hub.repos(None, caller) if r.namespace.lower() == namespace.lower()]
    total = sum(item["storage"] for item in items) or 1
    page, link = web.page(request, [item | {"storagePercent": item["storage"] / total} for item in items], _PAGE)
    return web.answer(page, headers=link)


def _stored(hub: Store, db: sqlite3.Connection, repo: Repo) -> dict[str, Any]:
    found = repo_info(hub, db, repo, files=False, card=False)
    visibility = "private" if repo.private else "public"
    return {
        "id": repo.id, "type": repo.type, "visibility": visibility, "updatedAt": found["lastModified"],
        "storage": found["usedStorage"],
    }  # fmt: skip


async def validate_yaml(request: Request) -> Response:
    """`POST /api/validate-yaml` `{content, repoType}`: 400 with `errors`, or 200 with `warnings`; a list in plain text
    to those who ask for it, as clients do that show it to a person.
    """
    asked = await web.json_body(request)
    content, kind = asked.get("content"), asked.get("repoType") or "model"
    if not isinstance(content, str):
        raise HubError(400, "content: a string")
    errors, warnings = await run_in_threadpool(check_card, content, str(kind))
    found = {
        "errors": [{"message": f"Error: {message}"} for message in errors],
        "warnings": [{"message": f"Warning: {message}"} for message in warnings],
    }
    status = 400 if errors else 200
    if request.headers.get("accept", "").startswith("text/plain"):
        lines = [f"- {item['message']}" for item in (*found["errors"], *found["warnings"])]
        return PlainTextResponse("\n".join(lines), status)
    return web.answer(found, status)


routes = [
    Route("/api/repos/create", create, methods=["POST"]),
    Route("/api/repos/delete", delete, methods=["DELETE"]),
    Route("/api/repos/move", move, methods=["POST"]),
    Route("/api/validate-yaml", validate_yaml, methods=["POST"]),
    Route("/api/settings/repositories", storage),
    Route("/api/organizations/{namespace}/settings/repositories", storage),
    Route("/api/{kind}", list_repos),
    Route("/api/{kind}/{namespace}/{name}", info),
    Route("/api/{kind}/{namespace}/{name}/revision/{rev:path}", info),
    Route("/api/{kind}/{namespace}/{name}/settings", settings, methods=["PUT"]),
]
