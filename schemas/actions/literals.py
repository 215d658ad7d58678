"""A reader of call syntax, ``name(1, "two", key=3)``, that evaluates nothing."""

from __future__ import annotations

import re
from typing import Any

from .canonical import number
from .model import DEEPEST, UnreadableError

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[^\W\d][\w.]*")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*=\s*")
_NUMBER = re.compile(r"[-+]?(?:\d+(\.\d*)?|(\.\d+))([eE][-+]?\d+)?(?![\w.])", re.ASCII)
_STRING = re.compile(r"\"([^\"\\]*(?:\\.[^\"\\]*)*)\"|'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # one character beyond U+FFFF
_ESCAPE = re.compile(rf"\\({_PAIR}|u[0-9a-fA-F]{{4}}|x[0-9a-fA-F]{{2}}|.)", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*")
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}


def skip(source: str, at: int) -> int:
    """The offset of the next character that is no whitespace."""
    match = _SPACE.match(source, at)
    return match.end() if match else at


def starts(source: str, at: int) -> bool:
    """True where a name and an opening bracket stand: the least that looks like a call."""
    match = _NAME.match(source, at)
    return match is not None and source.startswith("(", skip(source, match.end()))


def call(source: str, at: int) -> tuple[str, list[Any], dict[str, Any], int]:
    """``(name, positional, keywords, offset after the closing bracket)``. Raises UnreadableError."""
    match = _NAME.match(source, at)
    if match is None:
        raise UnreadableError(f"expected a call at character {at}")
    name, at = match.group(), skip(source, match.end())
    if not source.startswith("(", at):
        raise UnreadableError(f"{name}: expected ( at character {at}")
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    at = skip(source, at + 1)
    try:
        while not source.startswith(")", at):
            if positional or keywords:
                if not source.startswith(",", at):
                    raise UnreadableError(f"expected , or ) at character {at}")
                at = skip(source, at + 1)
            keyword = _KEYWORD.match(source, at)
            if keyword:
                if keyword[1] in keywords:
                    raise UnreadableError(f"{keyword[1]} is given twice")
                keywords[keyword[1]], at = _value(source, keyword.end())
            elif keywords:
                raise UnreadableError(f"a positional argument after a keyword at character {at}")
            else:
                item, at = _value(source, at)
                positional.append(item)
            at = skip(source, at)
    except UnreadableError as error:
        raise UnreadableError(f"{name}: {error}") from None
    return name, positional, keywords, at + 1


def _value(source: str, at: int, depth: int = 0) -> tuple[Any, int]:
    first = source[at : at + 1]
    if first in ('"', "'"):
        match = _STRING.match(source, at)
        if match is None:
            raise UnreadableError(f"the string at character {at} has no end")
        raw = match[1] if match[1] is not None else match[2]
        return (_ESCAPE.sub(_unescaped, raw) if "\\" in raw else raw), match.end()
    if first == "[":
        if depth == DEEPEST:
            raise UnreadableError("nested too deeply")
        return _list(source, at, depth)
    match = _NUMBER.match(source, at)
    if match:
        return _number(match), match.end()
    match = _WORD.match(source, at)
    if match and match.group() in _WORDS:
        return _WORDS[match.group()], match.end()
    raise UnreadableError(f"expected a value at character {at}")


def _number(match: re.Match[str]) -> int | float:
    try:
        return number(float(match[0]) if match[1] or match[2] or match[3] else int(match[0]))
    except UnreadableError as error:
        raise UnreadableError(f"character {match.start()} {error}") from None
    except ValueError:  # more than 4,300 digits
        raise UnreadableError("a number is too long") from None


def _list(source: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = skip(source, at + 1)
    while not source.startswith("]", at):
        if items:
            if not source.startswith(",", at):
                raise UnreadableError(f"expected , or ] at character {at}")
            at = skip(source, at + 1)
        item, at = _value(source, at, depth + 1)
        items.append(item)
        at = skip(source, at)
    return items, at + 1


def _unescaped(match: re.Match[str]) -> str:
    """Escapes of JSON and Python. One that neither knows stays as it is: ``"C:\\docs"`` keeps its backslash."""
    body = match[1]
    if len(body) == 1:
        return _ESCAPES.get(body, match[0])
    if len(body) == 11:
        return bytes.fromhex(body[1:5] + body[7:]).decode("utf-16-be")
    return chr(int(body[1:], 16))
