"""What the Hub and other systems take: names, numbers and sizes of files, and what is never published."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ..schemas.errors import Issue
from ..schemas.images import ImageChecker, ImageError, sniff
from ..schemas.manifest import NAME

MAX_FILE_BYTES = 50 * 10**9  # the Hub's older hard limit; it warns above 200 GB and refuses 500 GB today
MAX_FOLDER_ENTRIES = 10_000  # the Hub's limit for files and folders in one folder
# A release is one commit. The Hub recommends less than 100 files in one and ends a request after 60 s; 300 have been
# seen to pass, and with ten times what it recommends we would find out after the upload.
FEW_FILES, MAX_FILES = 100, 1_000
MAX_FIGURE_BYTES = 2 * 10**6  # a figure of a card: everybody who opens the card loads it
# Left by training and by tools: unpickling runs code, the rest holds local paths, states of no use, or secrets.
NEVER = (
    "optimizer*.pt", "optimizer*.bin", "scheduler*.pt", "rng_state*", "training_args.bin", "*.pkl", "*.pickle", "*.pyc",
    "id_rsa*", "id_ed25519*",
)  # fmt: skip


def regular_files(folder: Path, manifest: Mapping[str, Any]) -> tuple[list[str], list[Issue]]:
    """(Paths of the files that would be published, sorted; issues of what is no regular file, such as a link).

    Nothing else in the folder is published. What is missing is left to others to say. Links are not followed, so that
    nothing outside the folder is read.
    """
    files, issues = [], []
    for name in sorted({*manifest["environment"]["files"], NAME, "README.md"}):
        path = folder / name
        around = [folder / parent for parent in PurePosixPath(name).parents[:-1]]
        if any(place.is_symlink() for place in (path, *around)):
            issues.append(Issue(name, 0, "$", "is a link; what it leads to would not be published"))
        elif path.is_file():
            files.append(name)
        elif path.exists():
            issues.append(Issue(name, 0, "$", "is no regular file"))
    return files, issues


def problems(folder: Path, files: Sequence[str]) -> Iterator[Issue]:
    """Issues of publishing ``files``, paths below ``folder``."""
    for path in files:
        if any(_never(part) for part in PurePosixPath(path).parts):
            yield Issue(path, 0, "$", "is a file that is never published: a tool's state, a pickle, or settings")
        if (size := (folder / path).stat().st_size) >= MAX_FILE_BYTES:
            yield Issue(path, 0, "$", f"has {size:,} bytes, and {MAX_FILE_BYTES:,} are too many for one file")
    if len(files) > MAX_FILES:
        yield Issue(".", 0, "$", f"{len(files):,} files are too many for one commit; {MAX_FILES:,} are allowed")
    for entry, count in sorted(_entries(files).items()):
        if count > MAX_FOLDER_ENTRIES:
            yield Issue(entry, 0, "$", f"has {count:,} entries; the Hub allows {MAX_FOLDER_ENTRIES:,} in one folder")


def figures(folder: Path, files: Sequence[str]) -> Iterator[Issue]:
    """Issues of the card's figures: whoever opens the card is shown them."""
    checker = ImageChecker()
    for path in files:
        if not path.startswith("assets/"):
            continue
        if not path.endswith(".png"):
            yield Issue(path, 0, "$", "is no PNG: figures of the card are")
        elif (size := (folder / path).stat().st_size) > MAX_FIGURE_BYTES:
            yield Issue(path, 0, "$", f"has {size:,} bytes, and {MAX_FIGURE_BYTES:,} are too many for a figure")
        else:
            data = (folder / path).read_bytes()
            try:
                checker.check(data)
            except ImageError as error:
                yield Issue(path, 0, "$", f"is no picture: {error.message}")
            else:
                if sniff(data) != "image/png":
                    yield Issue(path, 0, "$", "is no PNG, and is called one")


def warnings(files: Sequence[str]) -> Iterator[str]:
    """What may go wrong and does not have to."""
    if FEW_FILES < len(files) <= MAX_FILES:
        yield f"{len(files)} files in one commit, and the Hub recommends less than {FEW_FILES}; declare fewer shards"


def _never(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in NEVER)


def _entries(files: Sequence[str]) -> Counter[str]:
    """Folder -> files and folders directly in it."""
    paths = {PurePosixPath(path) for path in files}
    paths |= {parent for path in paths for parent in path.parents if parent.name}
    return Counter(path.parent.as_posix() for path in paths)
