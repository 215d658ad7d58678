"""What a declaration refers to on the Hub: raw files, a version of a dataset or checkpoint, a base model."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ...schemas.manifest import is_safe_path
from ...schemas.versions import is_version, of_tag

Kind = Literal["dataset", "model"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", re.ASCII)


@dataclass(frozen=True)
class Reference:
    """One entry of arm.lock. ``file`` is the file or glob of raw records; None for a version and for a model."""

    kind: Kind
    repo: str
    revision: str
    file: str | None = None
    is_version: bool = False  # of a dataset or checkpoint that was published with a manifest

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.kind, self.repo, self.revision, self.file or ""

    @property
    def version(self) -> str:
        """``1.0.0`` of the tag ``v1.0.0``."""
        return self.revision.removeprefix("v")

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision}" + (f": {self.file}" if self.file else "")


def version_of(text: str, kind: Kind, namespace: str) -> Reference:
    """``[namespace/]name@1.0.0`` as a reference; ``namespace`` is empty where no registry.yaml says it.

    Raises ValueError, whose text says what is wrong.
    """
    name, at, version = text.partition("@")
    if not namespace and "/" not in name:
        raise ValueError(f"names no namespace, and no registry.yaml has this recipe in models; write NAMESPACE/{text}")
    repo = name if "/" in name else f"{namespace}/{name}"
    if problem := repo_problem(repo):
        raise ValueError(problem)
    if not at:
        raise ValueError(f"is floating: it names no version; write {name}@1.0.0")
    if not is_version(version):
        hint = f"; write {name}@{version[1:]}" if of_tag(version) else ""
        raise ValueError(f"names {version!r}, which is no version like 1.0.0{hint}")
    return Reference(kind, repo, f"v{version}", is_version=True)


def repo_problem(repo: str) -> str | None:
    """Why ``repo`` is no ``namespace/name``, or None."""
    parts = repo.split("/")
    if len(parts) == 2 and all(_NAME.fullmatch(part) for part in parts):
        return None
    return f"{repo!r} is no repository: namespace/name is expected"


def glob_problem(pattern: str) -> str | None:
    """Why ``pattern`` can match no file that a repository may hold, or None."""
    plain = re.sub(r"[*?]|\[[^\]/]*\]", "x", pattern)
    return None if is_safe_path(plain) else f"{pattern!r} is no path or glob within a repository"


def matching(pattern: str, paths: Iterable[str]) -> list[str]:
    """Those of ``paths`` that ``pattern`` names, sorted; ``*`` stays within a folder, ``**`` does not."""
    parts = pattern.split("/")
    return sorted(path for path in paths if is_safe_path(path) and _matches(path.split("/"), parts))


def _matches(path: list[str], pattern: list[str]) -> bool:
    """Whether the parts of a pattern name a path: in as many steps as both are long, however many ``**`` there are."""
    if pattern[-1] == "**":  # all files below
        pattern = [*pattern, "*"]
    ends = {0}  # how many parts of the path the parts of the pattern so far may have taken
    for part in pattern:
        if part == "**":
            ends = set(range(min(ends, default=len(path) + 1), len(path) + 1))
        else:
            ends = {end + 1 for end in ends if end < len(path) and fnmatch.fnmatchcase(path[end], part)}
    return len(path) in ends
