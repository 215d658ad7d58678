"""Identities from content: canonical JSON, hashes, the task group."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def sha256_hex(data: bytes | str) -> str:
    """Lower-case hexadecimal SHA-256 of bytes, or of text in UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def file_sha256(path: Path) -> str:
    """The same of a file's bytes, which are not held in memory. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys and no spaces; integers keep every digit; NaN and infinities raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def task_group(task: str | None, episode_id: str) -> str:
    """The unit of the split: a hash of the task's words, so that case, width, spaces and punctuation do not matter.

    An episode without task text is a group of its own. A task without any word (only symbols) counts as its symbols.
    """
    words = task_words(task or "")
    return sha256_hex(f"task\n{words}" if words else f"episode\n{episode_id}")


def task_words(task: str) -> str:
    """What tells tasks apart: the words, folded and one space between them; without any word, the symbols."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", task).casefold())
    return " ".join("".join(map(_word_character, text)).split()) or "".join(text.split())


def _word_character(character: str) -> str:
    """A letter, digit, underscore or mark as it is, nothing for what cannot be seen, a space for all else."""
    if character.isalnum() or character == "_":
        return character
    match unicodedata.category(character):
        case "Cf":  # soft hyphen, zero-width joiners, direction marks
            return ""
        case "Mn" | "Mc" if not "\ufe00" <= character <= "\ufe0f":  # vowel signs; variation selectors are invisible
            return character
        case "Mn":
            return ""
    return " "


def heads(row_id: str) -> Iterator[str]:
    """An id and all that it can start with, the longest first: ids of what is made of something begin with its id and
    a bar, and a recorded id may hold bars of its own."""
    end = len(row_id)
    while end >= 0:
        yield row_id[:end]
        end = row_id.rfind("|", 0, end)


def hash_order(*parts: object) -> bytes:
    """A sort key that looks random but depends on the given parts only, never on their order in a file."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
