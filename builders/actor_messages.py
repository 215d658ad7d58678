"""The actor's own prompt of a state, as chat messages: what a response was an answer to.

All text is kept and only the current screenshot, which is how the actors of the field see a page. Tool turns become
user turns, structured calls are written out as responses write them, and recorded tools stand in the system turn, one
JSON object a line between ``<tools>`` tags.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from ..prompts.escape import escape_tokens
from ..prompts.view import Unrenderable
from ..schemas.actions.dialect import without_end_of_turn
from ..schemas.ids import canonical_json
from .importers.text import written_calls
from .ledger import Row

Message = dict[str, Any]
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>|\Z)", re.S)
_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
_ROLES = {"system": "system", "user": "user", "tool": "user", "assistant": "assistant"}


def actor_prompt(state: Row) -> tuple[list[Message], list[str]]:
    """Return (messages, sha256 of their pictures) of a ``states`` row; there is one picture or none.

    Raises Unrenderable (``no_messages``) for a state that records neither messages nor a rendered prompt, or whose
    messages have no place for its screenshot.
    """
    if state["messages_json"] is not None:
        turns = [_recorded(message) for message in orjson.loads(state["messages_json"])]
        if state["tools_json"] is not None:
            turns = _with_tools(turns, orjson.loads(state["tools_json"]))
    elif state["prompt_text"] is not None:
        turns = _rendered(state["prompt_text"])
    else:
        raise Unrenderable("no_messages", "the state records neither messages nor a rendered prompt")
    if not turns:
        raise Unrenderable("no_messages", "the state's prompt holds no messages")
    sha256 = state["screenshot_sha256"]
    places = [(t, p) for t, (_, parts) in enumerate(turns) for p, part in enumerate(parts) if part is None]
    if sha256 is not None and not places:
        raise Unrenderable("no_messages", "the state's messages have no place for its screenshot")
    current = places[-1] if sha256 is not None else None
    messages = []
    for t, (role, parts) in enumerate(turns):
        content = _blocks([part for p, part in enumerate(parts) if part is not None or (t, p) == current])
        if content:
            messages.append({"role": role, "content": content})
    return messages, [sha256] if sha256 is not None else []


def completion(response: str) -> list[Message]:
    """A response as the actor's turn: verbatim but for the token that ends it, which every template writes itself."""
    text = escape_tokens(without_end_of_turn(response))
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


Turn = tuple[str, list[str | None]]  # role; texts, None for a picture


def _recorded(message: Message) -> Turn:
    content = message.get("content")
    parts: list[str | None] = [content] if isinstance(content, str) and content else []
    if isinstance(content, list):
        parts = [part["text"] if part["type"] == "text" else None for part in content]
    if message.get("tool_calls"):
        texts = [part for part in parts if part is not None]
        parts = [written_calls("\n".join(texts), message["tool_calls"])]
    return _ROLES.get(message["role"], "user"), parts


def _rendered(prompt: str) -> list[Turn]:
    """The turns of a rendered template; an assistant turn that was opened for the response is none."""
    found = _TURN.findall(prompt)
    if found and found[-1][0] == "assistant" and not prompt.rstrip().endswith("<|im_end|>"):
        found = found[:-1]
    turns: list[Turn] = []
    for role, body in found:
        parts: list[str | None] = []
        for number, text in enumerate(body.strip("\n").split(_PICTURE)):
            parts += [None] if number else []
            parts += [text] if text else []
        turns.append((_ROLES.get(role, "user"), parts))
    return turns


def _with_tools(turns: list[Turn], tools: list[Any]) -> list[Turn]:
    lines = "\n".join(canonical_json(tool) for tool in tools)
    block = f"# Tools\n\n<tools>\n{lines}\n</tools>"
    if turns and turns[0][0] == "system":
        return [("system", [*turns[0][1], block]), *turns[1:]]
    return [("system", [block]), *turns]


def _blocks(parts: list[str | None]) -> list[dict[str, Any]]:
    """Neighbouring texts become one block, as templates write them."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if part is None:
            blocks.append({"type": "image"})
        elif blocks and blocks[-1]["type"] == "text":
            blocks[-1]["text"] += f"\n{escape_tokens(part)}"
        elif part:
            blocks.append({"type": "text", "text": escape_tokens(part)})
    return blocks
