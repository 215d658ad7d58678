"""How a base model cuts a conversation into tokens, read from its folder: chat template, tokenizer, picture settings.

Only JSON is read and only the template is run, in a sandbox; nothing is imported from the folder and nothing fetched.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson

from ..schemas.errors import ArmError, UsageError
from ..schemas.ids import canonical_json, file_sha256, sha256_hex
from ..schemas.images import QWEN, QWEN_PICTURE
from .spec import TokenSpec

TOKENIZER = "tokenizer.json"
TEMPLATES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")  # the first that has one counts
FILES = (TOKENIZER, *TEMPLATES, "special_tokens_map.json", "preprocessor_config.json", "processor_config.json")
INSTALL = 'pip install "action-reward-models[tokens]"'
_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_KEPT = 512  # lengths of the newest texts: a prompt is counted once for all rows of its state


def files(folder: Path) -> list[Path]:
    """Its files that decide tokens; none of a folder without a tokenizer."""
    try:
        found = [path for name in sorted(set(FILES)) if (path := folder / name).is_file()]
    except OSError:  # the name is longer than any file's
        return []
    return found if folder / TOKENIZER in found else []


def digest(folder: Path) -> str | None:
    """sha256 over the files that decide tokens, by name; None for a folder without a tokenizer."""
    found = files(folder)
    return sha256_hex(canonical_json([[path.name, file_sha256(path)] for path in found])) if found else None


def packages(spec: TokenSpec | None) -> dict[str, str]:
    """Versions of what cuts tokens, if anything does."""
    return {name: metadata.version(name) for name in ("tokenizers", "jinja2")} if spec else {}


def load(spec: TokenSpec) -> Processor:
    """The declared processor, once a process. Raises UsageError without the extra, ArmError for what cannot be read or
    is no longer what was declared."""
    return _load(spec.folder, spec.sha256)


@lru_cache(maxsize=2)
def _load(folder: Path, sha256: str) -> Processor:
    if digest(folder) != sha256:
        raise ArmError(f"its files have changed: sha256 {sha256} was declared", where=str(folder))
    return Processor(folder)


class Processor:
    """Text, tokens and pictures of one base model."""

    def __init__(self, folder: Path) -> None:
        from .chat_template import ChatTemplate

        self._folder = folder
        config = _json(folder / "special_tokens_map.json") | _json(folder / "tokenizer_config.json")
        named = {n: t for n in _SPECIAL if isinstance(t := _content(config.get(n)), str)}
        self.template = ChatTemplate([folder / name for name in TEMPLATES], named)
        extra = config.get("extra_special_tokens")
        pictured = config.get("image_token") or (extra.get("image_token") if isinstance(extra, dict) else None)
        self.image_token = _content(pictured) or QWEN_PICTURE
        if not isinstance(self.image_token, str):
            raise ArmError("has an image_token that is no text", where=str(folder / "tokenizer_config.json"))
        self.tokenizer = Tokenizer(folder / TOKENIZER)
        self._pictures: Pictures | None = None

    def picture_tokens(self, width: int, height: int) -> int:
        """Tokens that a picture of this size in pixels becomes."""
        if self._pictures is None:
            self._pictures = Pictures.of(self._folder)
        return self._pictures.tokens(width, height)


class Tokenizer:
    """A tokenizer.json. Most texts need not be cut to know that they are short enough, or that they differ."""

    def __init__(self, path: Path) -> None:
        try:
            import tokenizers
        except ImportError as error:
            raise UsageError("token limits need the extra `tokens`", next_command=INSTALL) from error
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
            described = orjson.loads(path.read_bytes())
        except Exception as error:  # the library raises nothing narrower
            raise ArmError(f"is no tokenizer: {error}", where=str(path)) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._normal_forms = _normal_forms(described, tokenizers.pre_tokenizers.ByteLevel.alphabet())
        self._added = _added(described) if self._normal_forms is not None else None
        self._counted = lru_cache(maxsize=_KEPT)(lambda text: len(self.ids(text)))

    def ids(self, text: str) -> Sequence[int]:
        """The tokens of a text as they are, without what a tokenizer may put around it."""
        ids: Sequence[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def length(self, text: str, limit: int) -> int:
        """How many tokens the text has, exactly if these are more than ``limit``; else perhaps fewer than said.

        A text falls apart at its special tokens, and between them no token is shorter than a byte; so the bytes are
        counted first, and tokens only as far as bytes do not settle it, from the longest part on.
        """
        if self._normal_forms is None:
            return self._counted(text)
        parts = self._added.split(text) if self._added else [text]  # every other one is a special token
        between = sorted(filter(None, parts[::2]), key=len, reverse=True)
        most = [len(part.encode()) if self._plain(part) else None for part in between]
        total = len(parts) // 2
        for part, bound in zip(between, most, strict=True):
            total += self._counted(part) if bound is None else bound
        for part, bound in zip(between, most, strict=True):
            if total <= limit:
                break
            if bound is not None:
                total += self._counted(part) - bound
        return total

    def equal(self, one: str, other: str) -> bool:
        """Whether two texts are the same tokens."""
        if one == other:
            return True
        if self._normal_forms is not None and self._plain(one) and self._plain(other):
            return False  # their tokens can be put together again
        return self.ids(one) == self.ids(other)

    def _plain(self, text: str) -> bool:
        """Whether the tokenizer takes every byte of the text as it is."""
        forms = self._normal_forms or ()
        return text.isascii() or all(unicodedata.is_normalized(form, text) for form in forms)


@dataclass(frozen=True)
class Pictures:
    """``unit``: side in pixels of the square that becomes one token; ``least`` and ``most``: area in pixels that a
    picture is resized to."""

    unit: int
    least: int
    most: int

    @classmethod
    def of(cls, folder: Path) -> Pictures:
        """The settings in a folder. Raises ArmError for those of a family whose rule is not known."""
        processor, alone = (folder / name for name in ("processor_config.json", "preprocessor_config.json"))
        nested = _json(processor).get("image_processor")
        path, config = (processor, nested) if nested else (alone, _json(alone))
        if not isinstance(config, dict):
            raise ArmError("has an image_processor that is no object", where=str(path))
        if not config:
            raise ArmError(
                "has no picture settings, and rows show pictures", where=str(folder),
                next_command="put preprocessor_config.json or processor_config.json of the base model there",
            )  # fmt: skip
        kind = config.get("image_processor_type")
        if kind not in QWEN or config.get("do_resize") is False:
            what = f"resizes pictures by {kind}" if kind not in QWEN else "does not resize pictures"
            raise ArmError(f"{what}, whose tokens are not known; known: {', '.join(QWEN)}", where=str(path))
        size = config.get("size") or {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
        if not isinstance(size, dict):
            raise ArmError("has a size that is no object", where=str(path))
        least = config.get("min_pixels") or size.get("shortest_edge")
        most = config.get("max_pixels") or size.get("longest_edge")
        given = (config.get("patch_size", 14), config.get("merge_size", 2), least, most)
        sizes = [number for number in given if type(number) is int and number > 0]
        if len(sizes) < len(given):
            raise ArmError("has no whole numbers as sizes of patches and pictures", where=str(path))
        return cls(sizes[0] * sizes[1], *sizes[2:])

    def tokens(self, width: int, height: int) -> int:
        """Both sides go to whole units, at least one; the area stays within its bounds, the ratio nearly as it is."""
        down, across = round(height / self.unit), round(width / self.unit)
        area = down * across * self.unit * self.unit
        if area > self.most:
            shrink = math.sqrt(height * width / self.most)
            down, across = (max(1, math.floor(side / shrink / self.unit)) for side in (height, width))
        elif area < self.least:
            grow = math.sqrt(self.least / (height * width))
            down, across = (math.ceil(side * grow / self.unit) for side in (height, width))
        return down * across


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file."""
    if not path.is_file():
        return {}
    try:
        data = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise ArmError(f"is no JSON: {error}", where=str(path)) from error
    if not isinstance(data, dict):
        raise ArmError("is no JSON object", where=str(path))
    return data


def _content(token: Any) -> Any:
    """The text of a token, which may be written with its properties."""
    return token.get("content") if isinstance(token, dict) else token


def _normal_forms(described: Mapping[str, Any], alphabet: Sequence[str]) -> tuple[Any, ...] | None:
    """The Unicode forms that a tokenizer over bytes puts text into first; None for every other tokenizer.

    Over bytes means: each byte has a token, as a letter of ``alphabet``, and what is in the text is in the tokens, in
    order and nothing else.
    """
    model, before = described["model"], described.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    bytewise = [step for step in steps if step.get("type") == "ByteLevel"]
    kept = all(step.get("behavior", "Isolated") != "Removed" for step in steps)
    known = all(step.get("type") in ("ByteLevel", "Split", "Digits") for step in steps)
    extras = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
    if model.get("type") != "BPE" or any(model.get(extra) for extra in extras) or not (kept and known):
        return None
    if len(bytewise) != 1 or bytewise[0].get("add_prefix_space") or not set(alphabet) <= set(model["vocab"]):
        return None
    normalizer = described.get("normalizer")
    if normalizer is None:
        return ()
    return (normalizer["type"],) if normalizer.get("type") in ("NFC", "NFD", "NFKC", "NFKD") else None


def _added(described: Mapping[str, Any]) -> re.Pattern[str] | None:
    """A pattern of the tokens at which text falls apart, if there are some and that is all they do."""
    added = described.get("added_tokens") or []
    if not added or any(token.get(how) for token in added for how in ("single_word", "lstrip", "rstrip", "normalized")):
        return None
    contents = sorted((token["content"] for token in added), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, contents))})")
