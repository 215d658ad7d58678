"""Source files behind a declared path or glob."""

from __future__ import annotations

import glob
import os
from pathlib import Path, PurePosixPath


def matching(pattern: str, folder: Path) -> list[tuple[str, Path]]:
    """Files that ``pattern`` (relative to ``folder``, or absolute) names, as (published name, path), sorted by name.

    A pattern that names a file is that file, whatever characters it holds. The published name is relative to
    ``folder``, or to the fixed part of the pattern when it leads elsewhere, so that a dataset says nothing about the
    machine it was built on.
    """
    folder = folder.absolute()
    if (folder / pattern).is_file():
        base, matches = _normal(folder / pattern).parent, [pattern]
    else:
        base = _normal(folder / _fixed_part(pattern))
        matches = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207 - it takes absolute patterns
    start = folder if base.is_relative_to(folder) else base
    paths = {_normal(folder / match) for match in matches}
    return sorted((path.relative_to(start).as_posix(), path) for path in paths if path.is_file())


def _normal(path: Path) -> Path:
    """Without ``..`` and without following links: a link is named by where it stands."""
    return Path(os.path.normpath(path))


def _fixed_part(pattern: str) -> str:
    """The leading folders of a pattern that hold no wildcard."""
    fixed = PurePosixPath()
    for part in PurePosixPath(pattern).parts[:-1]:
        if glob.has_magic(part):
            break
        fixed /= part
    return str(fixed)
