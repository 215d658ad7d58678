"""Dialects of agents that read and write text: ``react`` (``Thought: ...`` / ``Action: ...``) and ``text``.

``react``: the thought is what stands before the first ``Action:`` label (any case, ``Act:``, ``Action 2:``), and each
label has one action: ``name[argument]`` with everything between the brackets verbatim, ``name(...)`` as the dialect
``function`` reads it or else with what stands between the brackets, or plain text (``go to desk 1``), which is the call
``text``. A response that goes on with ``Observation:`` or ``Thought:`` after its action invented what the environment
said: it is unreadable, and so is a line that begins like a call and is none. Without any label, only a text that is a
call is read.

``text``: the whole response is the action, as in searches over steps of reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import ArmError
from . import function, literals
from .dialect import Dialect, Scan
from .model import Call, UnreadableError

# Possessive (++, *+): each character is looked at once.
_LABEL = re.compile(r"^[^\S\n]*+(thought|think|action|act|observation)(?:[^\S\n]++\d++)?+[^\S\n]*+:", re.I | re.M)
_NAME = re.compile(r"[^\W\d][\w.-]*+(?=[\[(])")
_CLOSING = {"[": "]", "(": ")"}
_STOPS = frozenset({"finish", "answer"})  # name[answer] that ends the episode
_VERBS = {"click": "click", **dict.fromkeys(_STOPS, "stop")}
_TEXT = "text"  # the name of a call that is plain text


def scan(tail: str) -> Scan:
    """Reads all actions of ``tail``; the text before the first is its thought."""
    labels = list(_LABEL.finditer(tail))
    begin = next((n for n, label in enumerate(labels) if label[1].lower().startswith("act")), None)
    if begin is None:
        if labels or not (calls := _written(tail.strip())):
            raise UnreadableError("no action")
        return Scan(tuple(calls), tail.strip(), [(0, len(tail))])
    calls, bodies, spans = [], [], []
    ends = [label.start() for label in labels[begin + 1 :]] + [len(tail)]
    for label, end in zip(labels[begin:], ends, strict=True):
        if not label[1].lower().startswith("act"):
            raise UnreadableError(f"goes on with {label[1]} after its action")
        body = tail[label.end() : end].strip()
        if not body:
            raise UnreadableError("the action is empty")
        calls += _written(body) or [Call(_TEXT, "other", {"text": body})]
        bodies.append(body)
        spans.append((label.start(), end))
    thought = _LABEL.sub("", tail[: labels[begin].start()], count=1).strip()
    return Scan(tuple(calls), "\n".join(bodies), spans, thought or None)


def _written(body: str) -> list[Call]:
    """The calls that make up ``body``, one a line or one in all; none where it is plain text."""
    lines = [line for line in map(str.strip, body.split("\n")) if line]
    if len(lines) > 1 and all(_argument(line) is not None for line in lines):
        return [_call(line) for line in lines]
    if _argument(body) is not None:
        return [_call(body)]
    if len(lines) == 1 and (name := _NAME.match(body)):
        raise UnreadableError(f"{name.group()}: the brackets hold no single argument, or the call was cut off")
    return []


def _argument(line: str) -> str | None:
    """What stands between the brackets of ``name[...]`` or ``name(...)``; None for any other text."""
    name = _NAME.match(line)
    if name is None or not line.endswith(_CLOSING[line[name.end()]]):
        return None
    opening, inside = line[name.end()], line[name.end() + 1 : -1]
    depth = 0
    for bracket in re.findall(r"[\[\]]" if opening == "[" else r"[()]", inside):
        depth += 1 if bracket == opening else -1
        if depth < 0:
            break
    # A bracket in a string literal needs no partner.
    return inside if depth == 0 or (opening == "(" and _literal(line) is not None) else None


def _literal(line: str) -> tuple[str, list[Any], dict[str, Any]] | None:
    """Name and arguments of a call with literal arguments that is all of ``line``."""
    try:
        name, positional, keywords, after = literals.call(line, 0)
    except UnreadableError:
        return None
    return (name, positional, keywords) if after == len(line) else None


def _call(line: str) -> Call:
    inside = _argument(line)
    assert inside is not None
    name = line[: len(line) - len(inside) - 2]
    if line[len(name)] == "(" and (name in function.TOOLS or _literal(line) is not None):
        if (found := _literal(line)) is None:
            literals.call(line, 0)
            raise UnreadableError(f"{name}: text after the call")
        return function.call_of(*found)
    verb = _VERBS.get(name.lower(), "other")
    return Call(name, verb, {"answer" if verb == "stop" else "argument": inside})


def render(calls: Sequence[Call]) -> str:
    """One ``Action:`` per call."""
    text = "\n".join(f"Action: {_line(call)}" for call in calls)
    try:
        if [_said(call) for call in scan(text).calls] == [_said(call) for call in calls]:
            return text
    except UnreadableError:
        pass
    raise _no_words("react", *calls)


def _said(call: Call) -> tuple[str, Any]:
    return call.verb, dict(call.arguments)


def _line(call: Call) -> str:
    given = dict(call.arguments)
    if call.name == _TEXT and set(given) == {"text"}:
        return str(given["text"])
    if set(given) == {"argument"} or (call.name.lower() in _STOPS and set(given) == {"answer"}):
        return f"{call.name}[{next(iter(given.values()))}]"
    try:
        return function.line(call)
    except ArmError as error:
        raise _no_words("react", call) from error


def _no_words(dialect: str, *calls: Call) -> ArmError:
    said = "; ".join(f"{call.name}({', '.join(call.arguments)})" for call in calls)
    return ArmError(f"the dialect {dialect} has no words for {said}")


def scan_text(tail: str) -> Scan:
    """All of ``tail`` as one call. No span: a ``</think>`` in it ends the thought."""
    text = tail.strip()
    if not text:
        raise UnreadableError("no action")
    return Scan((Call(_TEXT, "other", {"text": text}),), text, [])


def render_text(calls: Sequence[Call]) -> str:
    """The text of the one call that there can be."""
    if len(calls) != 1 or calls[0].name != _TEXT or set(calls[0].arguments) != {"text"}:
        raise _no_words("text", *calls)
    return str(calls[0].arguments["text"])


REACT = Dialect("", "", scan, render)
TEXT = Dialect("", "", scan_text, render_text)
