"""``arm lock``: what each reference stands for is asked once and written down; no build ever decides it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ...builders.manifest import PACKAGES
from ...builders.spec import BuildSpec
from ...builders.views import load as load_prompt
from ...hub_sync.hub import Hub
from ...hub_sync.release import manifest_at
from ...schemas import manifest as manifests
from ...schemas.errors import ArmError, UsageError
from ...schemas.ids import canonical_json, file_sha256, sha256_hex
from .. import graph
from .lock import Lock, Locked
from .lock import update as update_file
from .references import Reference, matching

if TYPE_CHECKING:
    from ..declaration import Registry


def lock(registry: Registry, *, update: bool, names: tuple[str, ...]) -> list[str]:
    """See `Registry.lock`."""
    renewed = _renewed(registry, names) if update else set()
    before = registry.read_lock()
    hub = registry.hub
    models = hub.of("model")
    references = {
        reference.key: before.references[reference.key]
        if reference.key in before.references and reference.key not in renewed
        else _resolve(models if reference.kind == "model" else hub, reference)
        for reference in graph.references(registry)
    }
    if registry.alone:  # other recipes of the folder have their references in the same file
        references = {**before.references, **references}
    found = replace(_local(registry, before), references=references)
    # What was published meanwhile is another process's word, not ours to lose.
    written = update_file(registry.lock_path, lambda now: replace(found, published=now.published))
    return list(_changes(before, written))


def problems(registry: Registry) -> list[str]:
    """See `Registry.lock_problems`."""
    now = registry.read_lock()
    found = [f"{reference} is not locked" for reference in graph.unlocked(registry)]
    wanted = {reference.key for reference in graph.references(registry)}
    unused = [key for key in now.references if key not in wanted and not registry.alone]
    found += [f"{_name(key)} is locked, and nothing names it" for key in unused]
    return [*found, *_changes(now, _local(registry, now))]


def recorded(registry: Registry, identity: Mapping[str, Any]) -> None:
    """Note in arm.lock what a build read; datasets that are no longer declared leave it."""
    own = [source for source in identity["sources"] if not source.get("origin")]
    entry = {
        "version": identity["version"],
        "sources": {file["path"]: file["sha256"] for source in own for file in source["files"]},
        "prompts": {prompt["id"]: prompt["sha256"] for prompt in identity["prompts"]},
    }
    declared = {spec.name for spec in registry.datasets}

    def change(lock: Lock) -> Lock:
        kept = {name: found for name, found in lock.datasets.items() if name in declared}
        return replace(lock, datasets={**kept, identity["name"]: entry}, packages=_packages())

    update_file(registry.lock_path, change)


def _renewed(registry: Registry, names: tuple[str, ...]) -> set[tuple[str, str, str, str]]:
    """Keys of the references of the datasets and models ``names``, of all without names. Raises UsageError."""
    keys = {spec.name: {r.key for r in registry.references[spec.name] if r} for spec in registry.datasets}
    keys |= {model.name: {reference.key for reference in model.references} for model in registry.models}
    if unknown := [name for name in names if name not in keys]:
        raise UsageError(f"there is no dataset or model {unknown[0]!r}; there are {', '.join(keys)}")
    return set().union(*(keys[name] for name in names or keys))


def _resolve(hub: Hub, reference: Reference) -> Locked:
    """Ask the Hub. Raises ArmError that names the revisions, or files, that there are."""
    repo, revision = reference.repo, reference.revision
    commit = hub.resolve(repo, revision)
    where = f"{hub.url(repo)} at {revision}"
    if reference.is_version:
        return Locked(commit, _identity(hub, reference, commit, where))
    if reference.file is None:  # a base model: its commit says it all
        return Locked(commit)
    files = hub.files(repo, commit)
    named = matching(reference.file, files)
    if not named:
        held = ", ".join(sorted(files)[:8]) + (", ..." if len(files) > 8 else "")
        raise ArmError(f"holds no file {reference.file}; it holds {held}", where=where)
    pinned = {
        name: (files[name].sha256 or sha256_hex(hub.read(repo, files[name], commit)), files[name].size)
        for name in named
    }
    return Locked(commit, None, pinned)


def _identity(hub: Hub, reference: Reference, commit: str, where: str) -> str:
    _, manifest = manifest_at(hub, reference.repo, commit)
    identity = manifest["identity"]
    if identity["version"] != reference.version:
        raise ArmError(f"holds version {identity['version']}, and not {reference.version}", where=where)
    if (digest := manifests.identity_digest(identity)) != manifest["identity_sha256"]:
        raise ArmError(f"has the identity {digest}, and says {manifest['identity_sha256']}", where=where)
    return digest


def _local(registry: Registry, lock: Lock) -> Lock:
    """``lock`` with what this machine says: files of the publisher, prompts, recipes, packages."""
    models = {
        model.name: {"version": model.version, "recipe_sha256": sha256_hex(canonical_json(dict(model.recipe.data)))}
        for model in registry.models
    }
    return replace(
        lock,
        datasets=lock.datasets if registry.alone else {spec.name: _dataset(spec) for spec in registry.datasets},
        models={**lock.models, **models} if registry.alone else models,
        packages=_packages(),
    )


def _packages() -> dict[str, str]:
    return {name: metadata.version(name) for name in PACKAGES}


def _dataset(spec: BuildSpec) -> dict[str, Any]:
    own = [source for source in spec.sources if source.origin is None]
    prompts = [load_prompt(part.prompt) for part in (spec.selection, spec.pairs) if part]
    return {
        "version": spec.version,
        "sources": {name: file_sha256(path) for source in own for name, path in source.files},
        "prompts": {prompt.id: prompt.sha256 for prompt in prompts},
    }


def _changes(before: Lock, after: Lock) -> Iterator[str]:
    """What differs, in words."""
    for key in sorted({*before.references, *after.references}):
        name = _name(key)
        old, new = before.references.get(key), after.references.get(key)
        if old == new:
            continue
        if old is None and new is not None:
            yield f"{name} is {new.commit}"
        elif new is None:
            yield f"{name} is no longer named"
        elif old is not None:
            moved = f"{old.commit} -> {new.commit}" if old.commit != new.commit else "other content at the same commit"
            yield f"{name}: {moved}"
    for mine, theirs in ((before.datasets, after.datasets), (before.models, after.models)):
        for name in sorted({*mine, *theirs}):
            yield from (f"{name}: {said}" for said in _differing(mine.get(name), theirs.get(name)))
    if before.packages:
        yield from (f"package {said}" for said in _differing(before.packages, after.packages))
    elif after.packages:
        yield f"versions of {len(after.packages)} packages are noted"


def _differing(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[str]:
    """Differences of two entries, keys of inner mappings by their own name."""
    if not before or not after:
        if before != after:
            yield "is new" if after else "is gone"
        return
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (f"{key}: {said}" for said in _differing(old, new) or ())
        elif old != new:
            if old is None or new is None:
                yield f"{key} {'is new' if old is None else 'is gone'}"
            else:
                yield f"{key} {old[:12]} -> {new[:12]}"


def _name(key: tuple[str, str, str, str]) -> str:
    _, repo, revision, file = key
    return f"{repo}@{revision}" + (f": {file}" if file else "")
