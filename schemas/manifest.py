"""The manifest of a built directory, read and checked: from a folder, or from bytes that the Hub sent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from .errors import ArmError, Issue
from .ids import canonical_json, sha256_hex
from .store import load
from .validate import RowValidator, compile_schema, for_schema

NAME = "manifest.json"
_VERSION = {"manifest/1": "manifest", "model_manifest/1": "model_manifest"}  # the field of each that names it
_A = {"manifest/1": "the manifest of a dataset", "model_manifest/1": "the manifest of a checkpoint"}
_OF = {"manifest/1": "version 1", "model_manifest/1": "a checkpoint"}


def manifest_of(folder: Path, schema: str = "manifest/1") -> dict[str, Any]:
    """The manifest of a built directory. Raises ArmError when there is none; see `parse` for the others."""
    path = folder / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArmError(f"is no finished build: it holds no {NAME}", where=str(folder)) from error
    return parse(data, str(path), schema)


def parse(data: bytes, where: str, schema: str = "manifest/1") -> dict[str, Any]:
    """The manifest in ``data``, checked against its schema: its paths then name nothing outside a folder.

    ``where`` names the file in errors, ``schema`` is that of a dataset's or of a checkpoint's (`model_manifest/1`).
    Raises ArmError when it is no manifest of this version.
    """
    try:
        manifest = orjson.loads(data)
    except ValueError as error:
        raise ArmError(f"is not JSON: {error}", where=where) from error
    problems = for_schema(schema).problems(manifest)
    if problems and isinstance(manifest, dict) and _VERSION[schema] not in manifest:
        for other, version in _VERSION.items():
            if version in manifest:
                raise ArmError(f"is {_A[other]}, and {_A[schema]} is expected", where=where)
    if problems:
        issues = [Issue(where, 0, place, message) for place, message in problems]
        raise ArmError(f"is no manifest of {_OF[schema]}", where=where, issues=issues)
    assert isinstance(manifest, dict)
    return manifest


def identity_digest(identity: Mapping[str, Any]) -> str:
    """What ``identity_sha256`` has to be; what a manifest states there is somebody's word."""
    return sha256_hex(canonical_json(dict(identity)))


def is_safe_path(path: str) -> bool:
    """Whether a manifest may name ``path``: relative, within its folder, and one file on every system."""
    return _paths().is_valid(path)


@cache
def _paths() -> RowValidator:
    return compile_schema(load("manifest/1")["properties"]["environment"]["properties"]["files"]["propertyNames"])
