"""JSON Lines, read strictly: lines end at ``\\n`` bytes, duplicate keys and inexact integers are seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

_ESCAPE = re.compile(rb"\\.", re.S)
# orjson turns integers beyond 64 bit into floats without a word; 17 digits are the first that can be inexact.
_LONG_INTEGER = re.compile(rb"(?<![\w.+-])-?\d{17,}(?![\w.])")
_BOM = b"\xef\xbb\xbf"


class JsonError(ValueError):
    """A line that is not one strict JSON value; the message says why and at which column (1-based, bytes)."""


@dataclass(frozen=True, slots=True)
class Line:
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

    Raises JsonError for invalid JSON, duplicate keys, NaN and infinities, and text that is not UTF-8. Integers keep
    every digit.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise JsonError(f"not JSON: {error.msg} at column {error.colno}") from error
    # A dropped duplicate takes at least its key's two quotes with it, so equal counts prove that there is none.
    if _quotes(raw) != _quotes(orjson.dumps(value)) or _LONG_INTEGER.search(raw):
        return json.loads(raw, object_pairs_hook=_unique)
    return value


def loads_line(line: Line) -> Any:
    """``loads`` of a line; a broken last line without line end is called what it probably is."""
    try:
        return loads(line.raw)
    except JsonError as error:
        if not line.ended:
            raise JsonError(f"{error}; the file ends inside this line, as after an interrupted write") from error
        raise


def _quotes(raw: bytes) -> int:
    return (_ESCAPE.sub(b"", raw) if b"\\" in raw else raw).count(b'"')


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonError(f"the key {twice!r} stands twice in one object")
    return result
