"""Uploads and downloads of stored files over git LFS's batch protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from .. import web
from ..errors import HubError
from ..objects import Incoming, checked_sha256, granted

_SCOPE = "lfs-upload"
_MOST_OBJECTS = 1000  # of one batch
_LARGEST = 500 * 10**9  # bytes of one file, as on the Hub
_BUFFER = 2**20  # bytes gathered before they are hashed and written
_MEDIA_TYPE = "application/vnd.git-lfs+json"


async def batch(request: Request) -> Response:
    """`POST /[datasets/]{id}.git/info/lfs/objects/batch`. What the repository has already gets no upload action."""
    asked = await web.json_body(request)
    found = await run_in_threadpool(_batch, request, asked)
    return web.answer(found, headers={"Content-Type": _MEDIA_TYPE})


def _batch(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    operation, objects = asked.get("operation"), asked.get("objects")
    if operation not in ("upload", "download"):
        raise HubError(422, "operation: 'upload' or 'download'")
    if asked.get("hash_algo", "sha256") != "sha256":
        raise HubError(409, "only sha256 is supported")
    if not isinstance(objects, list) or len(objects) > _MOST_OBJECTS:
        raise HubError(422, f"objects: a list of at most {_MOST_OBJECTS}")
    upload = operation == "upload"
    repo = web.repo(request, contribute=upload, files=not upload)
    hub, wanted = web.store(request), [_object(item) for item in objects]
    with hub.database.read() as db:
        sizes = {oid: granted(db, repo.uid, oid) for oid, _ in wanted}
    token = hub.storage_token(repo, web.caller(request), _SCOPE if upload else "lfs-download")[0] if wanted else ""
    base = f"{web.base_url(request)}/lfs/{token}"
    answers = []
    for oid, size in wanted:
        answer: dict[str, Any] = {"oid": oid, "size": size}
        if sizes[oid] not in (size, None):
            answer["error"] = {"code": 422, "message": f"the stored file has {sizes[oid]} bytes, not {size}"}
        elif upload and sizes[oid] is None:
            answer["authenticated"] = True
            answer["actions"] = {
                "upload": {"href": f"{base}/{oid}/{size}", "header": {}},
                "verify": {"href": f"{base}/verify", "header": {}},
            }
        elif not upload and sizes[oid] is None:
            answer["error"] = {"code": 404, "message": "Object does not exist"}
        elif not upload:
            answer["actions"] = {"download": {"href": f"{base}/{oid}/{size}", "header": {}}}
        answers.append(answer)
    return {"transfer": "basic", "objects": answers, "hash_algo": "sha256"}


def _object(item: object) -> tuple[str, int]:
    if not isinstance(item, dict):
        raise HubError(422, "objects: {oid, size} each")
    size = item.get("size")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _LARGEST:
        raise HubError(422, f"size: an integer of at most {_LARGEST}")
    return checked_sha256(item.get("oid")), size


async def upload(request: Request) -> Response:
    """`PUT /lfs/{token}/{oid}/{size}`: the bytes of one file, hashed on the way to the disk."""
    hub = web.store(request)
    repo, _ = await run_in_threadpool(hub.storage_access, web.param(request, "token"), _SCOPE)
    sha256, size = checked_sha256(request.path_params["oid"]), _announced(request.path_params["size"])
    with hub.objects.receive() as incoming:
        buffer = bytearray()
        async for chunk in request.stream():
            buffer += chunk
            if incoming.size + len(buffer) > size:
                raise HubError(413, f"more bytes than the {size} that were announced")
            if len(buffer) >= _BUFFER:
                await run_in_threadpool(incoming.write, bytes(buffer))
                buffer.clear()
        incoming.write(bytes(buffer))
        if incoming.size != size:
            raise HubError(400, f"{incoming.size} bytes were received, {size} announced")
        await run_in_threadpool(_keep, request, incoming, sha256, repo)
    return Response(None, 200, {"ETag": f'"{sha256}"'})


def _announced(text: str) -> int:
    size = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST)) else -1
    if not 0 <= size <= _LARGEST:
        raise HubError(413, f"a file has at most {_LARGEST} bytes")
    return size


def _keep(request: Request, incoming: Incoming, sha256: str, repo: str) -> None:
    hub = web.store(request)
    with hub.database.write() as db:
        if not db.execute("SELECT 1 FROM repos WHERE id = ?", (repo,)).fetchone():
            raise HubError(404, "Repository not found", "RepoNotFound")
        hub.objects.place(db, incoming, sha256, repo)


async def verify(request: Request) -> Response:
    """`POST /lfs/{token}/verify` `{oid, size}`: whether that file arrived."""
    oid, size = _object(await web.json_body(request))
    await run_in_threadpool(_verify, request, oid, size)
    return web.answer({}, headers={"Content-Type": _MEDIA_TYPE})


def _verify(request: Request, oid: str, size: int) -> None:
    hub = web.store(request)
    repo, _ = hub.storage_access(web.param(request, "token"), _SCOPE)
    with hub.database.read() as db:
        if granted(db, repo, oid) != size:
            raise HubError(404, "Object does not exist")


async def download(request: Request) -> Response:
    """`GET /lfs/{token}/{oid}/{size}`: a file of a batch of downloads."""
    path = await run_in_threadpool(_stored, request)
    return FileResponse(path, media_type="application/octet-stream", content_disposition_type="attachment")


def _stored(request: Request) -> Path:
    hub = web.store(request)
    repo, _ = hub.storage_access(web.param(request, "token"), "lfs-download")
    oid = checked_sha256(request.path_params["oid"])
    with hub.database.read() as db:
        if granted(db, repo, oid) is None:
            raise HubError(404, "Object does not exist")
    return hub.objects.path(oid)


routes = [
    Route("/lfs/{token}/verify", verify, methods=["POST"]),
    Route("/lfs/{token}/{oid}/{size}", upload, methods=["PUT"]),
    Route("/lfs/{token}/{oid}/{size}", download, methods=["GET"]),
    *(
        Route(f"/{kind}{{namespace}}/{{name}}.git/info/lfs/objects/batch", batch, methods=["POST"])
        for kind in (*(f"{kind}/" for kind in web.KINDS), "")
    ),
]
