"""Checkpoints as nodes of the graph: what a recipe asks for, and the directory that a trainer makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from .. import __version__
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import file_sha256
from ..schemas.manifest import NAME as MANIFEST
from ..schemas.manifest import identity_digest, is_safe_path
from ..schemas.validate import for_schema
from ..schemas.yamlfile import read
from .sources.references import Reference, repo_problem, version_of


@dataclass(frozen=True)
class ModelSpec:
    """One checkpoint to train: ``start`` is the base model, or the checkpoint that training goes on from."""

    name: str
    namespace: str
    version: str
    recipe: Mapping[str, Any]
    dataset: Reference
    start: Reference


@dataclass(frozen=True)
class Training:
    """What a trainer is given: the recipe, and where its inputs are. It writes the checkpoint's files to ``folder``."""

    spec: ModelSpec
    dataset: Path  # a built directory
    start_commit: str
    folder: Path


Trainer = Callable[[Training], None]


def read_recipe(name: str, namespace: str, version: str, path: Path) -> ModelSpec:
    """The checkpoint that the recipe ``path`` describes. Raises ArmError with every problem (``file:line $.path``)."""
    file = read(path, "recipe/1")
    data, issues = file.data, []

    def reference(key: str, text: str, kind: Any) -> Reference | None:
        try:
            return version_of(text, kind, namespace)
        except ValueError as error:
            issues.append(Issue(str(path), file.line(f"$.{key}"), f"$.{key}", str(error)))
            return None

    dataset = reference("dataset", data["dataset"], "dataset")
    if "base" in data:
        base = data["base"]
        start: Reference | None = Reference("model", base["model"], base["revision"])
        if problem := repo_problem(base["model"]):
            issues.append(Issue(str(path), file.line("$.base.model"), "$.base.model", problem))
    else:
        start = reference("init_from", data["init_from"], "model")
    if issues:
        raise ArmError.of(str(path), issues)
    assert dataset is not None
    assert start is not None
    return ModelSpec(name, namespace, version, data, dataset, start)


def identity(spec: ModelSpec, dataset_identity: str, start_commit: str) -> dict[str, Any]:
    """Everything that decides whether a checkpoint is new."""
    start = {"repo": spec.start.repo, "revision": spec.start.revision, "commit": start_commit}
    return {
        "name": spec.name,
        "namespace": spec.namespace,
        "version": spec.version,
        "recipe": dict(spec.recipe),
        "dataset": {
            "repo": spec.dataset.repo,
            "revision": spec.dataset.revision,
            "identity_sha256": dataset_identity,
        },
        "base": None if spec.start.is_version else start,
        "init_from": start if spec.start.is_version else None,
    }


def parse_model_manifest(data: bytes, where: str) -> dict[str, Any]:
    """The manifest in ``data``, checked against its schema. Raises ArmError when it is none of this version."""
    try:
        manifest = orjson.loads(data)
    except ValueError as error:
        raise ArmError(f"is not JSON: {error}", where=where) from error
    if problems := for_schema("model_manifest/1").problems(manifest):
        issues = [Issue(where, 0, place, message) for place, message in problems]
        raise ArmError("is no manifest of a checkpoint", where=where, issues=issues)
    assert isinstance(manifest, dict)
    return manifest


def read_model_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished checkpoint, or None; a folder without a valid one is none."""
    try:
        return parse_model_manifest((folder / MANIFEST).read_bytes(), str(folder / MANIFEST))
    except (OSError, ArmError):
        return None


def write_model_manifest(folder: Path, made: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest of the checkpoint in ``folder``, last. Raises ArmError for a file that cannot be published."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir()):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not is_safe_path(name):
            raise ArmError("is no file that a repository can hold", where=str(path))
        if name != "README.md":
            files[name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    if not files:
        raise ArmError("the trainer wrote no file", where=str(folder))
    manifest = {
        "model_manifest": 1,
        "identity_sha256": identity_digest(made),
        "identity": dict(made),
        "environment": {
            "files": files,
            "action_reward_models": __version__,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }
    if problems := for_schema("model_manifest/1").problems(manifest):
        raise ArmError(f"the manifest breaks its schema, which is a defect: {problems[:3]}")
    data = orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    (folder / MANIFEST).write_bytes(data + b"\n")
    return manifest
