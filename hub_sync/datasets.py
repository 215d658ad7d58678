"""What is special about repositories of datasets: their cards, the paths of builds, what `load_dataset` reads."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from ..cards.dataset import merge, problems, render, words

__all__ = ["merge", "owned", "problems", "read_as_rows", "render", "words", "written"]

ASSETS = "assets/"
_OURS = ("data/", "schemas/", "prompts/", ASSETS, "load.py")  # where builds write


def owned(path: str) -> bool:
    return path.startswith(_OURS)


def written(path: str) -> bool:
    return not path.startswith("data/")


def read_as_rows(manifest: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Those of ``paths`` that `load_dataset` reads as rows of a build."""
    tables = manifest["identity"]["tables"]
    globs = [f"data/{table}/{split}-*.parquet" for table, entry in tables.items() for split in entry["splits"]]
    return sorted(path for path in paths if any(fnmatch.fnmatchcase(path, glob) for glob in globs))
