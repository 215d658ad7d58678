"""What is in a repository: `tree` and `paths-info`, and its stored files: list, take over, delete for good."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import revisions, web
from ..content import entry_json
from ..errors import HubError, entry_not_found
from ..git import Git
from ..objects import checked_sha256, grant, granted
from ..stored_files import forget_files, list_files

_PAGE, _EXPANDED_PAGE = 1000, 50  # entries
_MOST_PATHS = 10_000  # of one request
_MOST_DUPLICATES = 1000


def tree(request: Request) -> Response:
    """`GET tree/{rev}[/{path}]?recursive=&expand=`: entries of a folder, in pages."""
    repo, hub = web.repo(request), web.store(request)
    expand = web.flag(request, "expand")
    with hub.database.read() as db:
        name, rest = revisions.split(db, repo.uid, request.path_params["rest"])
        commit = revisions.resolve(db, repo.uid, name).sha
        git = Git(hub.git_folder(repo))
        path = web.unquoted(rest).strip("/")
        folder = git.entry(commit, path)
        if folder is None or not folder.is_folder:
            raise entry_not_found(f"{path} does not exist on {name!r}", commit)
        entries = list(git.entries(folder, recursive=web.flag(request, "recursive")))
        most = _EXPANDED_PAGE if expand else _PAGE
        size = web.number(request.query_params.get("limit"), most, least=1, most=most)
        page, headers = web.page(request, entries, size)
        commits = git.last_commits(commit, [entry.path for entry in page]) if expand else None
        found = entry_json(db, git, repo.uid, page, commits)
    return web.answer(found, headers={"X-Repo-Commit": commit, **headers})


async def paths_info(request: Request) -> Response:
    """`POST paths-info/{rev}` with `paths` and `expand` as a form or as JSON; unknown paths are left out."""
    data = await web.body(request, web.JSON_LIMIT)
    paths, expand = _asked(data, request.headers.get("content-type", ""))
    return await run_in_threadpool(_paths_info, request, paths, expand)


def _asked(data: bytes, content_type: str) -> tuple[list[str], bool]:
    if content_type.startswith("application/json"):
        asked = web.json_object(data)
        paths, expand = asked.get("paths", []), asked.get("expand") is True
        paths = [paths] if isinstance(paths, str) else paths
    else:
        try:
            form = parse_qs(
                data.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PATHS + 10, errors="strict"
            )
        except ValueError as error:
            raise HubError(400, "the form cannot be read, or has too many fields") from error
        paths = form.get("paths", []) + form.get("paths[]", [])
        expand = form.get("expand", [""])[-1].lower() in ("true", "1")
    if not isinstance(paths, list) or len(paths) > _MOST_PATHS or not all(isinstance(path, str) for path in paths):
        raise HubError(400, f"paths: at most {_MOST_PATHS} strings")
    return paths, expand


def _paths_info(request: Request, paths: list[str], expand: bool) -> Response:
    repo, hub = web.repo(request), web.store(request)
    with hub.database.read() as db:
        commit = revisions.resolve(db, repo.uid, web.param(request, "rev")).sha
        git = Git(hub.git_folder(repo))
        found = [git.entry(commit, path) for path in dict.fromkeys(path.strip("/") for path in paths)]
        entries = [entry for entry in found if entry is not None and entry.path]
        commits = git.last_commits(commit, [entry.path for entry in entries]) if expand else None
        answer = entry_json(db, git, repo.uid, entries, commits)
    return web.answer(answer, headers={"X-Repo-Commit": commit})


def lfs_files(request: Request) -> Response:
    """`GET lfs-files`: every stored file that some reference's history has, with one path of it."""
    repo, hub = web.repo(request, write=True), web.store(request)
    with hub.database.read() as db:
        page, headers = web.page(request, list_files(db, Git(hub.git_folder(repo)), repo), _PAGE)
    return web.answer(page, headers=headers)


async def delete_lfs_files(request: Request) -> Response:
    """`POST lfs-files/batch` `{deletions: {sha, rewriteHistory?}}`: gone for good, from the history, too."""
    return await run_in_threadpool(_delete_lfs_files, request, await web.json_body(request))


def _delete_lfs_files(request: Request, asked: dict[str, Any]) -> Response:
    repo, hub, deletions = web.repo(request, write=True), web.store(request), asked.get("deletions")
    if not isinstance(deletions, dict) or not isinstance(deletions.get("sha"), list):
        raise HubError(400, "deletions: {sha: [...], rewriteHistory?}")
    wanted = {checked_sha256(item) for item in deletions["sha"]}
    with hub.database.write() as db:
        forget_files(db, Git(hub.git_folder(repo)), repo, wanted, rewrite=deletions.get("rewriteHistory") is not False)
        unheld = hub.xorbs.forget_files(db, repo.uid, sorted(wanted))
    hub.drop_unused(sorted(wanted), unheld)
    return web.answer({"processed": len(wanted), "succeeded": len(wanted), "failed": []})


async def duplicate(request: Request) -> Response:
    """`POST lfs-files/duplicate` `{target: {type, name}, files: [{sha256}]}`: another repository may commit them."""
    return await run_in_threadpool(_duplicate, request, await web.json_body(request))


def _duplicate(request: Request, asked: dict[str, Any]) -> Response:
    source, hub = web.repo(request, files=True), web.store(request)
    target, files = asked.get("target"), asked.get("files")
    if not isinstance(target, dict) or not isinstance(files, list) or len(files) > _MOST_DUPLICATES:
        raise HubError(400, "{target: {type, name}, files: [{sha256, filename}]}")
    namespace, name = web.split_id(target.get("name"))
    copy = hub.repo(str(target.get("type") or "model"), namespace, name, web.caller(request))
    if not web.may_contribute(copy, web.caller(request)):
        raise HubError(403, "a token with write access is needed")
    failed, done = [], []
    with hub.database.write() as db:
        for file in files:
            sha256 = checked_sha256(file.get("sha256") if isinstance(file, dict) else None)
            size = granted(db, source.uid, sha256)
            if size is None:
                failed.append({"sha256": sha256, "error": "this repository has no such file"})
            else:
                grant(db, copy.uid, sha256, size)
                done.append({"sha256": sha256})
    return web.answer({"succeeded": done, "failed": failed})


_REPO = "/api/{kind}/{namespace}/{name}"
routes = [
    Route(f"{_REPO}/tree/{{rest:path}}", tree),
    Route(f"{_REPO}/paths-info/{{rev:path}}", paths_info, methods=["POST"]),
    Route(f"{_REPO}/lfs-files", lfs_files),
    Route(f"{_REPO}/lfs-files/batch", delete_lfs_files, methods=["POST"]),
    Route(f"{_REPO}/lfs-files/duplicate", duplicate, methods=["POST"]),
]
