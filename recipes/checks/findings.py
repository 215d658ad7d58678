"""What checking a recipe finds: problems with file, line and path; what could not be checked; what was counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...schemas.errors import Issue
from ...schemas.yamlfile import YamlFile


@dataclass(frozen=True)
class Skipped:
    """A check that did not run. ``next``: what would make it run."""

    check: str
    why: str
    next: str

    def __str__(self) -> str:
        return f"{self.check}: {self.why}; next: {self.next}"

    def to_json(self) -> dict[str, str]:
        return {"check": self.check, "why": self.why, "next": self.next}


@dataclass(frozen=True)
class Given:
    """What of a recipe's references is at hand.

    dataset: a built directory. base: a folder with config.json and the processor's files; weights are not needed.
    start: folder of the checkpoint that is trained further (manifest.json, adapter_config.json).
    target: the registry.yaml that publishes what the recipe makes; None when none declares it.
    absent: why something is not at hand, by the names above.
    """

    dataset: Path | None = None
    base: Path | None = None
    start: Path | None = None
    target: Path | None = None
    absent: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> (why, what would help)


@dataclass(frozen=True)
class Checked:
    """``counts`` by check, such as ``{"tokens": {"rows": 200, "too_long": 0, ...}}``."""

    issues: tuple[Issue, ...]
    skipped: tuple[Skipped, ...]
    counts: dict[str, dict[str, Any]]


@dataclass
class Findings:
    """Collects while the checks run. Places are JSON paths of the recipe.

    prompt: sha256 of the prompt of all rows of the split; None where rows came ready-made, "" until it is known.
    """

    file: YamlFile
    issues: list[Issue] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)
    prompt: str | None = ""

    def refuse(self, place: str, message: str) -> None:
        self.issues.append(Issue(str(self.file.path), self.file.line(place), place, message))

    def skip(self, check: str, why: str, then: str) -> None:
        self.skipped.append(Skipped(check, why, then))
