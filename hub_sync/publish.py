"""Publish a built directory as planned: one commit, read back, then the tag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..schemas.errors import ArmError
from ..schemas.secrets import GROUPS
from . import readback
from .commit import Upload
from .forms import DATASET
from .hub import WAITS_S, Hub, reason
from .plan import Plan, public
from .release import Remote

Progress = Callable[[str, int, int], None]
# A downloaded checkpoint -> {"conversations": how many were scored again, "max_difference": from what was stored}.
# Raises ArmError when it cannot be loaded, or scores otherwise.
Reload = Callable[[Path], Mapping[str, Any]]


@dataclass(frozen=True)
class Published:
    """Where a release stands now. ``committed`` is False when the repository held it already.

    ``loaded``: of a dataset, table -> split -> rows that were read back. ``scored``: of a checkpoint, what came of
    loading it from the Hub (see `Reload`).
    """

    repo: str
    url: str
    tag: str
    commit: str
    committed: bool
    tagged: bool
    loaded: dict[str, dict[str, int]] = field(default_factory=dict)
    scored: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def publish(
    planned: Plan, hub: Hub, *, stage: bool = False, full: bool = False, allow_findings: bool = False,
    reload: Reload | None = None, progress: Progress = lambda *_: None,
) -> Published:  # fmt: skip
    """Carry out a plan: upload, one commit on the planned head, read back, tag. Safe to run again when killed.

    With ``stage`` the commit is a pull request, merged after it was read back. With ``full`` every shard is read back,
    else one per table and split. A checkpoint is downloaded whole, its files compared, and given to ``reload``, which
    has to be there. Raises ArmError when the plan has findings that are not allowed, when the head moved
    (with both shas), when what arrived differs, or when the tag appeared elsewhere meanwhile.
    """
    repo = planned.repo

    def read_back(commit: str) -> dict[str, Any]:
        if planned.release.form is DATASET:
            return {"loaded": _read_back(planned, hub, commit, full, progress)}
        assert reload is not None
        _compare(planned, hub, commit)
        return {"scored": readback.reload(hub, planned, commit, reload, progress)}

    if planned.tagged:
        return Published(repo, planned.url, planned.tag, planned.tagged, False, False)
    if planned.findings and not allow_findings:
        raise ArmError(
            f"{len(planned.findings)} secrets or addresses were found; nothing was published",
            where=str(planned.folder), issues=planned.findings,
            next_command=_clean(planned),
        )  # fmt: skip
    if not hub.token:
        raise hub.no_token()
    base = planned.base
    if base is None:
        base, planned = _create(planned, hub)
    commit = base
    if planned.operations:
        upload = Upload(planned, hub, base, progress)
        commit = upload.staged(read_back) if stage else upload.committed()
    found = read_back(commit)
    stands, tagged = _tag(planned, hub, commit)
    return Published(repo, planned.url, planned.tag, stands, bool(planned.operations), tagged, **found)


def _clean(planned: Plan) -> str:
    """What whoever publishes can write to be rid of the findings, or to live with them."""
    messages = [finding.message for finding in planned.findings]
    if planned.release.form is not DATASET:
        return f"mend what they come from, and {planned.release.form.make}; or, this once, push --allow-findings"
    needed = [group for group, kinds in GROUPS.items() if any(kind in said for said in messages for kind in kinds)]
    declared = planned.release.manifest["identity"]["parameters"].get("redact") or []
    if set(needed) <= set(declared):
        first = "they stand where `redact` changes nothing (ids, keys, file names, words of registry.yaml): mend those;"
    else:
        first = (
            "below the dataset in registry.yaml, and build again:\n"
            f"    redact: [{', '.join(g for g in GROUPS if g in (*needed, *declared))}]   # replaced in every record\n"
            "  or mend the sources;"
        )
    return f"{first} to publish them:\n    gates: {{secrets: warn}}   # say why\n  or, this once, push --allow-findings"


def _create(planned: Plan, hub: Hub) -> tuple[str, Plan]:
    """Create the repository. What it starts with (the Hub's own .gitattributes) is no one's work to lose."""
    hub.call(
        "creating the repository",
        lambda: hub.api.create_repo(planned.repo, repo_type=hub.repo_type, private=planned.private, exist_ok=True),
    )
    refs = hub.refs(planned.repo)
    if refs is None:
        raise ArmError("was created, and cannot be seen", where=planned.url)
    if planned.private and not hub.is_private(planned.repo):  # somebody else created it meanwhile
        raise public(hub, planned.repo)
    remote = Remote.read(hub, planned.repo, refs.head)
    operations = planned.release.operations(remote)
    if operations and (remote.manifest or remote.card):
        raise ArmError(
            f"the repository appeared meanwhile, with files, at {refs.head}", where=planned.url,
            next_command=f"arm push {planned.folder}   # plans anew",
        )  # fmt: skip
    return refs.head, replace(planned, base=refs.head, operations=operations)


def _compare(planned: Plan, hub: Hub, commit: str) -> None:
    """Raise ArmError unless every file of the commit is that of the release."""
    if wrong := planned.release.operations(Remote.read(hub, planned.repo, commit)):
        names = ", ".join(operation.path for operation in wrong[:5])
        raise ArmError(
            f"the commit {commit} does not hold what was published: {names}; no tag was set", where=planned.url,
            next_command=f"arm push {planned.folder}   # sends what is missing",
        )  # fmt: skip


def _read_back(planned: Plan, hub: Hub, commit: str, full: bool, progress: Progress) -> dict[str, dict[str, int]]:
    """Compare every file of the commit with the release, then load it as anyone would. Raises ArmError."""
    _compare(planned, hub, commit)
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
