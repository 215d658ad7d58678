"""What is known of a checkpoint that came back from the Hub: that it loads, and scores as the one that was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..builders.gathering import Progress
from ..recipes.manifest import manifest_of
from .nodes import ModelNode

if TYPE_CHECKING:
    from .declaration import Registry

Compare = Callable[..., Mapping[str, Any]]  # the signature of `recipes.probe.compare`


def reloading(
    registry: Registry | None, sent: Path | None, progress: Progress = lambda *_: None
) -> Callable[[Path], Mapping[str, Any]]:
    """A function that loads a downloaded checkpoint in a process of its own: `hub_sync.publish.Reload`.

    sent: the folder that was published, whose scores have to be the same. registry: that which declares it, if there
    is one: it knows where the base model lies.
    """

    def reload(folder: Path) -> Mapping[str, Any]:
        manifest = manifest_of(folder)
        from ..recipes.probe import compare

        run: Compare = (registry.compare if registry else None) or compare
        return run(
            [folder, *([sent] if sent else [])], base=_base(registry, manifest, progress),
            checkpoint=manifest["checkpoint"], where=f"{manifest['identity']['namespace']}/"
            f"{manifest['identity']['name']}",
        )  # fmt: skip

    return reload


def _base(registry: Registry | None, manifest: Mapping[str, Any], progress: Progress) -> Path | None:
    """The folder of the base model, where a registry keeps one."""
    if registry is None:
        return None
    spec = next((spec for spec in registry.models if spec.name == manifest["identity"]["name"]), None)
    return ModelNode(registry, spec).base_of(manifest, progress) if spec else None
