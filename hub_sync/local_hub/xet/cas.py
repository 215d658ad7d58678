"""The storage that Xet clients speak: tokens for it, xorbs, shards, and where else a chunk is.

Every repository has its own address, ``/xet/<repository uid>``. A client keeps what it knows of a storage by address,
so what it remembers of a deleted repository, or of another hub that had this port, is never used for this one. A
repository that lost xorbs, because files were deleted for good, has a new address: ``/xet/<repository uid>-<number>``.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route

from .. import web
from ..errors import HubError, repo_not_found
from ..objects import Incoming
from ..store import Store
from ..web import answer
from .format import XORB_LIMIT, Segment, ShardFile, Xorb, hash_bytes, hash_text, read_shard, read_xorb, write_shard
from .xorbs import unknown_xorb

WRITE, READ = "xet-write", "xet-read"
SHARD_LIMIT = 66 * 2**20  # bytes; clients stop at 64 MiB
_XORB_BODY_LIMIT = XORB_LIMIT + 2**16  # with the heads of its chunks
_TELEMETRY_LIMIT = 2**20
_HOUR = 3600  # for which clients may rely on an answer about chunks


def write_token(request: Request) -> Response:
    """`GET /api/{type}/{repository}/xet-write-token/{revision}`."""
    return _token(request, WRITE)


def read_token(request: Request) -> Response:
    """`GET /api/{type}/{repository}/xet-read-token/{revision}`."""
    return _token(request, READ)


def _token(request: Request, scope: str) -> Response:
    writes = scope == WRITE
    # Who may propose a change may send its files: which reference they may move is for the commit to say.
    repo = web.repo(request, contribute=writes, files=not writes)
    store, caller = web.store(request), web.caller(request)
    made, expires = store.storage_token(repo, caller, scope)
    with store.database.read() as db:
        url = f"{web.base_url(request)}/xet/{store.xorbs.address(db, repo.uid)}"
    headers = {"X-Xet-Cas-Url": url, "X-Xet-Access-Token": made, "X-Xet-Token-Expiration": str(expires)}
    return answer({"casUrl": url, "exp": expires, "accessToken": made}, headers=headers)


def _access(request: Request, scope: str) -> tuple[str, str]:
    """(repository uid, user) of the storage token; what may write may read. Raises HubError 401."""
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise HubError(401, "a storage token is needed")
    store = web.store(request)
    try:
        repo, user = store.storage_access(shown.strip(), WRITE)
    except HubError:
        if scope == WRITE:
            raise
        repo, user = store.storage_access(shown.strip(), READ)
    if repo != request.path_params["address"].partition("-")[0]:
        raise HubError(401, "the storage token is for another repository")
    return repo, user


def _readable(store: Store, user: str) -> set[str]:
    """Uids of the repositories whose files ``user`` may read."""
    caller = store.caller_of(user)
    return {repo.uid for repo in store.repos(None, caller) if web.may_read(repo, caller)}


async def put_xorb(request: Request) -> Response:
    """`POST /v1/xorbs/default/{hash}`: kept when every chunk unpacks and the hash is that of the chunks."""
    repo, _ = _access(request, WRITE)
    announced = hash_bytes(request.path_params["hash"])
    store, size = web.store(request), 0
    with store.xorbs.receive() as file:
        async for data in request.stream():
            size += len(data)
            if size > _XORB_BODY_LIMIT:
                raise HubError(413, f"an xorb has at most {_XORB_BODY_LIMIT} bytes")
            file.write(data)
        file.seek(0)
        xorb = await run_in_threadpool(read_xorb, file)
        if xorb.hash != announced:
            raise HubError(400, f"the chunks have the hash {hash_text(xorb.hash)}, not the announced one")
        inserted = await run_in_threadpool(_keep, store, Path(file.name), xorb, repo)
    return answer({"was_inserted": inserted})


def _keep(store: Store, received: Path, xorb: Xorb, repo: str) -> bool:
    with store.database.write() as db:
        _still_there(db.execute("SELECT 1 FROM repos WHERE id = ?", (repo,)).fetchone())
        return store.xorbs.add(db, received, xorb, repo)


def _still_there(row: object) -> None:
    if row is None:
        raise repo_not_found()


def near(request: Request) -> Response:
    """`GET /v1/chunks/default/{hash}`: a shard of xorbs that may hold more chunks of the client's file, or 404."""
    repo, user = _access(request, READ)
    store = web.store(request)
    chunk = hash_bytes(request.path_params["hash"])
    readable = _readable(store, user)
    with store.database.read() as db:
        xorbs = store.xorbs.near(db, chunk, repo, readable)
    if not xorbs:
        raise HubError(404, "no such chunk is known")
    hour = int(time.time()) // _HOUR * _HOUR  # the same answer for a while: a client keeps one copy of it
    return Response(write_shard(xorbs, hour, hour + 2 * _HOUR), media_type="application/octet-stream")


async def put_shard(request: Request) -> Response:
    """`POST /v1/shards`: the files of a shard are rebuilt, checked, and given to the repository."""
    work = await _registration(request)

    def all_of_it() -> None:
        for _ in work:
            pass

    await run_in_threadpool(all_of_it)
    return answer({"result": 1})


async def put_shard_with_progress(request: Request) -> Response:
    """`POST /v2/shards`: as `put_shard`; the answer is a line of JSON per step, the last says how it went."""
    return StreamingResponse(_lines(await _registration(request)), media_type="application/x-ndjson")


def _lines(work: Iterator[tuple[int, int]]) -> Iterator[str]:
    try:
        for done, total in work:
            yield json.dumps({"type": "validating", "verified": done, "total": total}) + "\n"
    except HubError as error:
        yield json.dumps({"type": "error", "message": error.message, "retryable": False}) + "\n"
    else:
        yield json.dumps({"type": "result"}) + "\n"


async def _registration(request: Request) -> Iterator[tuple[int, int]]:
    repo, user = _access(request, WRITE)
    data = await web.body(request, SHARD_LIMIT)
    return register(web.store(request), repo, user, read_shard(data))


def register(store: Store, repo: str, user: str, files: list[ShardFile]) -> Iterator[tuple[int, int]]:
    """Rebuild the files of a shard and give them to ``repo``, all or none. Yields (files done, of how many).

    Raises HubError 400 for xorbs that ``user`` must not read or that are not there, and for a wrong sha256.
    """
    xorbs = _named_xorbs(store, files, {repo, *_readable(store, user)})
    need = sum(_checked_size(segment, xorbs) for file in files for segment in file.segments())
    if need > shutil.disk_usage(store.root).free:
        raise HubError(507, f"the files have {need} bytes; the hub's disk has less room")
    with ExitStack() as stack:
        rebuilt: list[tuple[Incoming, str]] = []
        for file in files:
            incoming = stack.enter_context(store.objects.receive())
            for _ in store.xorbs.rebuild(file.segments(), xorbs, incoming.write):
                yield len(rebuilt), len(files)
            found = incoming.finish()
            if file.sha256 not in (None, found):
                raise HubError(400, f"the chunks of a file have the sha256 {found}, not {file.sha256}")
            rebuilt.append((incoming, found))
            yield len(rebuilt), len(files)
        with store.database.write() as db:
            _still_there(db.execute("SELECT 1 FROM repos WHERE id = ?", (repo,)).fetchone())
            for (incoming, sha256), file in zip(rebuilt, files, strict=True):
                store.objects.place(db, incoming, sha256, repo)
                store.xorbs.use(db, repo, sha256, list(file.segments()))


def _named_xorbs(store: Store, files: list[ShardFile], repos: set[str]) -> dict[bytes, Xorb]:
    found: dict[bytes, Xorb] = {}
    with store.database.read() as db:
        for name in {segment.xorb for file in files for segment in file.segments()}:
            xorb = store.xorbs.held(db, name, repos)
            if xorb is None:
                raise unknown_xorb(name)
            found[name] = xorb
    return found


def _checked_size(segment: Segment, xorbs: dict[bytes, Xorb]) -> int:
    size = xorbs[segment.xorb].span(segment.first, segment.stop)
    if size != segment.size:
        raise HubError(400, f"chunks {segment.first} to {segment.stop} have {size} bytes, not {segment.size}")
    return size


async def telemetry(request: Request) -> Response:
    """`POST /v1/telemetry`: taken and forgotten."""
    await web.body(request, _TELEMETRY_LIMIT)
    return Response()


async def _unknown(request: Request) -> Response:
    """What this storage does not offer; clients then use what it does, such as `/v1/xorbs` for upload grants."""
    raise HubError(404, "this storage has no such endpoint")


routes: list[BaseRoute] = [
    Route("/api/{kind}/{namespace}/{name}/xet-write-token/{revision}", write_token),
    Route("/api/{kind}/{namespace}/{name}/xet-read-token/{revision}", read_token),
    Route("/v1/telemetry", telemetry, methods=["POST"]),  # clients drop the path of the storage's address
    Mount(
        "/xet/{address}",
        routes=[
            Route("/v1/xorbs/default/{hash}", put_xorb, methods=["POST"]),
            Route("/v1/chunks/default/{hash}", near),
            Route("/v1/chunks/default-merkledb/{hash}", near),
            Route("/v1/shards", put_shard, methods=["POST"]),
            Route("/v2/shards", put_shard_with_progress, methods=["POST"]),
            Route("/{rest:path}", _unknown, methods=["GET", "POST", "PUT", "HEAD"]),
        ],
    ),
]
