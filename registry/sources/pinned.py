"""What arm.lock says of a published version, held against the Hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...hub_sync.hub import Hub
from ...hub_sync.verify import Verified
from ...schemas.errors import Issue, UsageError
from ...schemas.versions import parse
from .lock import NAME, Lock


@dataclass(frozen=True)
class Pinned:
    """A version of the dataset or checkpoint ``name`` as it was published."""

    name: str
    version: str
    repo: str
    commit: str
    identity_sha256: str
    repo_type: str = "dataset"

    @classmethod
    def last(cls, folder: Path, name: str) -> Pinned:
        """The last version of ``name`` in the arm.lock of ``folder``. Raises UsageError when it holds none."""
        published = Lock.read(folder / NAME).published
        if not published.get(name):
            known = f"it knows {', '.join(sorted(published))}" if published else "nothing was published from here"
            message = (
                f"{name!r} is no folder, no NS/NAME@REVISION, and no published dataset or checkpoint of {NAME}: {known}"
            )
            raise UsageError(message, where=str(folder / NAME), next_command="arm verify NS/NAME@v1.0.0, or: arm apply")
        version = max(published[name], key=parse)
        is_model = name in Lock.read(folder / NAME).models
        return cls(name, version, **published[name][version], repo_type="model" if is_model else "dataset")

    def issues(self, hub: Hub, found: Verified) -> list[Issue]:
        """What differs from the lock: the commit of the tag, and the identity of what stands at the pinned commit."""
        where = f"$.published[{self.name!r}][{self.version!r}]"
        refs = hub.refs(self.repo)
        tagged = refs.tags.get(f"v{self.version}") if refs else None
        issues = []
        if tagged != self.commit:
            there = f"the tag v{self.version} is at {tagged}" if tagged else f"there is no tag v{self.version}"
            issues.append(Issue(NAME, 0, f"{where}.commit", f"is {self.commit}, and {there}"))
        if found.identity_sha256 != self.identity_sha256:
            message = f"is {self.identity_sha256}, and the manifest there has {found.identity_sha256}"
            issues.append(Issue(NAME, 0, f"{where}.identity_sha256", message))
        return issues
