"""Dialect ``desktop``: ``pyautogui`` code in a fenced block, as OSWorld's agents write it, or WAIT, DONE or FAIL.

Documented: pyautogui's functions and their parameters; OSWorld's code blocks and its three words, alone or in a block;
``computer.triple_click``, ``computer.wait`` and ``computer.terminate(status)`` of OpenCUA. A block may hold several
calls, also on one line with semicolons; ``import pyautogui`` and ``import time`` are skipped. Anything that is no call
with literal arguments (a variable, a loop, an assignment, another module) makes the response unreadable.

Different spellings of one action are one: ``rightClick(1, 2)`` is ``click(1, 2, button='right')``, ``typewrite`` is
``write``, ``moveTo`` and a ``dragTo`` right after it are one drag from there. A call's ``name`` is that of the one
spelling. How long a movement takes (duration, tween, interval) is no part of an action. Keys that are pressed one
after the other are a ``sequence``, those of a hotkey are ``keys``. A scroll counts ``clicks`` of the wheel, positive
upwards and to the right; no other dialect has that unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import ArmError
from . import python_calls
from .desktop_calls import WORDS, call_of, is_known, written
from .dialect import Dialect, Scan
from .model import Call, UnreadableError

FENCE = "```"
_LANGUAGE = re.compile(r"(?i:python3?|py)(?=\s|$|`)|")
_IMPORT = re.compile(r"import[^\S\n]+(?:pyautogui|time)(?:[^\S\n]*+,[^\S\n]*+(?:pyautogui|time))*+(?![\w.])")
_BLANK = re.compile(r"(?:[;\s]++|#[^\n]*+)*+")
_WORD = re.compile(r"(?:WAIT|DONE|FAIL)\b")


def scan(tail: str) -> Scan:
    """Reads all of ``tail`` when it starts as code does, else every fenced block in it."""
    calls: list[Call] = []
    bodies: list[str] = []
    spans: list[tuple[int, int]] = []
    code = tail.strip()
    known = is_known(python_calls.name_at(code, 0)) and python_calls.is_call(code, 0)
    if known or code in WORDS or _IMPORT.match(code):
        end = _block(code, 0, calls)
        if end < len(code):
            raise UnreadableError(f"{FENCE} at character {end}, after code without one")
        if calls:
            return Scan(tuple(calls), code, [(0, len(tail))])
    at = tail.find(FENCE)
    while at >= 0:
        language = _LANGUAGE.match(tail, at + len(FENCE))
        begin = language.end() if language else at + len(FENCE)
        end = _block(tail, begin, calls)
        bodies.append(tail[begin:end].strip())
        spans.append((at, end + len(FENCE)))
        at = tail.find(FENCE, end + len(FENCE))
    if not calls:
        raise UnreadableError("no action")
    return Scan(tuple(calls), "\n".join(bodies), spans)


def _block(tail: str, at: int, calls: list[Call]) -> int:
    """Appends the calls of one block; returns where it ends: at its closing fence, or with the text."""
    at = _skip(tail, at)
    while at < len(tail) and not tail.startswith(FENCE, at):
        if match := _WORD.match(tail, at):
            calls.append(WORDS[match.group()])
            end = match.end()
        elif match := _IMPORT.match(tail, at):
            end = match.end()
        else:
            found = _statement(tail, at)
            _append(calls, call_of(found))
            end = found.end
        after = python_calls.skip_blank(tail, end)
        if after < len(tail) and tail[after] not in "\r\n;#" and not tail.startswith(FENCE, after):
            raise UnreadableError(f"{tail[at:end][:40]}: expected a new line or ; at character {after}")
        at = _skip(tail, after)
    return at


def _skip(source: str, at: int) -> int:
    match = _BLANK.match(source, at)
    return match.end() if match else at


def _statement(tail: str, at: int) -> python_calls.Written:
    name = python_calls.name_at(tail, at)
    if name and not (is_known(name) and python_calls.is_call(tail, at)):
        line = tail[at : at + 60].splitlines()[0]
        raise UnreadableError(f"only calls of pyautogui, computer and time.sleep are read, not: {line}")
    return python_calls.call_at(tail, at)


def _append(calls: list[Call], call: Call) -> None:
    """A movement and a drag right after it are one drag, from where the movement ends."""
    if call.verb == "drag" and calls and calls[-1].verb == "hover" and calls[-1].arguments.keys() == {"point"}:
        call = Call(call.name, call.verb, {"start_point": calls.pop().arguments["point"], **call.arguments})
    calls.append(call)


def render(calls: Sequence[Call]) -> str:
    """All calls in one block of Python, one a line; a word alone stands in a block without a language."""
    lines: list[str] = []
    for call in calls:
        before = len(lines)
        lines += written(call)
        if len(lines) == before or not _says(_fenced(lines[before:]), call):
            raise ArmError(f"the dialect desktop has no words for {call.name}({', '.join(call.arguments)})")
    if len(scan(_fenced(lines)).calls) != len(calls):
        raise ArmError("the dialect desktop has no words for a movement and then a drag from where it does not end")
    return _fenced(lines)


def _fenced(lines: Sequence[str]) -> str:
    block = "\n".join(lines)
    return f"{FENCE}{block}{FENCE}" if block in WORDS else f"{FENCE}python\n{block}\n{FENCE}"


def _says(block: str, call: Call) -> bool:
    try:
        (back,) = scan(block).calls
    except (UnreadableError, ValueError):
        return False
    named = back.name == call.name or call.verb != "other"
    return named and back.verb == call.verb and back.arguments == call.arguments


DESKTOP = Dialect(FENCE, FENCE, scan, render)
