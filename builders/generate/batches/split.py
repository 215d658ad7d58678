"""How many requests one batch file takes: by their number, their bytes, and the prompt tokens that may be enqueued."""

from __future__ import annotations

import math
from typing import Literal

from ....servers.endpoints import BatchLimits
from ....servers.requests import Request

Limit = Literal["requests", "bytes", "tokens"]
_BYTES_PER_TOKEN = 3  # of UTF-8: English has 4 to 5, JSON and code about 3
_PICTURE_TOKENS = 1_500  # where no price says how a server counts one
_ADDED_TOKENS = 64  # by the chat template


def prompt_tokens(request: Request, image_tokens: int | None) -> int:
    """About how many tokens a server counts the prompt as."""
    blocks = [message["content"] for message in request.body["messages"]]
    texts: list[str] = [block for block in blocks if isinstance(block, str)]
    inner = [part for block in blocks if not isinstance(block, str) for part in block]
    texts += [part["text"] for part in inner if part["type"] == "text"]
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    pictures: int = sum(part["type"] == "image_url" for part in inner)
    each = _PICTURE_TOKENS if image_tokens is None else image_tokens
    return math.ceil(size / _BYTES_PER_TOKEN) + pictures * each + _ADDED_TOKENS


class Part:
    """What one file takes. tokens_left: that may still be enqueued; None: any number."""

    def __init__(self, limits: BatchLimits, tokens_left: int | None = None) -> None:
        self._limits, self._tokens_left = limits, tokens_left
        self.requests = self.bytes = self.tokens = 0

    def full(self, size: int, tokens: int) -> Limit | None:
        """The limit that one more request, of ``size`` bytes with its line end, would pass; None when it fits."""
        if self._tokens_left is not None and self.tokens + tokens > self._tokens_left:
            return "tokens"  # first: another file would not help
        if self.requests + 1 > self._limits.requests:
            return "requests"
        return "bytes" if self.bytes + size > self._limits.bytes else None

    def add(self, size: int, tokens: int) -> None:
        assert self.full(size, tokens) is None
        self.requests, self.bytes, self.tokens = self.requests + 1, self.bytes + size, self.tokens + tokens


def too_large(limits: BatchLimits, size: int, tokens: int) -> str | None:
    """Why no batch takes a request, however empty it is; None when one does."""
    if size > limits.bytes:
        return f"it has {size:,} bytes, and a batch file takes {limits.bytes:,}"
    if limits.tokens is not None and tokens > limits.tokens:
        return f"it has about {tokens:,} prompt tokens, and {limits.tokens:,} may be enqueued"
    return None
