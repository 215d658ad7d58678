"""One request to a model: its body, its pictures, and a key made of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import orjson

from ..prompts.render import Message
from ..schemas.ids import canonical_json, sha256_hex
from ..schemas.images import data_url

ResponseFormat = Literal["none", "json_object", "json_schema"]
LimitParameter = Literal["max_tokens", "max_completion_tokens"]  # as a server calls the longest reply
URL = "/v1/chat/completions"
_REFERENCE = "sha256:"


@dataclass(frozen=True)
class Request:
    """A chat completion to ask for.

    slot: what it is for (a candidate of a set, a repeat of a question); two slots may ask the same.
    group: the state it is about; requests of one group stand in one shard of the log.
    body: of the request; pictures stand in it as ``sha256:<hex>``, so that its hash does not depend on an encoding.
    pictures: hex digest -> bytes, of those that the body names.
    """

    slot: str
    group: str
    body: Mapping[str, Any]
    pictures: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def key(self) -> str:
        """64 hex digits from slot and body: the id in logs, ledgers and batch files, equal on every machine."""
        return sha256_hex(canonical_json([self.slot, self.body]))

    def wire(self) -> dict[str, Any]:
        """The body as it is sent: pictures as data URLs of their very bytes."""
        return {**self.body, "messages": [self._sent(message) for message in self.body["messages"]]}

    def _sent(self, message: Mapping[str, Any]) -> dict[str, Any]:
        content = message["content"]
        if isinstance(content, str):
            return dict(message)
        return {**message, "content": [self._block(block) for block in content]}

    def _block(self, block: Mapping[str, Any]) -> Mapping[str, Any]:
        if block["type"] != "image_url":
            return block
        picture = self.pictures[block["image_url"]["url"].removeprefix(_REFERENCE)]
        return {"type": "image_url", "image_url": {"url": data_url(picture)}}


def encoded(data: Mapping[str, Any]) -> bytes:
    """What is sent, as JSON in one line."""
    try:
        return orjson.dumps(data)
    except TypeError:  # half a surrogate pair in a page's text, an integer of more than 64 bits
        return json.dumps(data, separators=(",", ":")).encode()


def chat(messages: Sequence[Message], images: Sequence[str]) -> list[dict[str, Any]]:
    """Rendered messages as an OpenAI-compatible server takes them; the n-th image block is the n-th digest.

    A turn of one text is that text: templates of text-only models know no blocks.
    """
    left = iter(images)
    turns = []
    for message in messages:
        blocks = message["content"]
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            turns.append({"role": message["role"], "content": blocks[0]["text"]})
            continue
        content = [
            {"type": "text", "text": block["text"]}
            if block["type"] == "text"
            else {"type": "image_url", "image_url": {"url": f"{_REFERENCE}{next(left)}"}}
            for block in blocks
        ]
        turns.append({"role": message["role"], "content": content})
    return turns


def selection_form(form: ResponseFormat, shown: int, *, reasoning: bool) -> dict[str, Any] | None:
    """The ``response_format`` that holds a reply to a selection out of ``shown`` candidates; None sends none. Reasoning
    comes before the verdict it is for."""
    if form != "json_schema":
        return None if form == "none" else {"type": form}
    properties: dict[str, Any] = {"reasoning": {"type": "string"}} if reasoning else {}
    properties["selection"] = {"type": "integer", "enum": list(range(1, shown + 1))}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "selection", "strict": True, "schema": schema}}
