"""Chat messages of ready-made rows, as our tables have them: blocks, pictures apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...schemas.errors import ArmError
from .pictures import read_picture

MARKER = "<image>"  # stands for a picture in the text of the files that LLaMA-Factory reads
Message = dict[str, Any]


def message(role: str, text: str, where: str) -> Message:
    """One message of text in which each marker is a picture. Raises ArmError for a message without content."""
    pieces: list[dict[str, str]] = []
    for number, part in enumerate(text.split(MARKER)):
        pieces += [{"type": "image"}] if number else []
        pieces += [{"type": "text", "text": part}] if part else []
    if not pieces:
        raise ArmError("is empty", where=where)
    return {"role": role, "content": pieces}


def text_of(messages: Sequence[Message]) -> str:
    """All text of some messages."""
    return "\n".join(block["text"] for m in messages for block in m["content"] if block["type"] == "text")


def count_pictures(messages: Sequence[Message]) -> int:
    return sum(block["type"] == "image" for m in messages for block in m["content"])


def without_nulls(messages: Sequence[Message]) -> list[Message]:
    """The messages with only those keys in a block that it needs: Parquet fills the others with null."""
    return [
        {"role": m["role"], "content": [{k: v for k, v in block.items() if v is not None} for block in m["content"]]}
        for m in messages
    ]


def pictures(messages: Sequence[Message], references: Sequence[str], folder: Path) -> tuple[bytes, ...]:
    """The pictures of a prompt. Raises ArmError when there are more or fewer than the prompt shows, or one is bad."""
    shown = count_pictures(messages)
    if shown != len(references):
        raise ArmError(f"has {len(references)} pictures, and the prompt has {MARKER} {shown} times", where="$.images")
    found = []
    for number, reference in enumerate(references):
        try:
            found.append(read_picture(reference, folder))
        except ArmError as error:
            error.where = f"$.images[{number}]"
            raise
    return tuple(found)
