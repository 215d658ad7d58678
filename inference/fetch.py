"""Checkpoints and base models from the Hub, at a commit: safetensors and plain text, nothing that can run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..schemas.errors import ArmError
from . import contract as contracts
from .adapter import read_config
from .base import FILES
from .contract import Contract

IGNORED = ("*/*.safetensors",)  # other forms of the same weights
_OFFICIAL = "https://huggingface.co"


def checkpoint(repo: str, revision: str) -> Path:
    """Folder of the published checkpoint. Raises ArmError when it cannot be had."""
    return snapshot(repo, revision)


def base_of(folder: Path, contract: Contract) -> Path:
    """Folder of the base model that the checkpoint in ``folder`` names, fetched at its commit.

    Raises ArmError when it was trained on a folder, and when the adapter names another base than the contract.
    """
    said = contract["base"]
    if said["repo"] is None or said["commit"] is None:
        raise ArmError(
            "was trained on a base model in a folder; say where that is", where=str(folder),
            next_command="--base FOLDER   # in Python base=FOLDER",
        )  # fmt: skip
    if contract["layout"] == "adapter":
        config = read_config(folder)
        for key, name in (("repo", "base_model_name_or_path"), ("commit", "revision")):
            if config.get(name) != said[key]:
                raise contracts.differs(
                    f"{folder}/adapter_config.json $.{name}", f"base.{key}", said[key], config.get(name)
                )
    return snapshot(said["repo"], said["commit"])


def snapshot(repo: str, revision: str, files: Sequence[str] = FILES) -> Path:
    """The files of one commit, which ``revision`` names now; without a connection, of the one that it named last."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(
            huggingface_hub.snapshot_download(
                repo, revision=revision, token=_token(), allow_patterns=list(files), ignore_patterns=list(IGNORED)
            )
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        told, advice = _reason(error, repo, revision)
        raise ArmError(f"cannot be fetched: {told}", where=f"{repo}@{revision}", next_command=advice) from error


def _reason(error: Exception, repo: str, revision: str) -> tuple[str, str | None]:
    """(What happened, on one line, what to do if that is known)."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    where = os.environ.get("HF_ENDPOINT", _OFFICIAL).rpartition("@")[2].rpartition("://")[2].rstrip("/")
    if isinstance(error, RevisionNotFoundError):
        return f"{where} has no revision {revision!r} of it", f"arm log models/{repo}   # its versions"
    if isinstance(error, RepositoryNotFoundError) and not isinstance(error, GatedRepoError):
        told = f"{where} has no checkpoint or model of this name, or this token may not see it"
        return told, "export HF_ENDPOINT=...   # of the Hub that has it; or HF_TOKEN=... of one who may see it"
    if isinstance(error, LocalEntryNotFoundError):
        told = f"it is not on this machine, and {where} cannot be asked ({error.__cause__ or 'HF_HUB_OFFLINE is set'})"
        return told, "is there a network? is the Hub running? (HF_ENDPOINT, HF_HUB_OFFLINE)"
    refused = isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403)
    return " ".join(str(error).split()), "export HF_TOKEN=...   # of one who may see it" if refused else None


def _token() -> Any:
    """HF_TOKEN; the login that is saved on this machine belongs to the official Hub and is sent to no other."""
    if token := os.environ.get("HF_TOKEN"):
        return token
    return None if os.environ.get("HF_ENDPOINT", _OFFICIAL).rstrip("/") == _OFFICIAL else False
