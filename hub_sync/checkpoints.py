"""What is special about repositories of checkpoints: their cards, the files that they may hold, and what those hold."""

from __future__ import annotations

import fnmatch
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from ..schemas.errors import ArmError, Issue

SCHEMA = "model_manifest/1"
# Every file that a checkpoint may hold, by path. What is not named here is not published.
_COPIED = ("tokenizer.json", "vocab.json", "merges.txt")  # of the base model: words, some of which look like paths
ALLOWED = (
    "adapter_model.safetensors", "value_head.safetensors", "model.safetensors", "model-*-of-*.safetensors",
    "model.safetensors.index.json", "adapter_config.json", "config.json", "generation_config.json",
    *_COPIED, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "chat_template.json", "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
    "README.md", "manifest.json", "merged_from.json",
    "prompts/*.json", "training/log.jsonl", "evaluation/*/predictions.jsonl", "evaluation/*/report.json",
    "assets/*.png", ".eval_results/*.yaml",
)  # fmt: skip
# What loaders look for at the top of a repository, ours or not: a pickle among them would be preferred by some.
_LOADED = (
    "*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.ckpt", "*.h5",
    "*.msgpack", "*.gguf", "*.onnx", "*.pkl", "*.py", "adapter_config.json", "config.json",
)  # fmt: skip
_OURS = ("prompts/", "training/", "evaluation/", "assets/", ".eval_results/")
_WRITTEN = ("README.md", "manifest.json", "assets/", ".eval_results/")  # made from the rest
MAX_HEADER = 100 * 2**20  # bytes of a safetensors header: the limit of that library
_MAX_TOLD = 5  # places of one file
# A whole value that names a file: two steps from a root, from somebody's home, or a drive; or an address of a file.
_LOCAL = re.compile(r"(?:/[\w.@~+ -]+){2,}/?|~[\w.-]*/.*|[A-Za-z]:[\\/].*|file:/.*", re.ASCII | re.DOTALL)


def render(manifest: dict[str, Any]) -> str:
    from ..cards import model

    return model.render(manifest)


def merge(existing: str, manifest: dict[str, Any]) -> str:
    from ..cards import model

    return model.merge(existing, manifest)


def words(text: str) -> Sequence[str]:
    from ..cards import model

    return model.words(text)


def card_problems(text: str, manifest: dict[str, Any]) -> list[str]:
    from ..cards import model

    return list(model.problems(text, manifest))


def owned(path: str) -> bool:
    """Whether a build of a checkpoint writes at ``path``."""
    return path.startswith(_OURS) or _allowed(path)


def written(path: str) -> bool:
    return path.startswith(_WRITTEN)


def loadable(_: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Those of ``paths`` that a loader may take for weights, settings or code of the checkpoint."""
    return sorted(path for path in paths if "/" not in path and _any(path.lower(), _LOADED))


def file_problems(folder: Path, files: Sequence[str]) -> Iterator[Issue]:
    """Issues of what the files of a checkpoint hold, each opened: nothing but weights, settings, text and figures.

    No pickle, no state of a trainer, no path of the machine that it was made on.
    """
    own = _own_paths(folder)
    for name in files:
        path = folder / name
        if not _allowed(name):
            yield Issue(name, 0, "$", "is no file of a checkpoint: it is not published")
        elif name.endswith(".safetensors"):
            yield from (Issue(name, 0, "$", said) for said in _weights(path, own))
        elif name not in _COPIED and not name.endswith(".png"):  # figures are looked at with their limits
            yield from _text(path, name, own)
        elif name.endswith(".json"):
            try:
                orjson.loads(path.read_bytes())
            except ValueError as error:
                yield Issue(name, 0, "$", f"is not JSON: {error}")


def header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file: tensors by name, and ``__metadata__``. Raises ArmError for another file.

    The tensors have to fill the rest of the file without a gap, so that nothing else can lie in it.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > min(MAX_HEADER, size - 8):
            raise ArmError("is no safetensors file", where=str(path))
        data = file.read(length)
    try:
        found = orjson.loads(data)
        ends = sorted(tuple(entry["data_offsets"]) for name, entry in found.items() if name != "__metadata__")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArmError(f"is no safetensors file: {error}", where=str(path)) from error
    at = 0
    for begin, end in ends:
        if begin != at or end < begin:
            raise ArmError(f"is no safetensors file: a tensor begins at {begin}, not {at}", where=str(path))
        at = end
    if at != size - 8 - length:
        raise ArmError(f"is no safetensors file: tensors end at {at}, and {size - 8 - length} bytes are there",
                       where=str(path))  # fmt: skip
    assert isinstance(found, dict)
    return found


def _weights(path: Path, own: Sequence[str]) -> Iterator[str]:
    try:
        found = header(path)
    except ArmError as error:
        yield error.message
        return
    for value in (found.get("__metadata__") or {}).values():
        if _is_local(str(value), own):
            yield f"names a file of this machine in its header: {value!r}"


def _text(path: Path, name: str, own: Sequence[str]) -> Iterator[Issue]:
    """Issues of a text file: what is no text, and what names a place on this machine."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        yield Issue(name, 0, "$", f"is not UTF-8: {error.reason} at byte {error.start}")
        return
    told = 0
    lines = text.removesuffix("\n").split("\n")  # other ends of lines stand within strings
    for number, line in enumerate(lines, 1) if name.endswith(".jsonl") else [(1, text)]:
        places: Iterable[tuple[str, str]]
        if name.endswith((".json", ".jsonl")):
            try:
                places = list(_strings(orjson.loads(line), "$"))
            except ValueError as error:
                yield Issue(name, number, "$", f"is not JSON: {error}")
                continue
            places = [(at, value) for at, value in places if _is_local(value, own)]
        else:
            places = [("$", value) for value in own if value in text]
        for at, value in places:
            if told == _MAX_TOLD:
                return
            told += 1
            shown = value if len(value) <= 80 else f"{value[:79]}…"
            yield Issue(name, number, at, f"names a place on the machine that made it: {shown!r}")


def _is_local(value: str, own: Sequence[str]) -> bool:
    return bool(_LOCAL.fullmatch(value)) or any(place in value for place in own)


def _own_paths(folder: Path) -> tuple[str, ...]:
    """Places of this machine, which no text that is published may name. None of one step: `/tmp` is a word."""
    home = Path.home()
    places = {str(folder.resolve().parent), os.path.abspath(folder.parent), str(home)}  # noqa: PTH100 - a link stays one
    return tuple(sorted(place for place in places if place.count(os.sep) > 1))


def _strings(value: Any, at: str) -> Iterator[tuple[str, str]]:
    """(JSON path, text) of every string, keys among them."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"{at}.{key}", key
            yield from _strings(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings(inner, f"{at}[{index}]")


def _allowed(path: str) -> bool:
    """Whether ``path`` is one of `ALLOWED`; ``*`` stays within a folder."""
    parts = path.split("/")
    return any(
        len(parts) == pattern.count("/") + 1
        and all(fnmatch.fnmatchcase(part, piece) for part, piece in zip(parts, pattern.split("/"), strict=True))
        for pattern in ALLOWED
    )


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
