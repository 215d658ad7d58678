"""A reader of calls written as Python, ``pyautogui.click(1, y=2)``: literals only, and nothing is evaluated.

Why not ``ast``: it warns, process-wide, about ``"\\d"``, and how deep a text may nest depends on the caller's stack
and on the version of Python. The tests hold this reader to what ``ast.literal_eval`` reads.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .canonical import number
from .model import DEEPEST, UnreadableError

# Possessive (++, *+): each character is looked at once.
_INSIDE = re.compile(r"(?:[ \t\f\r\n]++|\\(?:\r\n?+|\n)|#[^\r\n]*+)*+")  # between brackets a new line is a space
_OUTSIDE = re.compile(r"(?:[ \t\f]++|\\(?:\r\n?+|\n))*+")
_NAME = re.compile(r"[^\W\d]\w*+(?:\.[^\W\d]\w*+)*+")
_KEYWORD = re.compile(r"([^\W\d]\w*+)\s*+=(?!=)")
_NUMBER = re.compile(r"[-+]?+(?:\d++(\.\d*+)?+|(\.\d++))([eE][-+]?+\d++)?+(?![\w.])", re.ASCII)
_QUOTE = re.compile(r"([a-zA-Z]{0,2})('''|\"\"\"|'|\")")
_BODY = {
    "'": re.compile(r"((?:[^'\\\r\n]++|\\(?:\r\n|.))*+)'", re.DOTALL),
    '"': re.compile(r"((?:[^\"\\\r\n]++|\\(?:\r\n|.))*+)\"", re.DOTALL),
    "'''": re.compile(r"((?:[^'\\]++|\\.|'(?!''))*+)'''", re.DOTALL),
    '"""': re.compile(r"((?:[^\"\\]++|\\.|\"(?!\"\"))*+)\"\"\"", re.DOTALL),
}
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f"}
_ESCAPES |= {"n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORDS = {"True": True, "False": False, "None": None}
_CLOSING = {"(": ")", "[": "]"}


class Written(NamedTuple):
    """A call as it was written: tuples and lists are lists, ``end`` is the offset after the closing bracket."""

    name: str
    positional: list[Any]
    keywords: dict[str, Any]
    end: int


def skip_blank(source: str, at: int) -> int:
    """The offset after spaces and continued lines; a new line or a comment ends them."""
    match = _OUTSIDE.match(source, at)
    return match.end() if match else at


def name_at(source: str, at: int) -> str:
    """The dotted name that starts at ``at``, or ""."""
    match = _NAME.match(source, at)
    return match.group() if match else ""


def is_call(source: str, at: int) -> bool:
    """True where a dotted name and an opening bracket stand."""
    name = name_at(source, at)
    return bool(name) and source.startswith("(", skip_blank(source, at + len(name)))


def call_at(source: str, at: int) -> Written:
    """The call at ``at``. Raises UnreadableError that names what is no literal."""
    name = name_at(source, at)
    at = skip_blank(source, at + len(name))
    if not name or not source.startswith("(", at):
        raise UnreadableError(f"expected a call at character {at}")
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    at = _skip(source, at + 1)
    try:
        while not source.startswith(")", at):
            if positional or keywords:
                if at == len(source):
                    raise UnreadableError("expected , or ) at the end of the text")
                if not source.startswith(",", at):
                    raise UnreadableError(f"an expression at character {at}; only literals are read")
                at = _skip(source, at + 1)
                if source.startswith(")", at):
                    break
            keyword = _KEYWORD.match(source, at)
            if keyword:
                if keyword[1] in keywords:
                    raise UnreadableError(f"{keyword[1]} is given twice")
                keywords[keyword[1]], at = _value(source, _skip(source, keyword.end()))
            elif keywords:
                raise UnreadableError(f"a positional argument after a keyword at character {at}")
            else:
                item, at = _value(source, at)
                positional.append(item)
            at = _skip(source, at)
    except UnreadableError as error:
        raise UnreadableError(f"{name}: {error}") from None
    return Written(name, positional, keywords, at + 1)


def _skip(source: str, at: int) -> int:
    match = _INSIDE.match(source, at)
    return match.end() if match else at


def _value(source: str, at: int) -> tuple[Any, int]:
    """``(value, offset after it)``. A loop, so that no stack decides how deep a list may be."""
    opened: list[tuple[str, list[Any]]] = []  # closing bracket and items of each list or tuple around `at`
    while True:
        closing = _CLOSING.get(source[at : at + 1])
        if closing:
            if len(opened) == DEEPEST:
                raise UnreadableError("nested too deeply")
            opened.append((closing, []))
            at = _skip(source, at + 1)
            if not source.startswith(closing, at):
                continue
            item: Any = opened.pop()[1]
            at += 1
        else:
            item, at = _atom(source, at)
        while opened:
            closing, items = opened[-1]
            items.append(item)
            at = _skip(source, at)
            comma = source.startswith(",", at)
            if comma:
                at = _skip(source, at + 1)
            if not source.startswith(closing, at):
                if not comma:
                    raise UnreadableError(f"expected , or {closing} at character {at}")
                break
            opened.pop()
            at += 1
            # ("a") is no tuple but "a".
            item = items[0] if closing == ")" and len(items) == 1 and not comma else items
        else:
            return item, at


def _atom(source: str, at: int) -> tuple[Any, int]:
    match = _QUOTE.match(source, at)
    if match:
        return _strings(source, match)
    match = _NUMBER.match(source, at)
    if match:
        return _number(match), match.end()
    name = name_at(source, at)
    if name in _WORDS:
        return _WORDS[name], at + len(name)
    if name:
        raise UnreadableError(f"{name} at character {at} is no literal")
    raise UnreadableError(f"expected a literal at character {at}")


def _strings(source: str, match: re.Match[str] | None) -> tuple[str, int]:
    """Adjacent string literals are one."""
    parts = []
    while match:
        prefix = match[1].lower()
        if prefix not in ("", "r", "u"):
            raise UnreadableError(f"a string with the prefix {match[1]} at character {match.start()} is no plain text")
        body = _BODY[match[2]].match(source, match.end())
        if body is None:
            raise UnreadableError(f"the string at character {match.start()} has no end")
        raw = body[1]
        if "\r" in raw:  # any end of a line is a line feed
            raw = raw.replace("\r\n", "\n").replace("\r", "\n")
        parts.append(raw if prefix == "r" or "\\" not in raw else _ESCAPE.sub(_unescaped, raw))
        end = body.end()
        match = _QUOTE.match(source, _skip(source, end))
    return "".join(parts), end


def _unescaped(match: re.Match[str]) -> str:
    body = match[1]
    if body[0] in "xuUN" and (len(body) == 1 or int(body[1:], 16) > 0x10FFFF):
        raise UnreadableError(f"the escape \\{body[0]} in a string is not complete or not read")
    if body[0] in "xuU":
        return chr(int(body[1:], 16))
    if body[0] in "01234567":
        return chr(int(body, 8))
    return _ESCAPES.get(body, match[0])  # Python keeps the backslash of an escape that it does not know


def _number(match: re.Match[str]) -> int | float:
    try:
        if match[1] or match[2] or match[3]:
            return number(float(match[0]))
        digits = match[0].lstrip("+-")
        if digits[0] == "0" and digits.strip("0"):
            raise UnreadableError(f"{digits} at character {match.start()} is no Python number")
        return int(match[0])
    except UnreadableError:
        raise
    except ValueError:  # more than 4,300 digits
        raise UnreadableError("a number is too long") from None
