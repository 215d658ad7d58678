"""The manifest of a checkpoint (`model_manifest/1`): what it is, made in memory for the card and written last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from .. import __version__
from ..schemas import manifest as manifests
from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256
from ..schemas.manifest import NAME, identity_digest, is_safe_path
from ..schemas.validate import for_schema

CARD, SCHEMA = "README.md", "model_manifest/1"
FOLDER: Mapping[str, None] = {"repo": None, "revision": None, "commit": None}  # where a model in a folder is from


def identity(
    recipe: Mapping[str, Any], *, name: str, namespace: str, version: str, dataset: Mapping[str, Any],
    base: Mapping[str, Any] | None = None, init_from: Mapping[str, Any] | None = None, license: str | None = None,
    description: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Everything that decides whether a checkpoint is new.

    dataset: {repo, revision, identity_sha256}. base: {repo, revision, commit, sha256}, or init_from: {repo, revision,
    commit}; exactly one of them is given.
    """
    assert (base is None) != (init_from is None)
    return {
        "name": name,
        "namespace": namespace,
        "version": version,
        "license": license,
        "description": description,
        "recipe": dict(recipe),
        "dataset": dict(dataset),
        "base": None if base is None else dict(base),
        "init_from": None if init_from is None else dict(init_from),
    }


def trained_from(made: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an `identity` that decide weights and figures: names, versions and revisions are words for them."""
    kept: dict[str, Any] = {"recipe": made["recipe"], "dataset": made["dataset"]["identity_sha256"]}
    for key in ("base", "init_from"):
        start = made[key]
        kept[key] = start and {name: start.get(name) for name in ("repo", "commit", "sha256")}
    return kept


def weights_from(made: Mapping[str, Any]) -> dict[str, Any]:
    """The same without how the weights are evaluated, which changes none of them."""
    kept = trained_from(made)
    return {**kept, "recipe": {key: value for key, value in kept["recipe"].items() if key != "evaluation"}}


def parse(data: bytes, where: str) -> dict[str, Any]:
    """The manifest in ``data``, checked against its schema: its paths then name nothing outside a folder.

    Raises ArmError when it is none of this version.
    """
    return manifests.parse(data, where, SCHEMA)


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a finished checkpoint. Raises ArmError when there is none, and what `parse` raises."""
    return manifests.manifest_of(folder, SCHEMA)


def read(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished checkpoint, or None; a folder without a valid one is none."""
    try:
        return manifest_of(folder)
    except ArmError:
        return None


def unchanged(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished checkpoint whose files are those that it names; else None."""
    manifest = read(folder)
    if manifest is None or list(changed_files(folder, manifest)):
        return None
    return manifest


def changed_files(folder: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Paths of the files that are missing in ``folder`` or hold other bytes than ``manifest`` says."""
    for path, file in manifest["environment"]["files"].items():
        if not (folder / path).is_file() or file_sha256(folder / path) != file["sha256"]:
            yield path


def describe(
    folder: Path, made: Mapping[str, Any], *, checkpoint: Mapping[str, Any], training: Mapping[str, Any] | None,
    evaluations: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:  # fmt: skip
    """The manifest of the files that lie in ``folder`` now, the card and an older manifest left aside; not written.

    made: an `identity`. Raises ArmError for a file that no repository can hold, and when there is none.
    """
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not is_safe_path(name):
            raise ArmError("is no file that a repository can hold", where=str(path))
        if name not in (CARD, NAME):
            files[name] = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    if not files:
        raise ArmError("holds no file of a checkpoint", where=str(folder))
    manifest = {
        "model_manifest": 1,
        "identity_sha256": identity_digest(made),
        "identity": dict(made),
        "checkpoint": dict(checkpoint),
        "training": None if training is None else dict(training),
        "evaluations": [dict(one) for one in evaluations],
        "environment": {
            "files": files,
            "action_reward_models": __version__,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }
    if problems := for_schema(SCHEMA).problems(manifest):
        raise ArmError(f"the manifest breaks its schema, which is a defect: {problems[:3]}")
    return manifest


def write(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, last: a folder that holds one is complete."""
    (folder / NAME).write_bytes(dumped(manifest))


def dumped(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of ``manifest.json``."""
    return orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
