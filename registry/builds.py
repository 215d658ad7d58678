"""A built directory as a whole: its rows against the manifest, and its card against both."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..builders import reader
from ..builders.gathering import Progress
from ..builders.manifest import code_sha256
from ..builders.published import write_loader, write_schemas
from ..cards.dataset import problems
from ..schemas.errors import Issue
from ..schemas.manifest import manifest_of


def check_build(folder: Path, progress: Progress = lambda *_: None) -> list[Issue]:
    """Every issue of a built directory: files, rows, digests, and a card that would load something else.

    Raises ArmError when there is no manifest, or when it is not one.
    """
    issues = reader.check(folder, progress)
    manifest = manifest_of(folder)
    ours = manifest["environment"]["code_sha256"] == code_sha256()  # else its words may be other ones, and right
    if ours:
        issues += _described(folder, manifest)
    card = folder / "README.md"
    if card.is_file():
        found = problems(card.read_text("utf-8", errors="replace"), manifest, same_code=ours)
        issues += [Issue("README.md", 0, "$", problem) for problem in found]
    return sorted(issues)


def _described(folder: Path, manifest: dict[str, Any]) -> Iterator[Issue]:
    """What lies beside the data and is not what this version writes there: people run `load.py`."""
    identity = manifest["identity"]
    with tempfile.TemporaryDirectory(prefix="arm-described-") as work:
        written = write_schemas(Path(work), identity["tables"])
        written.append(write_loader(Path(work), f"{identity['namespace']}/{identity['name']}", identity["version"]))
        for path in written:
            name = path.relative_to(work).as_posix()
            if (folder / name).is_file() and (folder / name).read_bytes() != path.read_bytes():
                yield Issue(name, 0, "$", "is not what a build writes: do not run it before you know why")
