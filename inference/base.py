"""A base model in a folder, which has no commit by which it could be told from another."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ..schemas.errors import ArmError
from ..schemas.ids import canonical_json, file_sha256, sha256_hex
from ..schemas.manifest import NAME

# What a model is loaded from, and what is fetched of one. No pickle and no code: loading those would run them.
WEIGHTS = "*.safetensors"
FILES = (WEIGHTS, "*.json", "*.jinja", "*.txt")


def folder_sha256(folder: Path) -> str:
    """SHA-256 over the names and bytes of the files directly in ``folder`` that decide what a model is: weights, and
    settings of model, tokenizer and pictures. A file is read once in a process, as long as it is not changed.

    Raises ArmError when there is no config.json.
    """
    if not (folder / "config.json").is_file():
        raise ArmError("is no model: it holds no config.json", where=str(folder))
    named = {path for pattern in FILES for path in folder.glob(pattern) if path.is_file()}
    found = [[path.name, _sha256(path.resolve())] for path in sorted(named) if path.name != NAME]
    return sha256_hex(canonical_json(found))


def _sha256(path: Path) -> str:
    now = path.stat()
    return _read(path, now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)


@lru_cache(maxsize=1024)
def _read(path: Path, *_as_it_was: int) -> str:
    return file_sha256(path)
