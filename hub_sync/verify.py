"""Is a revision, or a folder, what it says? Files, rows, digests, the card, and loading it with stock ``datasets``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cards.dataset import misleading
from ..schemas.errors import ArmError, Issue
from ..schemas.manifest import manifest_of
from ..schemas.parquet import expands
from ..schemas.versions import of_tag
from . import forms, readback
from .forms import CHECKPOINT, DATASET, Form
from .hub import Hub, checked_repo_id
from .pull import download
from .release import CARD, MANIFEST, manifest_at
from .yank import warning

Progress = Callable[[str, int, int], None]
Reload = Callable[[Path], Mapping[str, Any]]  # as in `publish`


@dataclass(frozen=True)
class Verified:
    """What was found. ``loaded``: table -> split -> rows that stock ``datasets`` gave; a folder has no ``commit``.
    ``scored``: of a checkpoint that was loaded, how many conversations, and how far scores are from those stored.

    ``warnings`` are no issues: the version is what it says, and was withdrawn since.
    """

    where: str
    commit: str | None
    identity_sha256: str
    issues: tuple[Issue, ...]
    loaded: dict[str, dict[str, int]]
    warnings: tuple[str, ...] = ()
    scored: Mapping[str, Any] | None = None


def verify_revision(
    hub: Hub, repo: str, revision: str, check: Callable[[Path, Progress], list[Issue]],
    progress: Progress = lambda *_: None, reload: Reload | None = None,
) -> Verified:  # fmt: skip
    """Download a revision anew and verify it. ``check`` returns the issues of a built directory.

    Every row is loaded from the downloaded files, and one shard per table and split from the Hub itself; a checkpoint
    is loaded by ``reload``, if that is given. Raises ArmError when there is no such revision, or no manifest in it.
    """
    commit = hub.resolve(checked_repo_id(repo), revision)
    where = f"{hub.url(repo)} at {commit}"
    files, manifest = manifest_at(hub, repo, commit)
    names = {*manifest["environment"]["files"], MANIFEST, CARD}
    issues = _tag(revision, manifest)
    with tempfile.TemporaryDirectory(prefix="arm-verify-") as work:
        folder = Path(work)
        listed = [file for name, file in sorted(files.items()) if name in names]
        for name in download(hub, repo, commit, listed, folder, progress):
            issues.append(Issue(name, 0, "$", "arrives with other bytes than the Hub lists"))
        issues += [_shown(issue, folder) for issue in check(folder, progress)]
        loaded: dict[str, dict[str, int]] = {}
        scored, form = None, forms.of(hub)
        if form is CHECKPOINT:
            scored, problem = _scored(folder, reload if not issues else None)
            issues += problem
        elif _loadable(folder, manifest):
            loaded, problem = _load(hub, str(folder), None, manifest, progress)
            issues += problem or _load(hub, repo, commit, manifest, progress)[1]
    for name in form.strays(manifest, set(files) - names):
        issues.append(Issue(name, 0, "$", "is not in the manifest, and loaders read it"))
    said = warning(hub, repo, manifest["identity"]["version"])
    return Verified(
        where, commit, manifest["identity_sha256"], tuple(sorted(set(issues))), loaded, (said,) if said else (), scored
    )


def verify_folder(
    folder: Path, check: Callable[[Path, Progress], list[Issue]], progress: Progress = lambda *_: None,
    form: Form = DATASET, reload: Reload | None = None,
) -> Verified:  # fmt: skip
    """Verify a built directory in the same way. Raises ArmError when it holds no manifest."""
    manifest = manifest_of(folder, form.schema)
    issues = list(check(folder, progress))
    loaded: dict[str, dict[str, int]] = {}
    scored = None
    if form is CHECKPOINT:
        scored, problem = _scored(folder, reload if not issues else None)
        issues += problem
    elif _loadable(folder, manifest):
        loaded, problem = _load(Hub(), str(folder.resolve()), None, manifest, progress)
        issues += problem
    return Verified(str(folder), None, manifest["identity_sha256"], tuple(sorted(set(issues))), loaded, scored=scored)


def _scored(folder: Path, reload: Reload | None) -> tuple[Mapping[str, Any] | None, list[Issue]]:
    """What came of loading a checkpoint whose files are right; nothing where nobody asked for it."""
    if reload is None:
        return None, []
    try:
        return reload(folder), []
    except ArmError as error:
        return None, [Issue(MANIFEST, 0, "$.checkpoint", error.message.replace(f"{folder}/", ""))]


def _tag(revision: str, manifest: Mapping[str, Any]) -> list[Issue]:
    version = manifest["identity"]["version"]
    if of_tag(revision) and revision != f"v{version}":
        return [Issue(MANIFEST, 0, "$.identity.version", f"is {version}, and the tag is {revision}")]
    return []


def _loadable(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether stock `datasets` may be let at it: it follows whatever the card names, and expands whatever lies there.

    What is wrong with either is an issue of the folder already.
    """
    card = folder / CARD
    if not card.is_file() or misleading(card.read_text("utf-8", errors="replace"), dict(manifest)):
        return False
    files = (folder / name for name in manifest["environment"]["files"] if name.endswith(".parquet"))
    return not any(expands(path) for path in files if path.is_file())


def _load(
    hub: Hub, source: str, commit: str | None, manifest: Mapping[str, Any], progress: Progress
) -> tuple[dict[str, dict[str, int]], list[Issue]]:
    """Every row of a folder, or one shard per table and split of a repository at ``commit``."""
    try:
        return readback.load(hub, source, commit, manifest, full=commit is None, progress=progress), []
    except ArmError as error:
        return {}, [Issue(CARD, 0, "$", error.message)]


def _shown(issue: Issue, folder: Path) -> Issue:
    """Without the temporary folder in its file name."""
    return Issue(issue.file.replace(f"{folder}/", ""), issue.line, issue.path, issue.message)
