"""Files as they are: `resolve` for downloads, whole or in part."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from .. import revisions
from ..content import File, describe
from ..errors import HubError, entry_not_found
from ..git import Git
from ..web import KINDS, repo, store, unquoted

_CHUNK = 2**18  # bytes read from disk at a time
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


async def resolve(request: Request) -> Response:
    """`GET|HEAD /[datasets/]{id}/resolve/{rev}/{path}`; served from here, without a redirect to a storage."""
    commit, file, data = await run_in_threadpool(_find, request)
    etag = f'"{file.digest}"'
    name = file.path.rsplit("/", 1)[-1]
    # Files are downloads, never pages of this site: nothing in them may run with its rights.
    headers = {
        "X-Repo-Commit": commit,
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-cache",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(name, safe='')}",
    }
    if file.lfs:
        headers |= {"X-Linked-Etag": etag, "X-Linked-Size": str(file.size)}
    if request.headers.get("if-none-match") == etag:
        return Response(None, 304, headers)
    start, end, status = 0, file.size, 200
    asked = request.headers.get("range")
    if asked and request.headers.get("if-range", etag) == etag:
        part = _part(asked, file.size)
        if part is None:
            headers["Content-Range"] = f"bytes */{file.size}"
            raise HubError(416, "Requested range not satisfiable", headers=headers)
        if part != (0, 0):
            (start, end), status = part, 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    headers["Content-Length"] = str(end - start)
    kind = "application/octet-stream" if isinstance(data, Path) else "text/plain; charset=utf-8"
    if request.method == "HEAD":
        return Response(None, status, headers, kind)
    if isinstance(data, Path):
        return StreamingResponse(_read(data, start, end), status, headers, kind)
    return Response(data[start:end], status, headers, kind)


def _find(request: Request) -> tuple[str, File, bytes | Path]:
    """(commit, file, its bytes or where they are stored)."""
    found = repo(request, files=True)
    hub = store(request)
    with hub.database.read() as db:
        name, rest = revisions.split(db, found.uid, request.path_params["rest"])
        commit = revisions.resolve(db, found.uid, name).sha
        git = Git(hub.git_folder(found))
        path = unquoted(rest)
        entry = git.entry(commit, path) if path else None
        if entry is None or entry.is_folder:
            raise entry_not_found("Entry not found", commit)
        file = describe(db, git, found.uid, entry)
    if not file.lfs:
        return commit, file, git.blob(file.oid)
    stored = hub.objects.path(file.lfs.sha256)
    if not stored.exists():
        raise HubError(500, f"the stored file {file.lfs.sha256} is missing", headers={"X-Repo-Commit": commit})
    return commit, file, stored


def _part(header: str, size: int) -> tuple[int, int] | None:
    """(start, end) of one range, half open; None when it cannot be had, (0, 0) for a header to be ignored."""
    asked = _RANGE.fullmatch(header.strip())
    if asked is None or asked[1] == asked[2] == "":
        return 0, 0
    if asked[1] == "":
        length = min(int(asked[2]), size)
        return (size - length, size) if length else None
    start = int(asked[1])
    end = min(int(asked[2]) + 1, size) if asked[2] else size
    if asked[2] and int(asked[2]) < start:
        return 0, 0
    return (start, end) if start < size else None


async def _read(path: Path, start: int, end: int) -> AsyncIterator[bytes]:
    file = await run_in_threadpool(path.open, "rb")
    try:
        file.seek(start)
        while start < end:
            data = await run_in_threadpool(file.read, min(_CHUNK, end - start))
            if not data:
                raise OSError(f"{path} is shorter than it was")
            start += len(data)
            yield data
    finally:
        file.close()


routes = [
    *(Route(f"/{kind}/{{namespace}}/{{name}}/resolve/{{rest:path}}", resolve) for kind in KINDS),
    Route("/{namespace}/{name}/resolve/{rest:path}", resolve),
]
