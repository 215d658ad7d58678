"""Source files behind a declared path or glob."""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path


def matching(pattern: str, folder: Path) -> list[Path]:
    """Files that ``pattern`` (relative to ``folder``, or absolute) names, sorted; ``**`` is any number of folders.

    A pattern that names a file is that file, whatever characters it holds. Names with a dot in front are found only
    where they are named so. Links are followed, but no ``**`` enters a folder twice: links may lead back.
    """
    folder = folder.resolve()  # `..` leads from where the registry really lies
    literal = is_file(folder / pattern)
    matches = [folder / pattern] if literal else _named(pattern, folder)
    return sorted(path for path in {_settled(match) for match in matches} if is_file(path))


def is_file(path: Path) -> bool:
    """Whether ``path`` names a file; also of names that no file system can hold."""
    try:
        return path.is_file()
    except OSError:  # longer than any file's name
        return False


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _named(pattern: str, folder: Path) -> list[Path]:
    """What a pattern names, part by part, so that no step takes longer than there are folders.

    (`glob` finds a folder again for every way to share it out among several ``**``, and goes round with links.)
    """
    place = Path(pattern)
    found = [Path(place.anchor) if place.is_absolute() else folder]
    parts = place.parts[1:] if place.is_absolute() else place.parts
    for part in (*parts, "*") if parts and parts[-1] == "**" else parts:
        if part == "**":
            found = list(_below(found))
        elif any(character in part for character in "*?["):
            found = [path / name for path in found for name in _names(path) if _fits(name, part)]
        else:
            found = [path / part for path in found if _is_dir(path)]
        if part == "..":  # else `*/../*/..` goes all ways there and back
            found = list({os.path.realpath(path): path for path in found[::-1]}.values())
    return found


def _below(folders: list[Path]) -> Iterator[Path]:
    """``folders`` and all below them, each once however many links lead there."""
    seen = set()
    waiting = folders[::-1]
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(folder)
        if real not in seen and folder.is_dir():
            seen.add(real)
            yield folder
            waiting += [folder / name for name in _names(folder)[::-1] if not name.startswith(".")]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is asked for
    except OSError:  # no folder, or none that may be read
        return []


def _fits(name: str, part: str) -> bool:
    return fnmatch.fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


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


def as_text(path: Path) -> str:
    """``path`` for JSON, which holds nothing but text; what is none is escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()
