"""The actor's own prompt of a state, as chat messages: what a response was an answer to.

All text is kept and only the current screenshot, which is how the actors of the field see a page; more of the newest
ones, or none, are shown where they are asked for. Tool turns become user turns, structured calls are written out as
responses write them, and recorded tools stand in the system turn, one JSON object a line between ``<tools>`` tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

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


class Picture(NamedTuple):
    """A place of a picture in a turn. ``sha256``: of the bytes that the source recorded; None where it does not say."""

    sha256: str | None


def actor_prompt(
    state: Row, screenshots: int = 1, stored: Callable[[str], str | None] = lambda recorded: None
) -> tuple[list[Message], list[str]]:
    """Return (messages, sha256 of their pictures in order) of a ``states`` row.

    screenshots: how many of the newest pictures are shown; the newest of all is the state's own.
    stored: the digest by which an earlier picture is kept, from the one that the messages name; None if it is not.

    Raises Unrenderable: ``no_messages`` for a state that records neither messages nor a rendered prompt, or whose
    messages have no place for its screenshot; ``no_picture`` when an earlier picture that is to be shown cannot be had.
    """
    turns = _turns(state)
    sha256 = state["screenshot_sha256"]
    places = [(t, p) for t, (_, parts) in enumerate(turns) for p, part in enumerate(parts) if isinstance(part, Picture)]
    if sha256 is None or not screenshots:
        places = []
    elif not places:
        raise Unrenderable("no_messages", "the state's messages have no place for its screenshot")
    shown = places[-screenshots:]
    images = [_earlier(turns[t][1][p], stored) for t, p in shown[:-1]] + ([sha256] if shown else [])
    messages = []
    for t, (role, parts) in enumerate(turns):
        content = _blocks([part for p, part in enumerate(parts) if isinstance(part, str) or (t, p) in shown])
        if content:
            messages.append({"role": role, "content": content})
    return messages, images


def newest_picture(state: Row) -> str | None:
    """The digest by which the state's messages name its own screenshot, which is not that of bytes that were changed;
    None where they do not say."""
    if state["messages_json"] is None:
        return None
    pictures = [part for _, parts in _turns(state) for part in parts if isinstance(part, Picture)]
    return pictures[-1].sha256 if pictures else None


def completion(response: str) -> list[Message]:
    """A response as the actor's turn: verbatim but for the token that ends it, which every template writes itself."""
    text = escape_tokens(without_end_of_turn(response))
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


Part = str | Picture
Turn = tuple[str, list[Part]]  # role; what it holds


def _turns(state: Row) -> list[Turn]:
    """Raises Unrenderable (``no_messages``) for a state that has none."""
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
    return turns


def _earlier(part: Part, stored: Callable[[str], str | None]) -> str:
    assert isinstance(part, Picture)
    if part.sha256 is None:
        raise Unrenderable("no_picture", "a rendered prompt does not say which its earlier pictures are")
    found = stored(part.sha256)
    if found is None:
        raise Unrenderable("no_picture", f"the earlier picture {part.sha256[:12]} is the screenshot of no state")
    return found


def _recorded(message: Message) -> Turn:
    content = message.get("content")
    parts: list[Part] = [content] if isinstance(content, str) and content else []
    if isinstance(content, list):
        parts = [part["text"] if part["type"] == "text" else _named(part) for part in content]
    if message.get("tool_calls"):
        texts = [part for part in parts if isinstance(part, str)]
        parts = [written_calls("\n".join(texts), message["tool_calls"])]
    return _ROLES.get(message["role"], "user"), parts


def _named(part: Message) -> Picture:
    url = (part.get("image_url") or {}).get("url")
    return Picture(url.removeprefix("sha256:") if isinstance(url, str) else None)


def _rendered(prompt: str) -> list[Turn]:
    """The turns of a rendered template; an assistant turn that was opened for the response is none."""
    found = _TURN.findall(prompt)
    if found and found[-1][0] == "assistant" and not prompt.rstrip().endswith("<|im_end|>"):
        found = found[:-1]
    turns: list[Turn] = []
    for role, body in found:
        parts: list[Part] = []
        for number, text in enumerate(body.strip("\n").split(_PICTURE)):
            parts += [Picture(None)] if number else []
            parts += [text] if text else []
        turns.append((_ROLES.get(role, "user"), parts))
    return turns


def _with_tools(turns: list[Turn], tools: list[Any]) -> list[Turn]:
    lines = "\n".join(canonical_json(tool) for tool in tools)
    block = f"# Tools\n\n<tools>\n{lines}\n</tools>"
    if turns and turns[0][0] == "system":
        return [("system", [*turns[0][1], block]), *turns[1:]]
    return [("system", [block]), *turns]


def _blocks(parts: list[Part]) -> list[dict[str, Any]]:
    """Neighbouring texts become one block, as templates write them."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Picture):
            blocks.append({"type": "image"})
        elif blocks and blocks[-1]["type"] == "text":
            blocks[-1]["text"] += f"\n{escape_tokens(part)}"
        elif part:
            blocks.append({"type": "text", "text": escape_tokens(part)})
    return blocks
