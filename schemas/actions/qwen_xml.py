"""Dialect ``qwen_xml``: calls as Qwen3-Coder and Qwen3.5 write them, with the tools of ``openwebrl``.

    <tool_call>
    <function=click>
    <parameter=point_2d>
    [884, 925]
    </parameter>
    </function>
    </tool_call>

The chat template writes a text as it is and anything else as JSON, each with a line break before and after. So a
parameter that is a text (what is typed, an address, an answer) is read verbatim; any other is read as JSON where it
is JSON and no JSON string, else as text. The outer tags may be missing.

Nothing is escaped in this form. A text that holds one of its tags cannot be told from the end of the text, so such a
response is unreadable; only a text that holds a whole, well-formed end of its own call reads as what it forges, as
it would for the actor's own server.

An action has the key that it has in ``openwebrl``: a server may turn this form into structured calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..errors import ArmError
from .arguments import UNKNOWN, keys, text
from .canonical import json_value
from .dialect import Dialect, Scan
from .model import Call, UnreadableError
from .openwebrl import CLOSER, OPENER, TOOLS, call_of, canonical_name, decode, plain

FUNCTION = "<function="
_BEGIN = re.compile(r"<tool_call>|<function=")
_FUNCTION = re.compile(r"<function=([^<>\s]+)>")
_PARAMETER = re.compile(r"<parameter=([^<>\s]+)>")
_TAG = re.compile(r"</?tool_call>|<(?:function|parameter)=|</(?:function|parameter)>")
_SPACE = re.compile(r"\s*+")


def scan(tail: str) -> Scan:
    """Reads every ``<function=...>`` of ``tail``; prose between calls is skipped, but no tag in it."""
    calls: list[Call] = []
    bodies: list[str] = []
    spans: list[tuple[int, int]] = []
    begin = _next(tail, 0, 0)
    while begin >= 0:
        at = _skip(tail, begin + len(OPENER)) if tail.startswith(OPENER, begin) else begin
        try:
            call, end = _call(tail, at)
        except UnreadableError as error:
            raise UnreadableError(f"call {len(calls) + 1}: {error}") from None
        calls.append(call)
        bodies.append(tail[at:end])
        after = _skip(tail, end)
        after = after + len(CLOSER) if tail.startswith(CLOSER, after) else end
        spans.append((begin, after))
        begin = _next(tail, after, len(calls))
    if not calls:
        raise UnreadableError("no action")
    return Scan(tuple(calls), "\n".join(bodies), spans)


def _next(tail: str, at: int, count: int) -> int:
    """Where the next call starts, or -1. A tag that belongs to no call is the rest of a call that was split."""
    tag = _TAG.search(tail, at)
    if tag is None:
        return -1
    if not _BEGIN.match(tail, tag.start()):
        raise UnreadableError(f"{tag.group()} stands outside of a call, after call {count}")
    return tag.start()


def _call(tail: str, at: int) -> tuple[Call, int]:
    """The call whose ``<function=`` stands at ``at``, and the offset after its closing tag."""
    head = _FUNCTION.match(tail, at)
    if head is None:
        raise UnreadableError("no <function=name> after <tool_call>")
    name = head[1]
    tool = TOOLS.get(name, UNKNOWN)
    given: dict[str, Any] = {}
    at = _skip(tail, head.end())
    try:
        while not tail.startswith("</function>", at):
            parameter = _PARAMETER.match(tail, at)
            if parameter is None:
                raise UnreadableError("cut off" if at == len(tail) else f"no parameter at character {at}")
            key = parameter[1]
            if key in given:
                raise UnreadableError(f"{key} is given twice")
            end = _end(tail, parameter.end(), key)
            raw = tail[parameter.end() : end].removeprefix("\n").removesuffix("\n")
            given[key] = _value(raw, tool.params.get(canonical_name(tool, key)), key)
            at = _skip(tail, end + len("</parameter>"))
    except UnreadableError as error:
        raise UnreadableError(f"{name}: {error}") from None
    return call_of(name, given), at + len("</function>")


def _end(tail: str, at: int, key: str) -> int:
    """Where the text of a parameter ends: at its closing tag, if that is the only one it can be."""
    tag = _TAG.search(tail, at)
    if tag is None:
        raise UnreadableError(f"{key} is cut off")
    after = _skip(tail, tag.end())
    if tag.group() != "</parameter>" or not tail.startswith(("<parameter=", "</function>"), after):
        cut = tag.group() == "</parameter>" and after == len(tail)
        raise UnreadableError("cut off" if cut else f"{key} holds the tag {tag.group()} and has no certain end")
    return tag.start()


def _value(raw: str, reader: Any, key: str) -> Any:
    if reader is text or (reader is keys and not raw.lstrip().startswith("[")):
        return raw
    try:
        value, end = decode(raw, _skip(raw, 0))
        # A JSON string stays as written: quotation marks may be meant.
        return raw if _skip(raw, end) < len(raw) or type(value) is str else value
    except UnreadableError as error:
        if str(error) in ("nested too deeply", "a number is too long"):
            raise UnreadableError(f"{key}: {error}") from None
        return raw


def _skip(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return match.end() if match else at


def render(calls: Sequence[Call]) -> str:
    """One ``<tool_call>`` block per call, in order."""
    return "\n".join(f"{OPENER}\n{_function(call)}\n{CLOSER}" for call in calls)


def _function(call: Call) -> str:
    written = plain(call, "qwen_xml")
    tool = TOOLS.get(written["name"], UNKNOWN)
    if not _FUNCTION.fullmatch(f"{FUNCTION}{written['name']}>"):
        raise ArmError(f"the dialect qwen_xml has no words for the name {call.name!r}")
    order = list(tool.params)  # then by name: the same call is always written alike
    arguments = sorted(
        written["arguments"].items(),
        key=lambda item: (*(name != canonical_name(tool, item[0]) for name in order), item[0]),
    )
    parameters = "".join(
        f"<parameter={key}>\n{_written(call, tool.params.get(canonical_name(tool, key)), key, value)}\n</parameter>\n"
        for key, value in arguments
    )
    return f"{FUNCTION}{written['name']}>\n{parameters}</function>"


def _written(call: Call, reader: Any, key: str, value: Any) -> str:
    """``value`` as a parameter's text; refused where it would be read as something else."""
    if reader is keys and len(value) == 1 and _value(value[0], keys, key) == value[0]:
        value = value[0]
    if type(value) is tuple:
        value = list(value)
    raw = value if type(value) is str else json.dumps(value, ensure_ascii=False)
    if (
        not _PARAMETER.fullmatch(f"<parameter={key}>")
        or _TAG.search(raw)
        or json_value(_value(raw, reader, key)) != json_value(value)
    ):
        raise ArmError(f"the dialect qwen_xml has no words for {key} of {call.name}")
    return raw


QWEN_XML = Dialect(OPENER, CLOSER, scan, render, bare_opener=FUNCTION)
