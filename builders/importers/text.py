"""Facts that stand in the text of a conversation: the task, the address, calls written out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from ...schemas import jsonl
from ...schemas.ids import canonical_json

_REQUEST = ("<user_request>", "</user_request>")
_URL = re.compile(r"\b(?:Active tab|Current URL|URL)\s*:\s*(https?://[^\s<>\"']+|about:[a-z]+)", re.I)
# Lines that frame a task in known agents' first message; they are not part of the task. Empty lines before them are
# looked for backwards: a pattern that began with them would begin at each of them anew.
_FRAME = re.compile(r"^[^\S\n]*+(?:Step\s+\d+\.?(?:\s*URL:.*)?|(?:Active tab|Current URL|URL)\s*:.*)\s*$", re.I | re.M)
_TOOLS = ("<tools>\n", "\n</tools>")
_TASK_LABEL = re.compile(r"^\s*(?:Task|Goal|Instruction)\s*:\s*", re.I)


def requested_task(text: str) -> str | None:
    """The last ``<user_request>`` of a text, stripped; None without one."""
    found = list(_between(text, *_REQUEST))
    return found[-1].strip() or None if found else None


def framed_task(first_user_text: str) -> str | None:
    """The first user text without its step and address lines and a leading ``Task:``; None if nothing is left."""
    text = _without_frames(first_user_text).strip()
    return _TASK_LABEL.sub("", text).strip() or None


def newest_url(texts: list[str]) -> str | None:
    """The last address announced (``URL: ...``, ``Active tab: ...``) in the newest text that announces one."""
    for text in reversed(texts):
        if found := _URL.findall(text):
            return str(found[-1])
    return None


def host_of(url: str | None) -> str | None:
    """Lower-case host of an address; None when it has none or cannot be read."""
    try:
        return urlsplit(url).hostname if url else None
    except ValueError:
        return None


def listed_tools(prompt: str) -> str | None:
    """The tools between the ``<tools>`` tags of a rendered prompt, one a line, as a JSON list; None without them."""
    block = next(_between(prompt, *_TOOLS), None)
    return None if block is None else _json_lines(block)


def _between(text: str, opener: str, closer: str) -> Iterator[str]:
    """What stands between each opener and the next closer, in time linear in the text."""
    at = 0
    while (start := text.find(opener, at)) >= 0 and (end := text.find(closer, start + len(opener))) >= 0:
        yield text[start + len(opener) : end]
        at = end + len(closer)


def _without_frames(text: str) -> str:
    """``text`` without its frame lines and the empty lines around each."""
    parts, end = [], 0
    for frame in _FRAME.finditer(text):
        head = text[end : frame.start()]
        kept = len(head.rstrip())
        if kept or (end and text[end - 1] != "\n"):  # the line before ends with the next line feed
            kept = head.find("\n", kept) + 1 or len(head)
        parts.append(head[:kept])
        end = frame.end()
    return "".join([*parts, text[end:]])


@lru_cache(maxsize=64)  # an agent's tools are the same in all its states
def _json_lines(block: str) -> str | None:
    """None when a line is not JSON."""
    try:
        return canonical_json([jsonl.loads(line.encode()) for line in block.split("\n") if line.strip()])
    except ValueError:
        return None


def written_calls(content: str, tool_calls: list[dict[str, Any]] | None) -> str:
    """The response of an assistant turn as text: its content, then each structured call in a ``<tool_call>`` block."""
    parts = [content] if content else []
    for call in tool_calls or ():
        function = call["function"]
        arguments = function["arguments"]
        if isinstance(arguments, str):
            # Text that is no JSON stays the text it is: the dialect reports it as the turn's parse error.
            with suppress(jsonl.JsonError):
                arguments = jsonl.loads(arguments.encode())
        body = canonical_json({"name": function["name"], "arguments": arguments})
        parts.append(f"<tool_call>\n{body}\n</tool_call>")
    return "\n".join(parts)
