"""JSON Lines, read strictly: lines end at ``\\n`` bytes, duplicate keys and inexact integers are seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

_BOM = b"\xef\xbb\xbf"


class JsonError(ValueError):
    """A line that is not one strict JSON value; the message says why and at which column (1-based, bytes)."""


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

    Raises JsonError for invalid JSON, duplicate keys, NaN and infinities, and text that is not UTF-8. Integers keep
    every digit.
    """
    try:
        orjson.loads(raw)  # for its strict grammar only: it keeps the last of two equal keys and rounds long integers
    except orjson.JSONDecodeError as error:
        raise JsonError(f"not JSON: {error.msg} at column {error.colno}") from error
    try:
        return _EXACT.decode(raw.decode())
    except JsonError:
        raise
    except (ValueError, RecursionError) as error:  # thousands of digits, or nested about a thousand deep
        raise JsonError(f"not JSON we can hold: {error}") from error


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
