"""Before and during a commit: how each file is to be sent, then all changes as lines of JSON."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import revisions, web
from ..commits import Change, Delete, PutBlob, PutStored, apply_changes
from ..content import describe
from ..errors import HubError
from ..git import Git
from ..objects import checked_sha256
from ..paths import checked_path
from ..upload_modes import REGULAR_LIMIT, is_ignored, is_stored

_LINE_LIMIT = REGULAR_LIMIT * 4 // 3 + 2**16  # bytes of one line: a regular file in base64, and its path
_MOST_FILES = 1000  # of one preupload request
_MOST_CHANGES = 50_000  # of one commit


async def preupload(request: Request) -> Response:
    """`POST preupload/{rev}`: for each file how to send it, whether to ignore it, and its present id."""
    return web.answer(await run_in_threadpool(_preupload, request, await web.json_body(request)))


def _preupload(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    files, ignore = asked.get("files"), asked.get("gitIgnore")
    if not isinstance(files, list) or len(files) > _MOST_FILES:
        raise HubError(400, f"files: a list of at most {_MOST_FILES}")
    repo, hub = web.repo(request, contribute=True), web.store(request)
    answers = []
    with hub.database.read() as db:
        head = revisions.writable(db, repo.uid, web.param(request, "rev")).sha
        git = Git(hub.git_folder(repo))
        attributes = git.read(head, ".gitattributes") or b""
        rules = ignore.encode("utf-8", "replace") if isinstance(ignore, str) else git.read(head, ".gitignore") or b""
        for file in files:
            path, size, sample = _announced(file)
            answer: dict[str, Any] = {
                "path": path,
                "uploadMode": "lfs" if is_stored(path, size, sample, attributes) else "regular",
                "shouldIgnore": is_ignored(path, rules),
            }
            entry = git.entry(head, path)
            if entry and not entry.is_folder:
                answer["oid"] = describe(db, git, repo.uid, entry).digest
            answers.append(answer)
    return {"files": answers, "commitOid": head}


def _announced(file: object) -> tuple[str, int, bytes]:
    if not isinstance(file, dict):
        raise HubError(400, "files: {path, size, sample} each")
    path, size, sample = checked_path(file.get("path")), file.get("size"), file.get("sample", "")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise HubError(400, f"{path}: size: an integer")
    return path, size, _decoded(path, sample)[:512]


def _decoded(path: str, text: object) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, str) else "!", validate=True)
    except (ValueError, binascii.Error) as error:
        raise HubError(400, f"{path}: not base64") from error


async def commit(request: Request) -> Response:
    """`POST commit/{rev}`: lines of JSON, read one at a time; git blobs are written as they come."""
    reader = await run_in_threadpool(_Reader, request)
    buffer = bytearray()
    async for chunk in request.stream():
        buffer += chunk
        if b"\n" in chunk:
            *lines, rest = bytes(buffer).split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                await run_in_threadpool(reader.line, line)
        if len(buffer) > _LINE_LIMIT:
            raise HubError(413, f"a line of a commit has at most {_LINE_LIMIT} bytes: send large files as LFS files")
    await run_in_threadpool(reader.line, bytes(buffer))
    return web.answer(await run_in_threadpool(reader.commit))


class _Reader:
    """The lines of one commit request."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._repo = web.repo(request, contribute=True)
        self._caller = web.caller(request)
        self._git_folder = web.store(request).git_folder(self._repo)
        self._header: dict[str, Any] | None = None
        self._changes: list[Change] = []

    def line(self, line: bytes) -> None:
        """Take one line. Raises HubError 400, 413, 422."""
        if not line.strip():
            return
        if len(line) > _LINE_LIMIT:
            raise HubError(413, f"a line of a commit has at most {_LINE_LIMIT} bytes: send large files as LFS files")
        try:
            item = json.loads(line)
            key, value = item["key"], item["value"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise HubError(400, "each line is a JSON object {key, value}") from error
        if not isinstance(value, dict):
            raise HubError(400, "value: an object")
        if key == "header":
            self._header = value
            return
        if len(self._changes) >= _MOST_CHANGES:
            raise HubError(413, f"a commit has at most {_MOST_CHANGES} changes")
        path = value.get("path")
        path = checked_path(path.rstrip("/") if key == "deletedFolder" and isinstance(path, str) else path)
        if key == "file":
            self._changes.append(PutBlob(path, self._blob(path, value)))
        elif key == "lfsFile":
            self._changes.append(_stored(path, value))
        elif key in ("deletedFile", "deletedFolder"):
            self._changes.append(Delete(path))
        else:
            raise HubError(400, f"unknown key {key!a}")

    def commit(self) -> dict[str, Any]:
        """Apply all that was read, at once."""
        header = self._header
        if header is None or not isinstance(header.get("summary"), str):
            raise HubError(400, "a commit begins with a header that has a summary")
        hub = web.store(self._request)
        done = apply_changes(
            hub, self._repo, self._caller, web.param(self._request, "rev"), self._changes, header,
            create_pr=web.flag(self._request, "create_pr"),
        )  # fmt: skip
        base = f"{web.base_url(self._request)}/{self._repo.web_path}"
        answer = {
            "success": True,
            "commitOid": done.sha,
            "commitUrl": f"{base}/commit/{done.sha}",
            "hookOutput": "",
        }
        if done.pull_request:
            answer["pullRequestUrl"] = f"{base}/discussions/{done.pull_request}"
        return answer

    def _blob(self, path: str, value: dict[str, Any]) -> str:
        content = value.get("content", "")
        if value.get("encoding", "utf-8") == "base64":
            data = _decoded(path, content)
        elif isinstance(content, str):
            data = content.encode("utf-8", "replace")
        else:
            raise HubError(400, f"{path}: content: a string")
        if len(data) > REGULAR_LIMIT:
            raise HubError(422, f"{path} has more than {REGULAR_LIMIT} bytes: send it as an LFS file")
        return Git(self._git_folder).write_blob(data)


def _stored(path: str, value: dict[str, Any]) -> PutStored:
    size = value.get("size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
        raise HubError(422, "size: an integer")
    if value.get("algo", "sha256") != "sha256":
        raise HubError(422, "algo: sha256")
    return PutStored(path, checked_sha256(value.get("oid")), size)


routes = [
    Route("/api/{kind}/{namespace}/{name}/preupload/{rev:path}", preupload, methods=["POST"]),
    Route("/api/{kind}/{namespace}/{name}/commit/{rev:path}", commit, methods=["POST"]),
]
