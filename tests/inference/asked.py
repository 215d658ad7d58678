"""States, candidates and pictures to ask about."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from action_reward_models.prompts.options import PromptOptions
from action_reward_models.prompts.render import Prompt, load_prompt

CANDIDATES = (
    "<think>it is red</think><action>click(3, 4)</action>",
    "<action>click(30, 40)</action>",
    {"action": 'type(1, 2, "a")', "thought": "write first"},
    {"response": "click(3, 4)"},  # the first one's action again
)


def png(width: int = 6, height: int = 4, shade: int = 0) -> bytes:
    """A grey picture."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compress((b"\0" + bytes([shade]) * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def state(**more: Any) -> dict[str, Any]:
    return {"task": "Click the red button", "screenshot": url(png()), **more}


def asked(**more: Any) -> dict[str, Any]:
    """A `pick_request/1` in no way of its own."""
    return {"state": state(), "candidates": list(CANDIDATES), **more}


def prompt(kind: str = "selection", **options: Any) -> Prompt:
    return load_prompt(f"{kind}/1", PromptOptions(**options))


def contract(kind: str = "selection_arm", *ways: tuple[str, str | None], **more: Any) -> Mapping[str, Any]:
    """As much of a manifest's ``checkpoint`` as choosing looks at. ways: what its data was written in."""
    own = prompt("scalar" if kind == "scalar" else "selection")
    spoken = [{"dialect": dialect, "space": space} for dialect, space in ways or (("function", "pixel"),)]
    return {
        "kind": kind,
        "prompt": {"id": own.id, "sha256": own.sha256, "file": "prompts/own.json"},
        "candidates": {"spoken": spoken, "merge": True, "shuffle": True},
        "processor": {"template_options": {}},
        **more,
    }
