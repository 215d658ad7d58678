"""The published versions of a repository and what each changed, from manifests alone; no data is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC
from typing import Any

from ...hub_sync import forms
from ...hub_sync.forms import DATASET
from ...hub_sync.hub import Hub, RemoteFile, checked_repo_id, checked_sha
from ...hub_sync.release import CARD, MANIFEST
from ...hub_sync.yank import withdrawn
from ...schemas import manifest as manifests
from ...schemas.errors import ArmError
from ...schemas.versions import of_tag, parse
from ..bumps import Level, needed, needed_by_checkpoint

Manifest = Mapping[str, Any]
MAX_BYTES = 64 * 2**20  # of a manifest


@dataclass(frozen=True)
class Change:
    """What a version changed relative to ``since``, the next older one with a manifest.

    ``level`` is the bump that the change asks for, and ``reasons`` say why. ``rows``: table -> rows more (or fewer, if
    negative) of every table whose rows differ: 0 when others came for as many that went. ``labels``: the same by
    status. ``schemas``: table -> (before, after), ``prompts``: kind -> (before, after) as ``id sha256``; None where
    there was or is none.
    """

    since: str
    level: str
    reasons: tuple[str, ...]
    rows: Mapping[str, int]
    labels: Mapping[str, int]
    schemas: Mapping[str, tuple[str | None, str | None]]
    prompts: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Version:
    """A tag v1.2.3. ``date`` (UTC, ISO 8601) and ``title`` are of its commit.

    ``withdrawn`` is the reason if branch main calls it withdrawn. ``problem`` says why nothing is known of what it
    holds; then ``rows`` (table -> rows) and ``labels`` (status -> labels) are empty. The first one has no ``change``.
    """

    version: str
    commit: str
    date: str
    title: str
    withdrawn: str | None
    problem: str | None = None
    identity_sha256: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    change: Change | None = None


@dataclass(frozen=True)
class History:
    """``versions``, newest first; ``unreleased`` commits on branch main since the last tag of one; other tags."""

    repo: str
    url: str
    versions: tuple[Version, ...]
    unreleased: int
    other_tags: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def history(hub: Hub, repo: str, progress: Callable[[str, int, int], None] = lambda *_: None) -> History:
    """Read the manifest of every tagged version. Raises ArmError when there is no such repository."""
    refs = hub.refs(checked_repo_id(repo))
    if refs is None:
        raise ArmError(
            f"there is no such {hub.repo_type}, or this token may not see it", where=hub.url(repo),
            next_command="is it written NS/NAME, and is HF_ENDPOINT the Hub that has it?",
        )  # fmt: skip
    tags = {version: sha for tag, sha in refs.tags.items() if (version := of_tag(tag))}
    main = _commits(hub, repo, refs.head)
    reasons = withdrawn(hub, repo)
    found: list[Version] = []
    before: _Held | None = None
    for number, version in enumerate(sorted(tags, key=parse), 1):
        commit = tags[version]
        date, title = main.get(commit) or next(iter(_commits(hub, repo, commit).values()))
        held = _read(hub, repo, commit, version)
        entry = Version(version, commit, date, title, reasons.get(version), held.problem)
        if held.manifest:
            entry = replace(
                entry,
                identity_sha256=held.manifest["identity_sha256"],
                rows=_rows(held.manifest),
                labels=_labels(held.manifest),
                change=_change(hub, repo, before, held) if before else None,
            )
            before = held
        found.append(entry)
        progress("reading manifests", number, len(tags))
    unreleased = next((n for n, commit in enumerate(main) if commit in tags.values()), len(main))
    others = tuple(sorted(tag for tag in refs.tags if not of_tag(tag)))
    return History(repo, hub.url(repo), tuple(reversed(found)), unreleased, others)


@dataclass(frozen=True)
class _Held:
    """What a tag holds; without a manifest, ``problem`` says why there is none."""

    version: str
    commit: str
    files: Mapping[str, RemoteFile]
    manifest: Manifest | None
    problem: str | None


def _commits(hub: Hub, repo: str, revision: str) -> dict[str, tuple[str, str]]:
    """Commit -> (date, title) of a revision's history, newest first."""
    log = hub.call(
        "reading commits", lambda: hub.api.list_repo_commits(repo, repo_type=hub.repo_type, revision=revision)
    )
    return {
        checked_sha(entry.commit_id): (
            entry.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            " ".join(entry.title.split()),
        )
        for entry in log
    }


def _read(hub: Hub, repo: str, commit: str, version: str) -> _Held:
    files = hub.files(repo, commit)
    if MANIFEST not in files:
        return _Held(version, commit, files, None, f"holds no {MANIFEST}")
    if files[MANIFEST].size > MAX_BYTES:
        return _Held(version, commit, files, None, f"its {MANIFEST} has {files[MANIFEST].size:,} bytes")
    data = hub.read(repo, files[MANIFEST], commit, MAX_BYTES)
    try:
        manifest = manifests.parse(data, MANIFEST, forms.of(hub).schema)
    except ArmError:
        return _Held(version, commit, files, None, f"its {MANIFEST} is none that this version reads")
    says = manifest["identity"]["version"]
    return _Held(version, commit, files, manifest, None if says == version else f"its {MANIFEST} is of {says}")


def _change(hub: Hub, repo: str, before: _Held, after: _Held) -> Change:
    assert before.manifest
    assert after.manifest
    rule = needed if forms.of(hub) is DATASET else needed_by_checkpoint
    level, why = rule(before.manifest, after.manifest, card_changed=False)
    if level < Level.MINOR and _words(hub, repo, before) != _words(hub, repo, after):
        level, why = rule(before.manifest, after.manifest, card_changed=True)
    if rule is needed_by_checkpoint:
        return Change(before.version, str(level), tuple(why), {}, {}, {}, {})
    old, new = before.manifest["identity"]["tables"], after.manifest["identity"]["tables"]
    return Change(
        before.version, str(level), tuple(why),
        {
            name: new.get(name, {"rows": 0})["rows"] - old.get(name, {"rows": 0})["rows"]
            for name in sorted({*old, *new})
            if old.get(name, {}).get("row_digest") != new.get(name, {}).get("row_digest")
        },
        _net(_labels(before.manifest), _labels(after.manifest)),
        _differences({n: t["schema"] for n, t in old.items()}, {n: t["schema"] for n, t in new.items()}),
        _differences(_prompts(before.manifest), _prompts(after.manifest)),
    )  # fmt: skip


def _words(hub: Hub, repo: str, held: _Held) -> Sequence[str] | None:
    """What a person wrote on the card; None where that cannot be told."""
    if CARD not in held.files or held.files[CARD].size > MAX_BYTES:
        return None
    data = hub.read(repo, held.files[CARD], held.commit, MAX_BYTES)
    try:
        return forms.of(hub).words(data.decode("utf-8"))
    except (ArmError, UnicodeDecodeError):
        return None


def _rows(manifest: Manifest) -> dict[str, int]:
    """Rows by table; none of a checkpoint."""
    return {name: table["rows"] for name, table in manifest["identity"].get("tables", {}).items()}


def _labels(manifest: Manifest) -> dict[str, int]:
    """Labels by status. The schema leaves statistics open, so that anything may stand there."""
    counts = manifest["identity"].get("statistics", {}).get("label_status", {})
    return {status: n for status, n in counts.items() if type(n) is int} if isinstance(counts, dict) else {}


def _net(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    changes = {key: after.get(key, 0) - before.get(key, 0) for key in sorted({*before, *after})}
    return {key: n for key, n in changes.items() if n}


def _prompts(manifest: Manifest) -> dict[str, str]:
    return {prompt["kind"]: f"{prompt['id']} {prompt['sha256']}" for prompt in manifest["identity"]["prompts"]}


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    keys = sorted({*before, *after})
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
