"""What a repository tells about itself."""

from __future__ import annotations

import sqlite3
from typing import Any

from . import revisions
from .card_yaml import README_LIMIT, card_data
from .cards import card_tags
from .content import siblings
from .errors import HubError
from .git import Git
from .store import Repo, Store

_COMMON = """
    author cardData createdAt disabled downloads downloadsAllTime gated lastModified likes private resourceGroup sha
    siblings tags trendingScore usedStorage
"""
_MODEL = """
    baseModels childrenModelCount config evalResults gguf inference inferenceProviderMapping library_name mask_token
    model-index pipeline_tag safetensors securityRepoStatus spaces transformersInfo widgetData
"""
_EXPANDABLE = {
    "model": {*_COMMON.split(), *_MODEL.split()},
    "dataset": {*_COMMON.split(), "citation", "description", "mainSize", "paperswithcode_id"},
    "space": {*_COMMON.split(), "datasets", "models", "runtime", "sdk", "subdomain"},
}


def check_expand(kind: str, expand: list[str]) -> None:
    """Raises HubError 400 for a property that no repository of this type has."""
    unknown = sorted(set(expand) - _EXPANDABLE[kind])
    if unknown:
        raise HubError(
            400, f'"expand" must be one of [{", ".join(sorted(_EXPANDABLE[kind]))}], not {", ".join(unknown)}'
        )


def repo_info(
    hub: Store, db: sqlite3.Connection, repo: Repo, rev: str = "main", *, expand: list[str] | None = None,
    blobs: bool = False, files: bool = True, card: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """The info of a repository at a revision; with ``expand`` only those properties. Raises HubError 404."""
    sha = revisions.resolve(db, repo.uid, rev).sha
    git = Git(hub.git_folder(repo))
    data = metadata(git, sha) or {}
    used = db.execute("SELECT coalesce(sum(size), 0) AS n FROM objects WHERE repo = ?", (repo.uid,)).fetchone()
    full: dict[str, Any] = {
        "author": repo.namespace,
        "sha": sha,
        "lastModified": git.commit(sha).date,
        "createdAt": repo.created,
        "private": repo.private,
        "gated": repo.gated or False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [*card_tags(data), "region:us"],
        "usedStorage": used["n"],
    }
    if expand:
        full |= {"downloadsAllTime": 0, "trendingScore": 0}
    if card or "cardData" in (expand or ()):
        full["cardData"] = data
    if files or "siblings" in (expand or ()):
        full["siblings"] = siblings(db, git, repo.uid, sha, blobs=blobs)
    full |= _of_type(repo, data)
    if expand:
        full = {key: full[key] for key in expand if key in full}
    return {"_id": repo.uid[:24], "id": repo.id, **full}


def metadata(git: Git, sha: str) -> dict[str, Any] | None:
    """The metadata of the card at a commit."""
    entry = git.entry(sha, "README.md")
    if entry is None or entry.is_folder or git.size(entry.oid) > README_LIMIT:
        return None
    return card_data(git.blob(entry.oid))


def _of_type(repo: Repo, data: dict[str, Any]) -> dict[str, Any]:
    if repo.type == "model":
        found = {
            key: data[key] for key in ("library_name", "pipeline_tag", "mask_token") if isinstance(data.get(key), str)
        }
        if isinstance(data.get("model-index"), list):
            found["model-index"] = data["model-index"]
        return {"modelId": repo.id, **found}
    if repo.type == "space":
        return {"sdk": repo.sdk, "subdomain": f"{repo.namespace}-{repo.name}".lower()}
    return {"description": None, "citation": None}
