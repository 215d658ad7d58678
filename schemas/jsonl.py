"""JSON Lines, read strictly: lines end at ``\\n`` bytes, duplicate keys and inexact integers are seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

DEEPEST = 200  # lists and objects in each other; no stack decides, so that every process accepts the same lines
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


class JsonError(ValueError):
    """A line that is not one strict JSON value; the message says why and at which column (1-based, characters)."""


class Line(NamedTuple):
    """One line of a JSONL file: its 1-based number and its bytes without the line end."""

    number: int
    offset: int  # of its first byte within the file
    raw: bytes
    ended: bool  # False for a last line without its line end: perhaps a torn write


def read_lines(path: Path, feed: Callable[[bytes], object] | None = None) -> Iterator[Line]:
    """Yield the non-blank lines of ``path``. U+2028 and U+0085 do not end a line; a leading BOM is dropped.

    ``feed`` gets every byte of the file in order, for a digest taken in the same pass.
    """
    offset = 0
    with path.open("rb") as file:
        for number, whole in enumerate(file, 1):
            if feed:
                feed(whole)
            skip = len(_BOM) if number == 1 and whole.startswith(_BOM) else 0
            raw = whole[skip:].rstrip(b"\r\n")
            if raw and not raw.isspace():
                yield Line(number, offset + skip, raw, whole.endswith(b"\n"))
            offset += len(whole)


def loads(raw: bytes) -> Any:
    """Parse one JSON value.

    Raises JsonError for invalid JSON, duplicate keys, NaN and infinities, text that is not UTF-8, and what is nested
    more than ``DEEPEST`` deep. Integers keep every digit.
    """
    try:
        value = orjson.loads(raw)  # for its grammar only: it keeps the last of two equal keys, rounds long integers
    except orjson.JSONDecodeError as error:
        place = f"{f'line {error.lineno}, ' if error.lineno > 1 else ''}column {error.colno}"
        raise JsonError(_not_utf8(raw) or f"not JSON: {error.msg} at {place}") from error
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _is_deep(value):
        raise JsonError(_TOO_DEEP)
    del value  # a long line is not held twice
    text = raw.decode()
    try:
        return _EXACT.decode(text)
    except JsonError:
        raise
    except ValueError as error:  # thousands of digits
        raise JsonError(f"not JSON we can hold: {error}") from error
    except RecursionError as error:  # deep below the first of two equal keys, or the caller left no room
        if nests_deeper(text, DEEPEST):
            raise JsonError(_TOO_DEEP) from error
        raise


def _not_utf8(raw: bytes) -> str:
    """What keeps bytes from being text; "" when they are text."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        hint = " (UTF-16?)" if raw.startswith(_UTF16) else ""
        column = len(raw[: error.start].decode()) + 1
        return f"not JSON: not UTF-8: the byte 0x{raw[error.start]:02x}{hint} at column {column}"
    return ""


def nests_deeper(text: str, limit: int, begin: int = 0) -> bool:
    """Whether the JSON value at ``begin`` holds lists and objects more than ``limit`` deep; judged by its brackets, so
    that it may be broken, and something else may follow it, which is not looked at."""
    depth = 0
    for token in _TOKEN.finditer(text, begin):
        first = text[token.start()]
        if first != '"':
            depth += 1 if first in "[{" else -1
            if not 0 < depth <= limit:
                return depth > limit
    return False


def _is_deep(value: Any) -> bool:
    level: list[Any] = [[value]]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is list or type(inner) is dict
        ]
    return bool(level)


def loads_line(line: Line) -> Any:
    """``loads`` of a line; a broken last line without line end is called what it probably is."""
    try:
        return loads(line.raw)
    except JsonError as error:
        if not line.ended:
            raise JsonError(f"{error}; the file ends inside this line, as after an interrupted write") from error
        raise


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonError(f"the key {twice!r} stands twice in one object")
    return result


_EXACT = json.JSONDecoder(object_pairs_hook=_unique)
_TOO_DEEP = f"not JSON we can hold: nested more than {DEEPEST} deep"
