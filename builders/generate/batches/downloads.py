"""Files of a batch, fetched whole into files of ours: a transfer that stops short is told from one that does not."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from ....schemas.errors import ArmError
from ....schemas.jsonl import Line, read_lines
from .lines import read_reply
from .service import TRIES, RefusedError, Service, UnreachableError


def download(service: Service, file_id: str, path: Path, at_least: int | None, accept_cut: bool) -> None:
    """Fetch a file into ``path``, which is there when all of it is. at_least: lines that it has, as the service counts.

    What comes short is fetched again. A file with too few lines that comes twice is what the service has: counts may be
    wrong. One that ends inside a line, each time, is only taken with ``accept_cut``; one without any reply never.
    Raises RefusedError where the service does not have it any more, UnreachableError when it never came whole.
    """
    part = path.with_name(f"{path.name}.part")
    seen: list[bytes] = []
    for attempt in range(TRIES):
        if attempt:
            service.pause(attempt - 1)
        try:
            seen.append(service.call(lambda: _fetch(service, file_id, part), tries=1))
        except (UnreachableError, RefusedError) as error:
            if isinstance(error, RefusedError) and error.status != 429:
                raise
            problem = error.message
            continue
        looked = _looked_at(part)
        alike = seen.count(seen[-1])
        if looked.lines and not looked.replies:
            problem, enough = "no line of it is a reply", False
        elif looked.cut:
            problem = "it ends inside a line; arm label collect --accept-cut takes what is there"
            enough = accept_cut and alike == TRIES
        elif at_least is not None and looked.lines < at_least:
            problem, enough = f"it has {looked.lines} lines, and the service counts {at_least} requests", alike == 2
        else:
            enough = True
        if enough:
            part.replace(path)
            return
    part.unlink(missing_ok=True)
    raise UnreachableError(
        f"the file {path.name} did not come whole in {TRIES} tries; the last: {problem}", where=service.url
    )


def _fetch(service: Service, file_id: str, part: Path) -> bytes:
    """The digest of what came. Raises ValueError when it is shorter than announced."""
    digest = hashlib.sha256()
    part.unlink(missing_ok=True)
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ArmError(f"cannot be written: {error.strerror}", where=str(part)) from error
    with (
        os.fdopen(handle, "wb") as file,
        service.client.files.with_streaming_response.content(file_id) as response,
    ):
        for block in response.iter_bytes(1 << 16):
            digest.update(block)
            try:
                file.write(block)
            except OSError as error:
                raise ArmError(f"cannot be written: {error.strerror}", where=str(part)) from error
        file.flush()
        os.fsync(handle)
        announced = response.headers.get("content-length", "")
        came = response.http_response.num_bytes_downloaded
    if announced.isdigit() and int(announced) != came:
        raise ValueError(f"{came} of {announced} bytes came")
    return digest.digest()


class _Looked(NamedTuple):
    lines: int
    replies: bool  # whether any line is one
    cut: bool  # whether the last one is not whole


def _looked_at(path: Path) -> _Looked:
    lines, replies = 0, False
    last: Line | None = None
    for last in read_lines(path):
        lines += 1
        if not replies:
            replies = _is_reply(last.raw)
    cut = last is not None and not last.ended and not _is_reply(last.raw)
    return _Looked(lines, replies, cut)


def _is_reply(raw: bytes) -> bool:
    try:
        read_reply(raw)
    except ValueError:
        return False
    return True
