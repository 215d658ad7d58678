"""Which files go to a repository as stored files and which as git blobs, and which not at all."""

from __future__ import annotations

from functools import lru_cache

from .path_rules import MOST, IgnoreRules, Pattern, parse_pattern

REGULAR_LIMIT = 10 * 2**20  # bytes of a git blob
_RULES_LIMIT = 2**16  # bytes of a .gitattributes or .gitignore that are looked at
_LFS = """
    7z arrow avro bin bz2 ckpt ftz gguf gz h5 joblib lz4 mds mlmodel model msgpack npy npz onnx ot parquet pb pickle pkl
    pt pth rar safetensors tar tflite tgz wasm xz zip zst
"""
_MEDIA = "aac bmp flac gif jpeg jpg mp3 mp4 ogg opus pcm png raw sam tif tiff wav webm webp"
_MORE = ("*.lfs.*", "*.tar.*", "*tfevents*", "saved_model/**/*")


def default_attributes(kind: str) -> bytes:
    """The `.gitattributes` of a new repository of this type."""
    patterns = [*(f"*.{name}" for name in _LFS.split()), *_MORE]
    if kind == "dataset":
        patterns += [f"*.{name}" for name in _MEDIA.split()]
    return "".join(f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in patterns).encode()


def is_stored(path: str, size: int, sample: bytes, attributes: bytes) -> bool:
    """Whether a file of ``size`` bytes that begins with ``sample`` is uploaded as a stored file (`lfs`)."""
    if size == 0:
        return False
    matched = _attribute(path, attributes)
    return size > REGULAR_LIMIT or (_is_binary(sample) if matched is None else matched)


def is_ignored(path: str, rules: bytes) -> bool:
    """Whether these `.gitignore` rules leave the file out."""
    return bool(rules) and _ignore_rules(rules[:_RULES_LIMIT]).leave_out(path)


def _attribute(path: str, attributes: bytes) -> bool | None:
    """What the last matching line says about `filter=lfs`, None when no line says anything."""
    for pattern, stored in _attribute_rules(attributes[:_RULES_LIMIT]):
        if pattern.fits(path):
            return stored
    return None


@lru_cache(8)
def _attribute_rules(attributes: bytes) -> list[tuple[Pattern, bool]]:
    """The patterns whose lines name a filter, and whether that filter is LFS: the last, which decides, first."""
    found: list[tuple[Pattern, bool]] = []
    for line in attributes.decode("utf-8", "replace").split("\n"):
        parts = line.split()
        if not parts or parts[0].startswith(("#", "!")):
            continue
        said = [part for part in parts[1:] if part.lstrip("-!").partition("=")[0] == "filter"]
        pattern = parse_pattern(parts[0]) if said else None
        if pattern is not None and len(found) < MOST:
            found.append((pattern, said[-1] == "filter=lfs"))
    return found[::-1]


@lru_cache(8)
def _ignore_rules(rules: bytes) -> IgnoreRules:
    return IgnoreRules(rules.decode("utf-8", "replace").split("\n"))


def _is_binary(sample: bytes) -> bool:
    if b"\0" in sample:
        return True
    try:
        sample.decode()
    except UnicodeDecodeError as error:
        # The sample may end within a character.
        return error.reason != "unexpected end of data" or len(sample) - error.start > 3
    return False
