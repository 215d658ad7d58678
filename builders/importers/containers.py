"""How a file is cut into records: JSON Lines, one JSON document that is a record or an array of them, Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from ...schemas import jsonl

_DECODER = json.JSONDecoder()
_BLOCK = 1 << 20


def records(
    path: Path, feed: Callable[[bytes], object] | None = None, table: str | None = None
) -> Iterator[jsonl.Line]:
    """Yield the records of a file with the line that each begins at, and its bytes as they stand there. In an array
    that stands on one line, as JSON is often written, the number of a record is its own, since the line tells nothing.

    A name that ends in ``.json`` is one document, which is held in memory as text, or, where other values follow the
    first on lines of their own, JSON Lines all the same; ``.parquet`` is one of our tables (``table`` says which, None
    any), see `parquet.records`; anything else is JSON Lines. What cannot be cut is yielded
    whole, so that whoever parses it says what is wrong with it. ``feed`` gets every byte of the file in order.
    """
    if is_parquet(path):
        from .parquet import records as rows

        return rows(path, feed, table)
    if path.suffix.lower() == ".json":
        return _document(path, feed)
    return jsonl.read_lines(path, feed)


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _document(path: Path, feed: Callable[[bytes], object] | None) -> Iterator[jsonl.Line]:
    blocks = []
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if feed:
                feed(block)
            blocks.append(block)
    data = b"".join(blocks)
    del blocks
    skip = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    try:
        text = data[skip:].decode()
    except UnicodeDecodeError:
        yield jsonl.Line(1, skip, data[skip:], True)
        return
    del data
    at = _past_space(text, 0)
    if at == len(text):
        return
    if _is_lines(text, at):
        del text
        yield from jsonl.read_lines(path)
        return
    line, offset, seen = 1, skip, 0  # of the character at ``seen``
    is_array = text[at] == "["
    numbered = is_array and "\n" not in text.strip()
    at = _past_space(text, at + 1) if is_array else at
    while at < len(text) and not (is_array and text[at] == "]"):
        line += text.count("\n", seen, at)
        offset += len(text[seen:at].encode())
        seen = at
        end, last = len(text.rstrip()), not is_array
        if is_array:
            try:
                end = _DECODER.raw_decode(text, at)[1]
            except (ValueError, RecursionError):  # the rest cannot be cut
                last = True
        yield jsonl.Line(line, offset, text[at:end].encode(), True)
        line += numbered
        if last:
            return
        at = _past_space(text, end)
        if at < len(text) and text[at] == "," and not text.startswith("]", after := _past_space(text, at + 1)):
            at = after
        elif at < len(text) and text[at] != "]":  # what stands there is no record
            break
    if not text[at:].startswith("]") or _past_space(text, at + 1) < len(text):
        line += text.count("\n", seen, at)
        rest = text[at:].encode()  # empty when the array never ends: no JSON, either
        yield jsonl.Line(line, offset + len(text[seen:at].encode()), rest, bool(rest))


def _is_lines(text: str, at: int) -> bool:
    """Whether something stands on a later line than the whole JSON object at ``at``."""
    if text[at] != "{":
        return False
    try:
        end = _DECODER.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return False
    after = _past_space(text, end)
    return after < len(text) and "\n" in text[end:after]


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
