"""Identities from content: canonical JSON, hashes, the task group."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from typing import Any

_WORDS = re.compile(r"\w+")


def sha256_hex(data: bytes | str) -> str:
    """Lower-case hexadecimal SHA-256 of bytes, or of text in UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys and no spaces; integers keep every digit; NaN and infinities raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def task_group(task: str | None, episode_id: str) -> str:
    """The unit of the split: a hash of the task's words, so that case, width, spaces and punctuation do not matter.

    An episode without task text is a group of its own. A task without any word (only symbols) counts as its symbols.
    """
    if task is None:
        return sha256_hex(f"episode\n{episode_id}")
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", task).casefold())
    return sha256_hex("task\n" + (" ".join(_WORDS.findall(text)) or "".join(text.split())))


def hash_order(*parts: object) -> bytes:
    """A sort key that looks random but depends on the given parts only, never on their order in a file."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
