"""Publish a built directory: everything checked first, one commit, read back, then the tag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..schemas.errors import ArmError, Issue
from ..schemas.manifest import manifest_of
from . import readback
from .commit import Upload
from .hub import WAITS_S, Hub, Refs, checked_repo_id, reason
from .preflight import preflight
from .release import Keep, Operation, Release, Remote, make_release, refuse_changed

Progress = Callable[[str, int, int], None]
Check = Callable[[Path], list[Issue]]


@dataclass(frozen=True)
class Plan:
    """What publishing would do. ``base`` is the head that it rests on, None for a repository to be created.

    ``tagged`` is where the tag stands already; then there is nothing to send. ``findings`` are secrets and personal
    data, which stop a publication unless they are allowed by word; ``warnings`` stop nothing.
    """

    repo: str
    url: str
    folder: Path
    release: Release
    base: str | None
    operations: tuple[Operation, ...]
    tagged: str | None
    private: bool
    warnings: tuple[str, ...] = ()
    findings: tuple[Issue, ...] = ()

    @property
    def tag(self) -> str:
        return self.release.tag

    @property
    def added_bytes(self) -> int:
        """Bytes of the files that change; what is sent can be less, since storage knows chunks."""
        return sum(operation.size for operation in self.operations)

    def to_json(self) -> dict[str, Any]:
        return {
            "repo": self.repo,
            "url": self.url,
            "version": self.release.version,
            "tag": self.tag,
            "base": self.base,
            "creates": self.base is None and {"private": self.private},
            "tagged": self.tagged,
            "operations": [{"action": o.action, "path": o.path, "bytes": o.size} for o in self.operations],
            "added_bytes": self.added_bytes,
            "unchanged_files": len(self.release.files) - sum(o.action == "add" for o in self.operations),
            "warnings": list(self.warnings),
            "findings": [str(finding) for finding in self.findings],
        }


@dataclass(frozen=True)
class Published:
    """Where a release stands now. ``committed`` is False when the repository held it already."""

    repo: str
    url: str
    tag: str
    commit: str
    committed: bool
    tagged: bool
    loaded: dict[str, dict[str, int]] = field(default_factory=dict)  # table -> split -> rows that were read back

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def plan(
    folder: Path, hub: Hub, *, check: Check, repo: str | None = None, private: bool = False,
    keep: Keep | None = None, progress: Progress = lambda *_: None,
) -> Plan:  # fmt: skip
    """Check a built directory without the network, then compare it with the repository. Changes nothing.

    ``check`` returns the issues of the directory's rows and digests. Raises ArmError when the directory has issues,
    when its version stands elsewhere already, or when a newer one is published.
    """
    checked = preflight(folder, check, progress)
    if checked.issues:
        raise ArmError.of(str(folder), checked.issues, next_command="arm build --force")
    manifest = manifest_of(folder)
    identity = manifest["identity"]
    repo = checked_repo_id(repo or f"{identity['namespace']}/{identity['name']}")
    if f"{repo.partition('/')[2]}.py" in manifest["environment"]["files"]:
        raise ArmError(
            f"stock datasets refuses a repository that holds a file of its own name: {repo}", where=str(folder)
        )
    refs = hub.refs(repo)
    tag = f"v{identity['version']}"
    base = _last(hub, repo, refs)
    if refs and tag in refs.tags:
        tagged = Remote.read(hub, repo, refs.tags[tag])
        release = make_release(folder, tagged, base, keep)
        if changes := release.operations(tagged):
            raise _stands_elsewhere(hub, repo, tag, refs, changes)
        operations: tuple[Operation, ...] = ()
    else:
        remote = Remote.read(hub, repo, refs.head) if refs else None
        _refuse_older(hub, repo, identity["version"], base)
        release = make_release(folder, remote, base, keep)
        operations = release.operations(remote)
    head, stands = (refs.head, refs.tags.get(tag)) if refs else (None, None)
    return Plan(
        repo, hub.url(repo), folder, release, head, operations, stands, private, checked.warnings, checked.findings
    )


def publish(
    planned: Plan, hub: Hub, *, stage: bool = False, full: bool = False, progress: Progress = lambda *_: None
) -> Published:
    """Carry out a plan: upload, one commit on the planned head, read back, tag. Safe to run again when killed.

    With ``stage`` the commit is a pull request, merged after it was read back. With ``full`` every shard is read back,
    else one per table and split. Raises ArmError when the head moved (with both shas), when what arrived differs, or
    when the tag appeared elsewhere meanwhile.
    """
    repo, release = planned.repo, planned.release

    def read_back(commit: str) -> dict[str, dict[str, int]]:
        return _read_back(planned, hub, commit, full, progress)

    if planned.tagged:
        return Published(repo, planned.url, planned.tag, planned.tagged, False, False)
    if not hub.token:
        raise hub.no_token()
    base = planned.base
    if base is None:
        base, planned = _create(planned, hub)
    commit = base
    if planned.operations:
        refuse_changed(planned.folder, release)
        upload = Upload(planned, hub, base, progress)
        commit = upload.staged(read_back) if stage else upload.committed()
    loaded = read_back(commit)
    stands, tagged = _tag(planned, hub, commit)
    return Published(repo, planned.url, planned.tag, stands, bool(planned.operations), tagged, loaded)


def _create(planned: Plan, hub: Hub) -> tuple[str, Plan]:
    """Create the repository. What it starts with (the Hub's own .gitattributes) is no one's work to lose."""
    hub.call(
        "creating the repository",
        lambda: hub.api.create_repo(planned.repo, repo_type=hub.repo_type, private=planned.private, exist_ok=True),
    )
    refs = hub.refs(planned.repo)
    if refs is None:
        raise ArmError("was created, and cannot be seen", where=planned.url)
    remote = Remote.read(hub, planned.repo, refs.head)
    operations = planned.release.operations(remote)
    if operations and (remote.manifest or remote.card):
        raise ArmError(
            f"the repository appeared meanwhile, with files, at {refs.head}", where=planned.url,
            next_command=f"arm push {planned.folder}   # plans anew",
        )  # fmt: skip
    return refs.head, replace(planned, base=refs.head, operations=operations)


def _read_back(planned: Plan, hub: Hub, commit: str, full: bool, progress: Progress) -> dict[str, dict[str, int]]:
    """Compare every file of the commit with the release, then load it as anyone would. Raises ArmError."""
    if wrong := planned.release.operations(Remote.read(hub, planned.repo, commit)):
        names = ", ".join(operation.path for operation in wrong[:5])
        raise ArmError(
            f"the commit {commit} does not hold what was published: {names}; no tag was set", where=planned.url,
            next_command=f"arm push {planned.folder}   # sends what is missing",
        )  # fmt: skip
    manifest = planned.release.manifest
    try:
        return readback.load(hub, planned.repo, commit, manifest, full=full, progress=progress)
    except readback.LoadError as error:  # over a connection that broke once?
        hub.pause("loading back", WAITS_S[2], error)
    try:
        return readback.load(hub, planned.repo, commit, manifest, full=full, progress=progress)
    except readback.LoadError as error:
        raise ArmError(
            f"{error.message}; no tag was set", where=error.where,
            next_command=f"arm push {planned.folder}   # reads back again; what was sent is not sent again",
        ) from error  # fmt: skip


def _tag(planned: Plan, hub: Hub, commit: str) -> tuple[str, bool]:
    """Set the tag: where it stands, and whether this run set it. A tag is never moved.

    Another publisher of the same release may have set it, at a commit of theirs. Raises ArmError when it stands at
    other content.
    """
    message = f"{planned.release.name} {planned.release.version}"
    try:
        hub.call(
            f"tagging {planned.tag}",
            lambda: hub.api.create_tag(
                planned.repo, tag=planned.tag, tag_message=message, revision=commit, repo_type=hub.repo_type
            ),
        )
    except Exception as error:
        refs = hub.refs(planned.repo)
        stands = refs and refs.tags.get(planned.tag)
        if stands and (stands == commit or not planned.release.operations(Remote.read(hub, planned.repo, stands))):
            return stands, False
        if stands:
            message = f"{planned.tag} stands at {stands}, and this release is {commit}; tags are never moved"
            raise ArmError(message, where=planned.url, next_command="raise the version in registry.yaml") from error
        raise hub.explained(f"tagging {planned.tag}: {reason(error)}", error) from error
    return commit, True


def _stands_elsewhere(hub: Hub, repo: str, tag: str, refs: Refs, changes: tuple[Operation, ...]) -> ArmError:
    names = ", ".join(operation.path for operation in changes[:3]) + (", ..." if len(changes) > 3 else "")
    return ArmError(
        f"{tag} is published at {refs.tags[tag]} with other content ({len(changes)} files differ: {names}); the head "
        f"is {refs.head}; tags are never moved",
        where=hub.url(repo),
        next_command="raise the version in registry.yaml, then arm build and arm push",
    )


def _last(hub: Hub, repo: str, refs: Refs | None) -> Remote | None:
    """The revision published last: of the tags v1.2.3, the highest."""
    versions = {parts: sha for tag, sha in (refs.tags if refs else {}).items() if (parts := _version(tag))}
    return Remote.read(hub, repo, versions[max(versions)]) if versions else None


def _refuse_older(hub: Hub, repo: str, version: str, last: Remote | None) -> None:
    published = last and last.manifest and last.manifest["identity"]["version"]
    if published and (_version(f"v{version}") or ()) < (_version(f"v{published}") or ()):
        raise ArmError(
            f"{version} is older than {published}, which is published", where=hub.url(repo),
            next_command="raise the version in registry.yaml, then arm build and arm push",
        )  # fmt: skip


def _version(tag: str) -> tuple[int, ...] | None:
    parts = tag.removeprefix("v").split(".")
    numbers = len(parts) == 3 and all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    return tuple(map(int, parts)) if tag.startswith("v") and numbers else None
