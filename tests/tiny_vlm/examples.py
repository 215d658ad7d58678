"""What the tiny model is trained on: the turns of the bundled example, as its agent saw and wrote them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

ROOT = Path(__file__).parents[2]
DATA = ROOT / "examples" / "miniwob" / "data"
TEMPLATE = ROOT / "prompts" / "templates" / "selection-1.yaml"


@dataclass(frozen=True)
class Turn:
    """messages: blocks of text, and of one picture in the last one. replies: what was written and what could be."""

    messages: list[dict[str, Any]]
    png: bytes
    replies: tuple[str, ...]

    @property
    def texts(self) -> list[dict[str, Any]]:
        """``messages`` without the picture, each one text."""
        blocks = [[block for block in message["content"] if block["type"] == "text"] for message in self.messages]
        return [
            {"role": message["role"], "content": "".join(block["text"] for block in shown)}
            for message, shown in zip(self.messages, blocks, strict=True)
        ]

    @property
    def screenshot(self) -> Image.Image:
        return Image.open(io.BytesIO(self.png)).convert("RGB")


def turns() -> list[Turn]:
    """Every turn with recorded candidates."""
    candidates = {}
    for line in (DATA / "candidates.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        candidates[row["base_state_id"]] = row["candidates"]
    found = []
    for line in (DATA / "episodes.jsonl").read_text("utf-8").splitlines():
        episode = json.loads(line)
        for turn, (before, png, reply) in enumerate(_cut(episode["messages"])):
            if other := candidates.get(f"{episode['episode_id']}__t{turn}"):
                found.append(Turn(before, png, (reply, *other)))
    return found


def asked() -> str:
    """The last words of the prompt selection/1 over five candidates, which are answered by ``{"selection": N}``."""
    answer: str = yaml.safe_load(TEMPLATE.read_text("utf-8"))["fragments"]["answer"]
    return answer.replace("{{count}}", "5")


def texts() -> list[str]:
    """Everything said in the example, for a tokenizer."""
    said = [asked(), '{"selection": 1}']
    for turn in turns():
        blocks = [block for message in turn.messages for block in message["content"]]
        said += [block["text"] for block in blocks if block["type"] == "text"]
        said += turn.replies
    return said


def _cut(messages: list[dict[str, Any]]) -> Iterator[tuple[list[dict[str, Any]], bytes, str]]:
    """(messages before with the newest picture alone, that picture, the reply) of every reply."""
    before: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "assistant":
            blocks = before[-1]["content"]
            (url,) = (block["image_url"]["url"] for block in blocks if block["type"] == "image_url")
            png = base64.b64decode(url.partition(",")[2])
            last = [block if block["type"] == "text" else {"type": "image"} for block in blocks]
            yield [*map(_text, before[:-1]), {**before[-1], "content": last}], png, message["content"]
        before.append(message)


def _text(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {"role": message["role"], "content": [{"type": "text", "text": content}]}
    return {"role": message["role"], "content": [block for block in content if block["type"] == "text"]}
