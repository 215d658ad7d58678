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
            "was trained on a base model in a folder; say where that is", where=str(folder), next_command="base=FOLDER"
        )
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
        raise ArmError(f"cannot be fetched: {str(error).strip()}", where=f"{repo}@{revision}") from error


def _token() -> Any:
    """HF_TOKEN; the login that is saved on this machine belongs to the official Hub and is sent to no other."""
    if token := os.environ.get("HF_TOKEN"):
        return token
    return None if os.environ.get("HF_ENDPOINT", _OFFICIAL).rstrip("/") == _OFFICIAL else False
