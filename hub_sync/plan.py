"""What publishing would do: the directory checked without the network, then compared with the repository."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..schemas import gates
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import file_sha256
from ..schemas.manifest import manifest_of
from ..schemas.versions import of_tag, parse
from . import forms
from .forms import DATASET, Form
from .hub import Hub, Refs, RemoteFile, checked_repo_id
from .preflight import preflight
from .release import CARD, MANIFEST, Keep, Operation, Release, Remote, make_release, strangers

Progress = Callable[[str, int, int], None]
Check = Callable[[Path], list[Issue]]
RowDigest = Callable[[Path, str], str]  # (Parquet file, schema name) -> hex


class VersionTakenError(ArmError):
    """The version is published with other content. ``last`` is what was published last, ``release`` what is built."""

    last: Remote
    release: Release


@dataclass(frozen=True)
class Plan:
    """What publishing would do. ``base`` is the head that it rests on, None for a repository to be created.

    ``last`` is the revision published last, under the highest version; None before the first.
    ``tagged`` is where the tag stands already; then there is nothing to send. ``private`` is None where nobody asked.
    ``findings`` are secrets and personal data, which stop `publish` unless they are allowed; ``warnings`` stop nothing.
    """

    repo: str
    url: str
    folder: Path
    release: Release
    base: str | None
    operations: tuple[Operation, ...]
    tagged: str | None
    private: bool
    last: Remote | None = None
    warnings: tuple[str, ...] = ()
    findings: tuple[Issue, ...] = ()

    @property
    def tag(self) -> str:
        return self.release.tag

    @property
    def added_bytes(self) -> int:
        """Bytes of the files that change; what is sent can be less, since storage knows chunks."""
        return sum(operation.size for operation in self.operations)

    @property
    def unchanged(self) -> int:
        """Files of the release that the repository holds already."""
        return len(self.release.files) - sum(operation.action != "delete" for operation in self.operations)

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
            "unchanged_files": self.unchanged,
            "warnings": list(self.warnings),
            "findings": [str(finding) for finding in self.findings],
        }


def plan(
    folder: Path, hub: Hub, *, check: Check, repo: str | None = None, private: bool = False,
    keep: Keep | None = None, overwrite: bool = False, row_digest: RowDigest | None = None,
    progress: Progress = lambda *_: None,
) -> Plan:  # fmt: skip
    """Check a built directory without the network, then compare it with the repository. Changes nothing.

    ``repo`` is another repository than the manifest's: card, load.py and manifest are then made for it. ``check``
    returns the issues of the directory's rows and digests. ``row_digest`` computes the digest of a Parquet
    file's rows: with it, a published file that has the same rows in other bytes is downloaded, checked and kept;
    without it, ours is sent. ``overwrite`` allows to replace or delete files that no build made. Raises ArmError when
    the directory has issues or violates a gate, when its version stands elsewhere already, when a newer one is
    published, when a person's file is in the way, or when ``private`` is asked for and the repository is public.
    """
    form = forms.of(hub)
    checked = preflight(folder, check, progress, form)
    if checked.issues:
        raise ArmError.of(str(folder), checked.issues, next_command=form.remake)
    if checked.violations:
        raise gates.refusal(checked.violations, where=str(folder))
    manifest = manifest_of(folder, form.schema)
    identity = manifest["identity"]
    repo = checked_repo_id(repo or f"{identity['namespace']}/{identity['name']}")
    refs = hub.refs(repo)
    tag = f"v{identity['version']}"
    if refs and private and not hub.is_private(repo):
        raise public(hub, repo)
    base = _last(hub, repo, refs)

    def made(remote: Remote | None) -> Release:
        return make_release(
            folder, repo, remote, base, keep, lambda file: _has_rows(hub, repo, remote, file, row_digest), form
        )

    warnings = checked.warnings
    if refs and tag in refs.tags:
        tagged = base if base and base.commit == refs.tags[tag] else Remote.read(hub, repo, refs.tags[tag])
        release = made(tagged)
        changes = release.operations(tagged)
        if changes and _written_otherwise(manifest, tagged, release, changes):
            what = "load.py" if form is DATASET else "results"
            warnings += (f"the card, its figures or {what} would be written otherwise now; the next release will",)
        elif changes:
            raise _stands_elsewhere(hub, repo, tag, refs, changes, base or tagged, release)
        operations: tuple[Operation, ...] = ()
    else:
        remote = Remote.read(hub, repo, refs.head) if refs else None
        _refuse_older(hub, repo, identity["version"], base)
        release = made(remote)
        operations = release.operations(remote)
        if remote:
            _refuse_taken(hub, repo, remote, operations, overwrite)
    head, stands = (refs.head, refs.tags.get(tag)) if refs else (None, None)
    if head and stands not in (None, head):
        later = Remote.read(hub, repo, head)
        if found := form.strays(later.manifest or manifest, set(later.files) - set(release.files)):
            known = set(later.manifest["environment"]["files"]) if later.manifest else set()
            if strange := [path for path in found if path not in known]:
                warnings += (f"branch main holds files that loaders read and no build made: {strange[0]}",)
    return Plan(
        repo, hub.url(repo), folder, release, head, operations, stands, private, base, warnings, checked.findings
    )  # fmt: skip


def _written_otherwise(built: dict[str, Any], tagged: Remote, release: Release, changes: tuple[Operation, ...]) -> bool:
    """Whether only what arm writes beside the rows differs, since another version wrote it: no reason for a release.

    Figures alone differ with the library that drew them, too.
    """
    form = release.form
    if tagged.manifest is None or tagged.card is None or not all(form.written(change.path) for change in changes):
        return False
    card = release.files[CARD].source
    assert isinstance(card, bytes)
    by, now = tagged.manifest["environment"], built["environment"]
    other = any(by.get(key) != now.get(key) for key in ("action_reward_models", "code_sha256"))
    other = other or all(change.path == MANIFEST or change.path.startswith("assets/") for change in changes)
    same = tagged.manifest["identity_sha256"] == release.manifest["identity_sha256"]
    return other and same and form.words(tagged.card) == form.words(card.decode())


def public(hub: Hub, repo: str) -> ArmError:
    return ArmError(
        "the repository exists and is public; --private makes none private that others may have seen",
        where=hub.url(repo), next_command="push without --private, or change its visibility in its settings first",
    )  # fmt: skip


def _has_rows(hub: Hub, repo: str, remote: Remote | None, file: RemoteFile, row_digest: RowDigest | None) -> bool:
    """Whether a published file really has the rows that its manifest claims: whoever wrote the one wrote the other."""
    if remote is None or remote.manifest is None or row_digest is None:
        return False
    for table in remote.manifest["identity"]["tables"].values():
        for split in table["splits"].values():
            for entry in split["files"]:
                if entry["path"] == file.path:
                    with tempfile.TemporaryDirectory(prefix="arm-kept-") as folder:
                        path = hub.fetch(repo, remote.commit, file.path, Path(folder))
                        try:
                            digest = row_digest(path, table["schema"]) if file_sha256(path) == file.sha256 else None
                        except Exception:  # whatever a damaged file raises: it does not have those rows
                            digest = None
                        return bool(digest == entry["row_digest"])
    return False


def _refuse_taken(hub: Hub, repo: str, remote: Remote, operations: tuple[Operation, ...], overwrite: bool) -> None:
    own = f"{repo.partition('/')[2]}.py"
    if forms.of(hub) is DATASET and own in remote.files:
        raise ArmError(
            f"holds {own}, and stock datasets loads nothing from a repository with a file of its own name",
            where=hub.url(repo), next_command="rename that file there, then push again",
        )  # fmt: skip
    taken = [] if overwrite else strangers(hub, repo, remote, operations)
    if taken:
        raise ArmError(
            f"holds files that no build made where this one writes or a loader reads: {', '.join(taken[:5])}"
            + (", ..." if len(taken) > 5 else ""),
            where=hub.url(repo),
            next_command="move them there; or push --overwrite: they are replaced or deleted (its history has them)",
        )


def _stands_elsewhere(
    hub: Hub, repo: str, tag: str, refs: Refs, changes: tuple[Operation, ...], last: Remote, release: Release
) -> VersionTakenError:
    names = ", ".join(operation.path for operation in changes[:3]) + (", ..." if len(changes) > 3 else "")
    error = VersionTakenError(
        f"{tag} is published at {refs.tags[tag]} with other content ({len(changes)} files differ: {names}); the head "
        f"is {refs.head}; tags are never moved",
        where=hub.url(repo),
        next_command=_raise(release.form),
    )
    error.last, error.release = last, release
    return error


def _raise(form: Form) -> str:
    return f"raise the version in registry.yaml, then {form.make} and arm push"


def _last(hub: Hub, repo: str, refs: Refs | None) -> Remote | None:
    """The revision published last: of the tags v1.2.3, the highest."""
    versions = {parse(version): sha for tag, sha in (refs.tags if refs else {}).items() if (version := of_tag(tag))}
    return Remote.read(hub, repo, versions[max(versions)]) if versions else None


def _refuse_older(hub: Hub, repo: str, version: str, last: Remote | None) -> None:
    published = last and last.manifest and of_tag(f"v{last.manifest['identity']['version']}")
    if published and parse(version) < parse(published):
        raise ArmError(
            f"{version} is older than {published}, which is published", where=hub.url(repo),
            next_command=_raise(forms.of(hub)),
        )  # fmt: skip
