"""Withdraw a published version: its tag stays, and branch main says that it is withdrawn and why.

One commit on the head: manifest.json names the version with the reason, outside its identity, and the card is rendered
from it. Later releases carry the entry on, and loaders ask branch main. Undone in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..schemas import manifest as manifests
from ..schemas.errors import ArmError, UsageError
from ..schemas.ids import sha256_hex
from ..schemas.secrets import findings
from ..schemas.versions import of_tag
from . import forms
from .commit import MAIN, on_head
from .hub import Hub, checked_repo_id
from .release import CARD, MANIFEST, Content, Remote, dumped, with_withdrawn, withdrawn_in

MAX_REASON = 500  # characters
_TRIES = 3  # plans, when others publish meanwhile


@dataclass(frozen=True)
class Withdrawal:
    """What withdrawing a version would change on top of ``base``; ``reason`` is None to take it back.

    ``before`` is the reason that stands there now, if any. ``files`` holds what would be written, by path: nothing
    when branch main says it already.
    """

    repo: str
    url: str
    version: str
    reason: str | None
    before: str | None
    base: str
    files: Mapping[str, bytes]

    @property
    def tag(self) -> str:
        return f"v{self.version}"

    def to_json(self) -> dict[str, Any]:
        return {
            "repo": self.repo,
            "url": self.url,
            "version": self.version,
            "reason": self.reason,
            "before": self.before,
            "base": self.base,
            "files": {path: len(data) for path, data in self.files.items()},
        }


def plan(hub: Hub, repo: str, tag: str, reason: str | None) -> Withdrawal:
    """What withdrawing ``tag`` for ``reason`` would change; None takes it back. Changes nothing.

    Raises ArmError when there is no such tag, when branch main holds no manifest that this version reads, or when the
    card cannot be merged; UsageError for a reason that is no line of 1 to 500 printable characters.
    """
    version = of_tag(tag)
    if version is None:
        raise UsageError(f"{tag!r} is no tag of a version: v1.0.0 is expected", next_command=f"arm log {repo}")
    if reason is not None:
        reason = checked_reason(reason)
    refs = hub.refs(checked_repo_id(repo))
    where = hub.url(repo)
    if refs is None:
        raise ArmError(f"there is no such {hub.repo_type}, or this token may not see it", where=where)
    if tag not in refs.tags:
        known = ", ".join(sorted(name for name in refs.tags if of_tag(name))) or "none"
        raise ArmError(f"has no tag {tag}; its versions: {known}", where=where, next_command=f"arm log {repo}")
    head = Remote.read(hub, repo, refs.head)
    if head.manifest is None:
        what = "a manifest that this version does not read" if MANIFEST in head.files else f"no {MANIFEST}"
        raise ArmError(f"branch main holds {what}, so that it cannot name a withdrawn version", where=where)
    entries = withdrawn_in(head.manifest)
    before = entries.pop(version, None)
    after = entries if reason is None else {**entries, version: reason}
    files = {}
    if before != reason:
        manifest = with_withdrawn(head.manifest, after)
        form = forms.of(hub)
        card = form.render(manifest) if head.card is None else form.merge(head.card, manifest)
        files = {MANIFEST: dumped(manifest), CARD: card.encode()}
    return Withdrawal(repo, where, version, reason, before, refs.head, files)


def withdraw(planned: Withdrawal, hub: Hub) -> str:
    """Carry it out as one commit and return that; the head when it says so already. Safe to run again when killed.

    When somebody else published meanwhile it is planned anew on top of that, a few times. Raises ArmError.
    """
    for _ in range(_TRIES):
        if not planned.files:
            return planned.base
        if not hub.token:
            raise hub.no_token()
        try:
            return _commit(planned, hub)
        except _MovedError:
            planned = plan(hub, planned.repo, planned.tag, planned.reason)
    return _commit(planned, hub) if planned.files else planned.base


def checked_reason(reason: str) -> str:
    """``reason`` without blanks around it. Raises UsageError when it is no line that everybody may read."""
    text = reason.strip()
    problem = None
    if not text:
        problem = "says nothing"
    elif not text.isprintable():
        problem = "is not one line of printable text"
    elif len(text) > MAX_REASON:
        problem = f"has {len(text):,} characters, and {MAX_REASON} are allowed"
    elif secrets := [finding for finding in findings(text) if finding.kind != "e-mail address"]:
        problem = f"holds what looks like a secret ({secrets[0].kind}), and everybody can read it"
    if problem:
        raise UsageError(f"the reason {problem}", next_command='--reason "one line that says what is wrong"')
    return text


def withdrawn(hub: Hub, repo: str) -> dict[str, str]:
    """The withdrawn versions of a repository and their reasons, as branch main names them.

    Empty when there is no such repository, or no manifest on main that this version reads. Raises ArmError when the
    Hub does not answer, or when that manifest is too large.
    """
    refs = hub.refs(checked_repo_id(repo))
    file = hub.files(repo, refs.head).get(MANIFEST) if refs else None
    if refs is None or file is None:
        return {}
    data = hub.read(repo, file, refs.head)
    try:
        return withdrawn_in(manifests.parse(data, MANIFEST, forms.of(hub).schema))
    except ArmError:
        return {}


def warning(hub: Hub, repo: str, version: str) -> str | None:
    """What to tell whoever uses a version that is withdrawn; None when it is not, or when the Hub does not say."""
    try:
        reason = withdrawn(hub, repo).get(version)
    except ArmError:
        return None
    return reason and f"v{version} of {repo} is withdrawn: {reason}"


class _MovedError(ArmError):
    """Somebody else committed since it was planned."""


def _commit(planned: Withdrawal, hub: Hub) -> str:
    from huggingface_hub import CommitOperationAdd

    repo = planned.repo
    title = f"withdrawal of {planned.tag} taken back" if planned.reason is None else f"{planned.tag} withdrawn"

    def create() -> object:
        return hub.api.create_commit(
            repo, [CommitOperationAdd(path, data) for path, data in sorted(planned.files.items())],
            commit_message=title, commit_description=planned.reason or "", repo_type=hub.repo_type, revision=MAIN,
            parent_commit=planned.base,
        ).oid  # fmt: skip

    def find_own(head: str) -> str | None:
        for commit in hub.commits(repo, head):
            if commit == planned.base:
                return None
            held = hub.files(repo, commit)
            if all(_content(data).equals(held.get(path)) for path, data in planned.files.items()):
                return commit
        return None

    def moved(head: str) -> ArmError:
        return _MovedError(
            f"someone else published meanwhile: this rests on {planned.base}, the head is {head}; nothing was changed",
            where=planned.url, next_command="run the same command again",
        )  # fmt: skip

    return on_head(hub, repo, planned.base, create, find_own, moved)


def _content(data: bytes) -> Content:
    return Content(sha256_hex(data), len(data), data)
