"""Facts that stand in the text of a conversation: the task, the address, calls written out."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ...schemas import jsonl
from ...schemas.ids import canonical_json

_REQUEST = re.compile(r"<user_request>(.*?)</user_request>", re.S)
_URL = re.compile(r"\b(?:Active tab|Current URL|URL)\s*:\s*(https?://[^\s<>\"']+|about:[a-z]+)", re.I)
# Lines that frame a task in known agents' first message; they are not part of the task.
_FRAME = re.compile(r"^\s*(?:Step\s+\d+\.?(?:\s*URL:.*)?|(?:Active tab|Current URL|URL)\s*:.*)\s*$", re.I | re.M)
_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.S)
_TASK_LABEL = re.compile(r"^\s*(?:Task|Goal|Instruction)\s*:\s*", re.I)


def requested_task(text: str) -> str | None:
    """The last ``<user_request>`` of a text, stripped; None without one."""
    found = _REQUEST.findall(text)
    return found[-1].strip() or None if found else None


def framed_task(first_user_text: str) -> str | None:
    """The first user text without its step and address lines and a leading ``Task:``; None if nothing is left."""
    text = _FRAME.sub("", first_user_text).strip()
    return _TASK_LABEL.sub("", text).strip() or None


def newest_url(texts: list[str]) -> str | None:
    """The last address announced (``URL: ...``, ``Active tab: ...``) in the newest text that announces one."""
    for text in reversed(texts):
        if found := _URL.findall(text):
            return str(found[-1])
    return None


def listed_tools(prompt: str) -> str | None:
    """The tools between the ``<tools>`` tags of a rendered prompt, one a line, as a JSON list; None without them."""
    block = _TOOLS.search(prompt)
    return _json_lines(block[1]) if block else None


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
