"""Source files behind a declared path or glob."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable
from pathlib import Path


def matching(pattern: str, folder: Path) -> list[Path]:
    """Files that ``pattern`` (relative to ``folder``, or absolute) names, sorted.

    A pattern that names a file is that file, whatever characters it holds.
    """
    folder = folder.resolve()  # `..` leads from where the registry really lies
    literal = is_file(folder / pattern)
    matches = [pattern] if literal else glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207 - absolute ones
    return sorted(path for path in {_settled(folder / match) for match in matches} if path.is_file())


def is_file(path: Path) -> bool:
    """Whether ``path`` names a file; also of names that no file system can hold."""
    try:
        return path.is_file()
    except OSError:  # longer than any file's name
        return False


def _settled(path: Path) -> Path:
    """Without ``..``; a link to a file keeps its own name."""
    return path.parent.resolve() / path.name if ".." in path.parts else path


def published_names(paths: Iterable[Path], folder: Path) -> dict[Path, str]:
    """What each file is called in messages and in the dataset, all names distinct.

    Files below ``folder`` by their path in it. A dataset says nothing about the machine it was built on, so that files
    elsewhere have their own name only, and as much of their folders as tells them apart.
    """
    folder = folder.resolve()
    distinct = sorted(set(paths))
    names = {path: path.relative_to(folder).as_posix() for path in distinct if path.is_relative_to(folder)}
    away = [path for path in distinct if path not in names]
    depth = 1
    while away:
        tails = {path: "/".join(path.parts[-depth:]) for path in away}
        taken = Counter([*names.values(), *tails.values()])
        names |= {path: tail for path, tail in tails.items() if taken[tail] == 1 or depth >= len(path.parts)}
        away = [path for path in away if path not in names]
        depth += 1
    return names
