"""What rests on what in a registry, and where the inputs of each node lie: references become local files here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..builders.gathering import Progress
from ..builders.spec import BuildSpec, Origin, SourceSpec
from ..schemas.errors import ArmError
from .generated import Made
from .models import ModelSpec
from .sources.references import Reference
from .staleness import read_manifest

if TYPE_CHECKING:
    from .declaration import Registry


def own(registry: Registry, reference: Reference | None) -> BuildSpec | None:
    """The dataset of this registry that ``reference`` names at its declared version, if it is one."""
    if reference is None or not reference.is_version or reference.kind != "dataset":
        return None
    return next(
        (
            spec
            for spec in registry.datasets
            if reference.repo == f"{spec.namespace}/{spec.name}" and reference.version == spec.version
        ),
        None,
    )


def needs(registry: Registry, spec: BuildSpec | ModelSpec) -> list[BuildSpec]:
    """The datasets of this registry that ``spec`` rests on, each once."""
    references = spec.references if isinstance(spec, ModelSpec) else registry.references[spec.name]
    found = {need.name: need for reference in references if (need := own(registry, reference))}
    return list(found.values())


def order(registry: Registry) -> list[BuildSpec]:
    """The datasets, each after those that it rests on, else in the order of the file."""
    done: dict[str, BuildSpec] = {}

    def visit(spec: BuildSpec) -> None:  # circles were refused when the file was read
        if spec.name not in done:
            for need in needs(registry, spec):
                visit(need)
            done[spec.name] = spec

    for spec in registry.datasets:
        visit(spec)
    return list(done.values())


def unlocked(registry: Registry) -> list[Reference]:
    """The references that arm.lock does not hold, in the order of the file; the registry's own builds need none."""
    known = registry.read_lock().references
    return [reference for reference in references(registry) if reference.key not in known]


def references(registry: Registry) -> list[Reference]:
    """Every reference that arm.lock has to hold, each once, in the order of the file."""
    listed = [r for spec in registry.datasets for r in registry.references[spec.name] if r]
    listed += [reference for model in registry.models for reference in model.references]
    return list({r.key: r for r in listed if own(registry, r) is None}.values())


def resolved(registry: Registry, spec: BuildSpec, progress: Progress) -> BuildSpec:
    """``spec`` with local files for what its sources refer to, downloaded by commit unless they are there.

    Raises ArmError for a reference that arm.lock does not hold, a dataset of this registry that is not built as
    declared, a file that cannot be had or that no model has made yet, and for records that two sources read.
    """
    for made in registry.awaited.get(spec.name, {}).values():
        raise not_made(registry, made)
    return with_files(registry, spec, registry.references[spec.name], progress)


def not_made(registry: Registry, made: Made) -> ArmError:
    """The error of a file that a model makes and that is not there."""
    return ArmError(made.absent, where=str(registry.path), next_command=making(registry, made))


def making(registry: Registry, made: Made, action: str = "run") -> str:
    """The command that makes a file. ``action``: of `arm label`."""
    verb = ("sample",) if made.verb == "sample" else ("label", action)
    names = ("--name", made.dataset) if len({m.dataset for m in registry.made}) > 1 else ()
    return shlex.join(["arm", *verb, str(registry.path), *names])


def with_files(
    registry: Registry, spec: BuildSpec, declared: Sequence[Reference | None], progress: Progress
) -> BuildSpec:  # fmt: skip
    """``spec``, of whose sources each refers to what ``declared`` says, with local files."""
    if not any(declared):
        return spec
    identities: dict[Reference, str] = {}  # all tables of a version are of one build, whose files are hashed once
    sources = tuple(
        _files(registry, source, reference, identities, progress) if reference else source
        for source, reference in zip(spec.sources, declared, strict=True)
    )
    first: dict[Path, int] = {}
    for number, source in enumerate(sources):
        for name, path in source.files:
            if first.setdefault(path.resolve(), number) != number:
                raise ArmError(
                    f"{name} is read by sources[{first[path.resolve()]}] and by sources[{number}] of {spec.name}; "
                    "records are read once",
                    where=str(registry.path), next_command="name it in one source",
                )  # fmt: skip
    return replace(spec, sources=sources)


def dataset_of(registry: Registry, reference: Reference) -> str:
    """The identity of a version of a dataset: of the registry's own build, or as arm.lock holds it. Raises ArmError."""
    spec = own(registry, reference)
    if spec is None:
        found = registry.read_lock().of(reference, registry.path).identity_sha256
        assert found is not None
        return found
    if why := registry.reasons(spec.name):
        raise ArmError(
            f"rests on {spec.name} {spec.version}, which is not built as declared: {'; '.join(why[:3])}",
            where=str(registry.path), next_command=f"arm build {registry.path} --name {spec.name}",
        )  # fmt: skip
    manifest = read_manifest(registry.folder(spec))
    assert manifest is not None
    return str(manifest["identity_sha256"])


def _files(
    registry: Registry, source: SourceSpec, reference: Reference, identities: dict[Reference, str], progress: Progress
) -> SourceSpec:
    """``source`` with its files. ``identities`` are those of the versions so far."""
    if reference.is_version:
        if reference not in identities:
            identities[reference] = dataset_of(registry, reference)
        identity = identities[reference]
        mine = own(registry, reference)
        commit = None if mine else registry.read_lock().of(reference, registry.path).commit
        built = registry.folder(mine) if mine else None
        path = registry.store.table(
            registry.hub, reference.repo, reference.version, commit, identity, source.kind, built, progress
        )
        origin = Origin(reference.repo, reference.revision, identity_sha256=identity)
        return replace(source, origin=origin, files=((f"{reference.repo}@{reference.revision}/{source.kind}", path),))
    locked = registry.read_lock().of(reference, registry.path)
    found = registry.store.raw(registry.hub, reference.repo, locked.commit, locked.files, progress)
    origin = Origin(reference.repo, reference.revision, commit=locked.commit)
    files = sorted((f"{reference.repo}@{reference.revision}/{name}", path) for name, path in found.items())
    return replace(source, origin=origin, files=tuple(files))
