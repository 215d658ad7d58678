"""arm.lock: what the references of a registry resolved to, what its builds read, and what was published from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from ...schemas.errors import ArmError, Issue
from ...schemas.validate import for_schema
from .alone import alone
from .references import Reference, matching

NAME = "arm.lock"
_MEND = "restore it from your version control, or delete it and run: arm lock"


@dataclass(frozen=True)
class Locked:
    """What one reference resolved to. ``files``: path -> (sha256, bytes) of the raw files that it names."""

    commit: str
    identity_sha256: str | None = None
    files: Mapping[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Lock:
    """The content of arm.lock; the mappings are by name, those of ``published`` by name and version."""

    references: Mapping[tuple[str, str, str, str], Locked] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Lock:
        """The lock in ``path``, an empty one without a file. Raises ArmError for a damaged one."""
        try:
            data = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except ValueError as error:
            raise ArmError(f"is not JSON: {error}", where=str(path), next_command=_MEND) from error
        if problems := for_schema("lock/1").problems(data):
            issues = [Issue(str(path), 0, place, message) for place, message in problems]
            raise ArmError.of(str(path), issues, next_command=_MEND)
        references = {
            (entry["kind"], entry["repo"], entry["revision"], entry["file"] or ""): Locked(
                entry["commit"],
                entry["identity_sha256"],
                {name: (file["sha256"], file["bytes"]) for name, file in entry["files"].items()},
            )
            for entry in data["references"]
        }
        return cls(references, data["datasets"], data["models"], data["packages"], data["published"])

    def of(self, reference: Reference, where: Path) -> Locked:
        """What ``reference`` resolved to. Raises ArmError when that is not known, or nothing that it can stand for.

        ``where`` is the registry.
        """
        found = self.references.get(reference.key)
        if found is None:
            others = [key for key in self.references if key[:2] == reference.key[:2]]
            known = f"; it holds {others[0][1]}@{others[0][2]}" if others else ""
            raise ArmError(
                f"{reference} is not in {NAME}{known}: what it stands for is decided once, and not by a build",
                where=str(where), next_command=f"arm lock {where}",
            )  # fmt: skip
        if problem := _problem(reference, found):
            raise ArmError(f"{NAME} says of {reference} {problem}: it was edited", where=str(where), next_command=_MEND)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "lock": 1,
            "references": [
                {
                    "kind": kind,
                    "repo": repo,
                    "revision": revision,
                    "file": file or None,
                    "commit": locked.commit,
                    "identity_sha256": locked.identity_sha256,
                    "files": {name: {"sha256": s, "bytes": n} for name, (s, n) in sorted(locked.files.items())},
                }
                for (kind, repo, revision, file), locked in sorted(self.references.items())
            ],
            "datasets": self.datasets,
            "models": self.models,
            "packages": self.packages,
            "published": self.published,
        }


def _problem(reference: Reference, locked: Locked) -> str | None:
    """Why ``locked`` is nothing that ``reference`` can have resolved to, or None."""
    if reference.is_version and locked.identity_sha256 is None:
        return "no identity"
    named = matching(reference.file, locked.files) if reference.file else []
    if reference.file and not named:
        return "no file"
    strange = sorted(locked.files.keys() - set(named))
    return f"that it holds {strange[0]!r}, which it does not name" if strange else None


def update(path: Path, change: Callable[[Lock], Lock]) -> Lock:
    """Change the lock in ``path`` and return it; other processes that do the same wait. Written only if it differs."""
    with alone(path.parent):
        before = Lock.read(path)
        after = change(before)
        if after != before or not path.exists():
            data = orjson.dumps(after.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
            work = path.with_name(f".{path.name}-{os.getpid()}")
            work.write_bytes(data)
            work.replace(path)
        return after


def with_published(lock: Lock, name: str, version: str, repo: str, commit: str, identity_sha256: str) -> Lock:
    entry = {"repo": repo, "commit": commit, "identity_sha256": identity_sha256}
    versions = {**lock.published.get(name, {}), version: entry}
    return replace(lock, published={**lock.published, name: versions})
