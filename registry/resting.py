"""What a release has to say, and may rest on: whoever finds it must be able to follow it to all that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..builders.spec import BuildSpec
from ..hub_sync.forms import CHECKPOINT
from ..hub_sync.release import Remote
from ..schemas.errors import ArmError
from ..schemas.manifest import manifest_of
from . import graph
from .models import ModelSpec
from .nodes import ModelNode
from .sources.references import Reference

if TYPE_CHECKING:
    from .declaration import Registry
    from .plan import Step


def rests_on_unpublished(registry: Registry, spec: BuildSpec, before: Mapping[str, Step]) -> Iterator[ArmError]:
    """Whoever reads a version must be able to follow it to the versions that it rests on."""
    for reference in registry.references[spec.name]:
        if reference is None or not reference.is_version:
            continue
        mine = graph.own(registry, reference)
        if mine and mine.name in before:
            if before[mine.name].status == "refused":
                yield ArmError(f"rests on {reference}, which is refused", where=spec.name)
            continue
        yield from _unlike_published(registry, reference, graph.dataset_of(registry, reference), mine, spec.name)


def _unlike_published(
    registry: Registry, reference: Reference, identity: str, mine: BuildSpec | None, name: str
) -> Iterator[ArmError]:
    """``name`` rests on a dataset that has to be published with this identity."""
    refs = registry.hub.refs(reference.repo)
    commit = refs and refs.tags.get(reference.revision)
    manifest = Remote.read(registry.hub, reference.repo, commit).manifest if commit else None
    if manifest is None:
        fix = f"arm push {mine.name}" if mine else f"arm lock --update {name}"
        yield ArmError(f"rests on {reference}, which is not published", where=name, next_command=fix)
    elif manifest["identity_sha256"] != identity:
        yield ArmError(
            f"rests on {reference} as it is built here, and another build is published under that version",
            where=name, next_command="raise the version of the one, and name it in the other",
        )  # fmt: skip


def lacks_words(node: ModelNode) -> Iterator[ArmError]:
    """What a declaration lacks that whoever finds the checkpoint has to be told."""
    spec, where = node.spec, str(node.registry.path)
    if node.registry.alone:
        yield ArmError(
            "no registry declares this recipe, and only what is declared is published", where=where,
            next_command=f"in a registry.yaml: models: [{{name: {spec.name}, version: \"1.0.0\", "
            f"recipe: {spec.recipe.path.name}, license: apache-2.0}}]",
        )  # fmt: skip
    elif spec.license is None:
        yield ArmError(
            f"{spec.name} has no licence: nobody would know what they may do with it", where=where,
            next_command=f"models: {spec.name}: license: apache-2.0   # one that the base model and the data allow",
        )  # fmt: skip


def rests_on_nothing(registry: Registry, spec: ModelSpec, before: Mapping[str, Step]) -> Iterator[ArmError]:
    """The dataset and the checkpoint that it rests on have to be published as they were read: its card names them."""
    reference = spec.dataset
    assert not isinstance(reference, Path)  # else no registry declares it
    mine = graph.own(registry, reference)
    if mine and mine.name in before and before[mine.name].status != "nothing":
        yield ArmError(
            f"rests on {reference}, which is not published yet: the card names its commit", where=spec.name,
            next_command=f"arm apply --name {mine.name}   # then plan again",
        )  # fmt: skip
    elif mine:
        yield from _unlike_published(registry, reference, graph.dataset_of(registry, reference), mine, spec.name)
    else:  # arm.lock holds the commit of it, and of a checkpoint: both are published
        for one in spec.references:
            registry.read_lock().of(one, registry.path)


def refuse_unnamed(folder: Path) -> None:
    """Raise ArmError for a checkpoint that does not say what others may do with it, or what others can have."""
    manifest = manifest_of(folder, CHECKPOINT.schema)
    identity = manifest["identity"]
    if identity["license"] is None:
        raise ArmError(
            "has no licence: nobody would know what they may do with it", where=str(folder),
            next_command="declare it in a registry.yaml, models: license: apache-2.0, and arm train",
        )  # fmt: skip
    for name, part in (("dataset", identity["dataset"]), ("base model", manifest["checkpoint"]["base"])):
        if part["repo"] is None:
            raise ArmError(
                f"rests on a {name} in a folder, which nobody else can have", where=str(folder),
                next_command=f"publish the {name}, and name it in the recipe",
            )  # fmt: skip
