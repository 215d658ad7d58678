"""A built directory as a whole: its rows against the manifest, and its card against both."""

from __future__ import annotations

from pathlib import Path

from ..builders import reader
from ..builders.partition import Progress
from ..cards.dataset import problems
from ..schemas.errors import Issue
from ..schemas.manifest import manifest_of


def check_build(folder: Path, progress: Progress = lambda *_: None) -> list[Issue]:
    """Every issue of a built directory: files, rows, digests, and a card that would load something else.

    Raises ArmError when there is no manifest, or when it is not one.
    """
    issues = reader.check(folder, progress)
    card = folder / "README.md"
    if card.is_file():
        text = card.read_text("utf-8", errors="replace")
        issues += [Issue("README.md", 0, "$", problem) for problem in problems(text, manifest_of(folder))]
    return sorted(issues)
