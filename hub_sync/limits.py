"""What the Hub and other systems take: names, numbers and sizes of files, and what is never published."""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from ..schemas.errors import Issue
from ..schemas.manifest import is_safe_path

MAX_FILE_BYTES = 50 * 10**9  # the Hub's older hard limit; it warns above 200 GB and refuses 500 GB today
MAX_FOLDER_ENTRIES = 10_000  # the Hub's limit for files and folders in one folder
# A release is one commit. The Hub recommends less than 100 files in one and ends a request after 60 s; 300 have been
# seen to pass, and with ten times what it recommends we would find out after the upload.
FEW_FILES, MAX_FILES = 100, 1_000
# Left by training and by tools: unpickling runs code, the rest holds local paths, states of no use, or secrets.
NEVER = (
    "optimizer*.pt", "optimizer*.bin", "scheduler*.pt", "rng_state*", "training_args.bin", "*.pkl", "*.pickle", "*.pyc",
    ".env", ".env.*", ".netrc", ".git*", "id_rsa*", "id_ed25519*",
)  # fmt: skip
_ALLOWED = frozenset({".gitattributes"})


def regular_files(folder: Path) -> tuple[list[str], list[Issue]]:
    """(Paths of the files below ``folder``, sorted; issues of what is no regular file, such as a link).

    Links are not followed, so that nothing outside the folder is read.
    """
    files, issues = [], []
    for root, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(root, name)
            shown = path.relative_to(folder).as_posix()
            if path.is_symlink():
                issues.append(Issue(shown, 0, "$", "is a link; what it leads to would not be published"))
            elif path.is_file():
                files.append(shown)
            elif not path.is_dir():
                issues.append(Issue(shown, 0, "$", "is no regular file"))
    return sorted(files), issues


def problems(folder: Path, files: Sequence[str], name: str) -> Iterator[Issue]:
    """Issues of publishing ``files``, paths below ``folder``, as the repository ``name`` (without its namespace)."""
    for path in files:
        parts = PurePosixPath(path).parts
        if not all(is_safe_path(part.removeprefix(".")) for part in parts):
            yield Issue(path, 0, "$", "has a name that not every system can hold; letters, digits and ._- are safe")
        if any(_never(part) for part in parts):
            yield Issue(path, 0, "$", "is a file that is never published: a tool's state, a pickle, or settings")
        if path == f"{name}.py":
            yield Issue(path, 0, "$", "has the repository's name: stock `datasets` refuses such a repository")
        if (size := (folder / path).stat().st_size) >= MAX_FILE_BYTES:
            yield Issue(path, 0, "$", f"has {size:,} bytes, and {MAX_FILE_BYTES:,} are too many for one file")
    if len(files) > MAX_FILES:
        yield Issue(".", 0, "$", f"{len(files):,} files are too many for one commit; {MAX_FILES:,} are allowed")
    for entry, count in sorted(_entries(files).items()):
        if count > MAX_FOLDER_ENTRIES:
            yield Issue(entry, 0, "$", f"has {count:,} entries; the Hub allows {MAX_FOLDER_ENTRIES:,} in one folder")


def warnings(files: Sequence[str]) -> Iterator[str]:
    """What may go wrong and does not have to."""
    if FEW_FILES < len(files) <= MAX_FILES:
        yield f"{len(files)} files in one commit, and the Hub recommends less than {FEW_FILES}; declare fewer shards"


def _never(name: str) -> bool:
    return name not in _ALLOWED and any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in NEVER)


def _entries(files: Sequence[str]) -> Counter[str]:
    """Folder -> files and folders directly in it."""
    paths = {PurePosixPath(path) for path in files}
    paths |= {parent for path in paths for parent in path.parents if parent.name}
    return Counter(path.parent.as_posix() for path in paths)
