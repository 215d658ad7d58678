"""What of a recipe's references is at hand, for `recipes.checks`: on this machine, and small files from the Hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ..inference.processor import FILES
from ..recipes.checks import Checked, Given, Skipped, check
from ..schemas.errors import ArmError, Issue
from ..schemas.manifest import NAME as MANIFEST
from ..schemas.yamlfile import YamlFile, read
from .sources.lock import NAME as LOCK
from .sources.lock import Lock
from .sources.references import Reference, repo_problem, version_of

if TYPE_CHECKING:
    from ..hub_sync.hub import Hub

_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_NAME = "registry.yaml"
_PLAIN = ("config.json", "generation_config.json", *FILES)  # of a base: what it is, without its weights
_OF_CHECKPOINT = (MANIFEST, "adapter_config.json", *FILES)


def check_recipe(path: Path, *, hub: Hub | None, sample: int) -> Checked:
    """Check the recipe in ``path`` with what is at hand; ``hub`` (of models) None: nothing is asked of the network.

    A dataset is looked for among the builds of the registries in the recipe's folder and above it; a base model in its
    folder, in the cache of huggingface_hub, and on ``hub``, whose small files are fetched at the pinned commit. Raises
    ArmError for a recipe that is not of its form.
    """
    file = read(path, "recipe/1")
    target, namespace = _target(path)
    issues, skipped = [], []
    lock = Lock.read((target or path).parent / LOCK)
    given = Given(target=target)
    for part, find in (("dataset", _dataset), ("base", _base), ("init_from", _start)):
        if part not in file.data:
            continue
        try:
            given = find(given, file, namespace, lock, hub)
        except _UnpinnedError as error:
            name = "start" if part == "init_from" else part
            given = _absent(given, name, str(error), error.then)
            if part == "init_from":
                given = _absent(given, "base", str(error), error.then)
            if hub is None:
                skipped.append(Skipped("references", str(error), error.then))
            else:
                issues.append(Issue(str(path), file.line(f"$.{error.key}"), f"$.{error.key}", f"{error}; {error.then}"))
        except ValueError as error:
            issues.append(Issue(str(path), file.line(f"$.{part}"), f"$.{part}", str(error)))
            given = _absent(given, part, f"{part} names nothing", "mend it")
    found = check(path, given, sample=sample)
    return Checked(tuple(sorted([*issues, *found.issues])), (*skipped, *found.skipped), found.counts)


class _UnpinnedError(ArmError):
    """A reference for which arm.lock holds no commit. ``key``: place in the recipe. ``then``: what pins it."""

    def __init__(self, reference: Reference, key: str, lock: Path) -> None:
        self.key, self.then = key, f"arm lock {lock}"
        super().__init__(f"{reference} is not pinned: {LOCK} holds no commit of it")

    def __str__(self) -> str:
        return self.message


def _target(path: Path) -> tuple[Path | None, str]:
    """(The registry.yaml whose models name this recipe, its namespace); without one (None, "")."""
    for registry in _registries(path):
        data = read(registry, "registry/1").data
        for model in data.get("models", []):
            if (registry.parent / model["recipe"]).resolve() == path.resolve():
                return registry, data["namespace"]
    return None, ""


def _registries(path: Path) -> Iterator[Path]:
    """The registry.yaml files in the recipe's folder and above it, nearest first."""
    yield from (folder / _NAME for folder in path.resolve().parents if (folder / _NAME).is_file())


def _dataset(given: Given, file: YamlFile, namespace: str, lock: Lock, hub: Hub | None) -> Given:
    declared = file.data["dataset"]
    if isinstance(declared, dict):
        return _folder(given, "dataset", file, declared["folder"], MANIFEST)
    reference = version_of(declared, "dataset", namespace)
    for registry in _registries(file.path):
        folder = registry.parent / "build" / reference.repo.split("/")[1]
        if _is(folder, reference):
            return replace(given, dataset=folder)
    if hub is not None and reference.key not in lock.references:
        raise _UnpinnedError(reference, "dataset", file.path)
    name = reference.repo.split("/")[1]
    then = f"arm pull {reference} --out build/{name}, beside a {_NAME}; or arm build there"
    return _absent(given, "dataset", f"{reference} is not on this machine", then)


def _is(folder: Path, reference: Reference) -> bool:
    """Whether the build in ``folder`` is this version of this dataset."""
    try:
        identity = orjson.loads((folder / MANIFEST).read_bytes())["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return (f"{identity['namespace']}/{identity['name']}", identity["version"]) == (reference.repo, reference.version)


def _base(given: Given, file: YamlFile, namespace: str, lock: Lock, hub: Hub | None) -> Given:
    declared = file.data["base"]
    if "folder" in declared:
        return _folder(given, "base", file, declared["folder"], "config.json")
    if problem := repo_problem(declared["model"]):
        raise ValueError(problem)
    reference = Reference("model", declared["model"], declared["revision"])
    commit = _commit(reference, lock, "base.revision", file)
    return _fetched(given, "base", reference.repo, commit, _PLAIN, hub)


def _start(given: Given, file: YamlFile, namespace: str, lock: Lock, hub: Hub | None) -> Given:
    """The checkpoint that is trained further, and its base, which its manifest names."""
    reference = version_of(file.data["init_from"], "model", namespace)
    commit = _commit(reference, lock, "init_from", file)
    given = _fetched(given, "start", reference.repo, commit, _OF_CHECKPOINT, hub)
    if given.start is None:
        return _absent(given, "base", *given.absent["start"])
    base = orjson.loads((given.start / MANIFEST).read_bytes())["checkpoint"]["base"]
    if base["repo"] is None or base["commit"] is None:
        return _absent(given, "base", "the checkpoint was trained on a base in a folder", "publish that base")
    return _fetched(given, "base", base["repo"], base["commit"], _PLAIN, hub)


def _commit(reference: Reference, lock: Lock, key: str, file: YamlFile) -> str:
    if _COMMIT.fullmatch(reference.revision):
        return reference.revision
    locked = lock.references.get(reference.key)
    if locked is None:
        raise _UnpinnedError(reference, key, file.path)
    return locked.commit


def _folder(given: Given, name: str, file: YamlFile, folder: str, needed: str) -> Given:
    found = file.path.parent / folder
    if not (found / needed).is_file():
        raise ValueError(f"{found} holds no {needed}")
    return replace(given, **{name: found})


def _fetched(given: Given, name: str, repo: str, commit: str, files: tuple[str, ...], hub: Hub | None) -> Given:
    """The small files of a repository, out of the client's cache, or from ``hub``."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    where: Mapping[str, Any] = {"endpoint": hub.endpoint, "token": hub.token or False} if hub else {}
    try:
        found = Path(
            snapshot_download(repo, revision=commit, allow_patterns=list(files), local_files_only=hub is None, **where)
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        if hub is None:
            return _absent(given, name, f"{repo} is not in the cache of this machine", "run it without --offline")
        raise ArmError(f"cannot be fetched: {' '.join(str(error).split())}", where=f"{repo}@{commit}") from error
    needed = MANIFEST if name == "start" else "config.json"
    if not (found / needed).is_file():
        return _absent(given, name, f"{repo} is in the cache without {needed}", "run it without --offline")
    return replace(given, **{name: found})


def _absent(given: Given, name: str, why: str, then: str) -> Given:
    return replace(given, absent={**given.absent, name: (why, then)})
