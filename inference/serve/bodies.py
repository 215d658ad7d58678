"""The body of a request, read by someone who does not trust it: bounded, strict, and off the event loop.

    data = await read_body(request, limits)                                     # JSON, whatever it says
    asked = await off_loop(lambda: pick_request(data, chooser.read, limits))    # a `Request` that a model can be asked

Both raise `HttpError` with the JSON path of what is wrong.
"""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from starlette.requests import Request as HttpRequest

from ...schemas import jsonl
from ...schemas.errors import ArmError
from ...schemas.images import ImageError, decode_data_url, measured, sniff
from ...schemas.images import Limits as ImageLimits
from ...schemas.validate import json_path
from ..request import Request
from .errors import HttpError

_DRAINED = 4  # times the limit: a client that still sends would not see the answer
_IHDR = struct.Struct(">16xII")  # width, height in pixels
_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")  # in what Pillow says
_TOO_LARGE = ("too_many_bytes", "too_many_pixels")
_VALUES = 250_000  # of one body; each takes 100 bytes or so, where it may have been two
_WORKERS = ThreadPoolExecutor(2, thread_name_prefix="bodies")  # threads begin with the first body
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What one request may hold.

    body_bytes: of the whole body; body_seconds: in which it has to come. image_bytes, image_pixels: of the screenshot,
    told from its header before it is decoded. candidates: of one request. items: of any other list. text_characters:
    of any one text. shown_characters: of all that a model has to read: a scalar model reads the state once for each
    candidate.
    """

    body_bytes: int = 16 * 2**20
    body_seconds: float = 30.0
    image_bytes: int = 8 * 2**20
    image_pixels: int = 20_000_000
    candidates: int = 256
    items: int = 10_000
    text_characters: int = 400_000
    shown_characters: int = 4_000_000


class Read(Protocol):
    """`Chooser.read`."""

    def __call__(self, data: Any, where: str = ...) -> Request: ...


async def off_loop(work: Callable[[], T]) -> T:
    """What ``work`` returns, from a thread of its own: pictures and long JSON would hold up everybody else."""
    return await asyncio.get_running_loop().run_in_executor(_WORKERS, work)


async def read_body(request: HttpRequest, limits: Limits = Limits()) -> Any:
    """The JSON that a request brings. Raises HttpError: 415 for another content type or encoding, 413 for too much,
    408 for too slowly, 400 for no JSON."""
    _refuse_other_content(request)
    try:
        async with asyncio.timeout(limits.body_seconds):
            raw = await _bytes(request, limits.body_bytes)
    except TimeoutError as error:
        told = f"the body did not come within {limits.body_seconds:g} s"
        raise HttpError(408, told, code="body_too_slow", headers={"Connection": "close"}) from error
    return await off_loop(lambda: loads(raw))


def loads(raw: bytes, where: str = "the body", param: str = "$") -> Any:
    """Strict JSON. Raises HttpError 400 for what is none, with the path of an equal key or of a number that JSON does
    not have. ``param``: path of the JSON itself, where it is a text within JSON."""
    if sum(map(raw.count, (b",", b"[", b"{"))) > _VALUES:  # commas in texts are counted, too: there are not so many
        raise HttpError(400, f"{where} holds more than {_VALUES} values", code="too_many_values", param=param)
    try:
        return jsonl.loads(raw)
    except jsonl.JsonError as error:
        path, told = _place(raw) or ("$", str(error).removeprefix("not JSON: "))
        inner = f" {path}" if param != "$" and path != "$" else ""
        said = f"{where} is not JSON as it has to be:{inner} {told}"
        raise HttpError(400, said, code="invalid_json", param=path if param == "$" else param) from error


def pick_request(data: Any, read: Read, limits: Limits = Limits(), where: str = "the request") -> Request:
    """The `Request` that ``data`` is, by ``read`` of the model that is asked. It decodes the picture: call it off the
    event loop. Raises HttpError: 413 for a picture that is too large, 400 for all else."""
    if isinstance(data, Mapping):
        _refuse_much(data, limits)
        _refuse_picture(data.get("state"), limits)
    try:
        return read(data, where=where)
    except ArmError as error:
        if isinstance(error.__cause__, ImageError):
            raise _image_error(error.__cause__) from error
        raise HttpError.about(error) from error


def _refuse_other_content(request: HttpRequest) -> None:
    content = request.headers.get("content-type", "")
    kind, _, options = content.lower().partition(";")
    charset = options.replace('"', "").replace(" ", "")
    if kind.strip() != "application/json" or charset not in ("", "charset=utf-8", "charset=utf8"):
        told = f"Content-Type is to be application/json in UTF-8, not {content[:80] or 'missing'!r}"
        raise HttpError(415, told, code="unsupported_content_type")
    if (encoding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        told = f"Content-Encoding {encoding[:80]!r} is not taken; send the body as it is"
        raise HttpError(415, told, code="unsupported_content_encoding")


async def _bytes(request: HttpRequest, limit: int) -> bytes:
    """What is over the limit is read and dropped, up to a bound: else the client could not see what is wrong."""
    found, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            found += chunk
            continue
        found.clear()
        if size > _DRAINED * limit:
            break
    if size > limit:
        told = f"the body is longer than {limit} bytes"
        close = {"Connection": "close"} if size > _DRAINED * limit else {}
        raise HttpError(413, told, code="body_too_large", headers=close)
    return bytes(found)


def _refuse_much(data: Mapping[str, Any], limits: Limits) -> None:
    candidates = data.get("candidates")
    if isinstance(candidates, list) and len(candidates) > limits.candidates:
        told = f"{len(candidates)} candidates, at most {limits.candidates} are taken"
        raise HttpError(400, told, code="too_many_candidates", param="$.candidates")
    picture = ("state", "screenshot")
    state = shown = 0  # characters
    for path, value in _leaves(data, limits):
        if path == picture or not isinstance(value, str):
            continue
        if len(value) > limits.text_characters:
            told = f"a text of {len(value)} characters, at most {limits.text_characters} are taken"
            raise HttpError(400, told, code="text_too_long", param=json_path(path))
        if path[0] == "candidates":
            shown += len(value)
        else:
            state += len(value)
    count = max(1, len(candidates)) if isinstance(candidates, list) else 1
    if (total := shown + state * count) > limits.shown_characters:
        told = (
            f"{count} candidates for a state of {state} characters come to {total} characters, "
            f"at most {limits.shown_characters} are taken"
        )
        raise HttpError(400, told, code="request_too_long", param="$")


def _leaves(data: Mapping[str, Any], limits: Limits) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Path and value of what is neither list nor object. Raises HttpError for a list that is too long."""
    left: list[tuple[tuple[str | int, ...], Any]] = [((), data)]
    while left:
        path, value = left.pop()
        if isinstance(value, Mapping):
            left += [((*path, name), inner) for name, inner in value.items()]
        elif isinstance(value, list):
            if len(value) > limits.items and path != ("candidates",):  # which has a limit of its own
                told = f"a list of {len(value)} items, at most {limits.items} are taken"
                raise HttpError(400, told, code="list_too_long", param=json_path(path))
            left += [((*path, index), inner) for index, inner in enumerate(value)]
        else:
            yield path, value


def _refuse_picture(state: Any, limits: Limits) -> None:
    """By its header: nothing that is too large is decoded."""
    picture = state.get("screenshot") if isinstance(state, Mapping) else None
    if picture is None:
        return
    if not isinstance(picture, str):  # which would be a picture in Python
        told = "the screenshot is to be a base64 data URL of an image"
        raise HttpError(400, told, code="image_bad_data_url", param="$.state.screenshot")
    bounds = ImageLimits(max_bytes=limits.image_bytes, max_pixels=limits.image_pixels)
    try:
        data = decode_data_url(picture, bounds)
        is_png = sniff(data) == "image/png" and len(data) >= _IHDR.size
        bounds.check_size(*(_IHDR.unpack_from(data) if is_png else measured(data)[1:]))  # Pillow reads more than IHDR
    except ImageError as error:
        raise _image_error(error) from error


def _image_error(error: ImageError) -> HttpError:
    status = 413 if error.reason in _TOO_LARGE else 400
    told = _ADDRESS.sub("it", error.message)
    return HttpError(status, told, code=f"image_{error.reason}", param="$.state.screenshot")


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, equal names and all."""


class _NoNumber(str):
    """NaN, Infinity or -Infinity."""


_LENIENT = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_NoNumber)


def _place(raw: bytes) -> tuple[str, str] | None:
    """(path, what is wrong) of JSON that Python reads and we do not; None where it is the grammar that is wrong."""
    try:
        text = raw.decode()
        if jsonl.nests_deeper(text, jsonl.DEEPEST):
            return None
        value = _LENIENT.decode(text)
    except ValueError:
        return None
    left: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while left:
        path, value = left.pop()
        if isinstance(value, _NoNumber):
            return json_path(path), f"{value} is no number in JSON"
        names: Sequence[str | int] = range(len(value)) if type(value) is list else ()
        inner: Sequence[Any] = value if type(value) is list else ()
        if isinstance(value, _Pairs):
            names, inner = [name for name, _ in value], [one for _, one in value]
            if len(set(names)) != len(names):
                seen: set[Any] = set()
                twice = next(name for name, _ in value if name in seen or seen.add(name))  # type: ignore[func-returns-value]
                return json_path(path), f"the key {twice[:80]!r} stands twice in one object"
        left += [((*path, name), one) for name, one in zip(names, inner, strict=True)]
    return None
