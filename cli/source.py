"""What a verb is pointed at: a folder, NS/NAME[@REVISION] on the Hub, or a NAME of ./registry.yaml, in this order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..builders.spec import BuildSpec
    from ..hub_sync.hub import Hub
    from ..registry import Registry
    from ..registry.models import ModelSpec


def place(source: str) -> Path | tuple[str, str] | None:
    """A folder that is there, (repository, revision), or None for what can only be a name."""
    if Path(source).is_dir():
        return Path(source)
    return split(source.partition("/")[2] if typed(source) else source) if "/" in source else None


def typed(source: str) -> str | None:
    """The type of repository that ``models/NS/NAME`` or ``datasets/NS/NAME`` names; None of plain ``NS/NAME``."""
    kind, _, rest = source.partition("@")[0].partition("/")
    return {"models": "model", "datasets": "dataset"}.get(kind) if "/" in rest else None


def split(source: str) -> tuple[str, str]:
    """``namespace/name@revision`` -> (repository, revision), `main` without one."""
    from ..hub_sync.hub import checked_repo_id

    repo, _, revision = source.partition("@")
    return checked_repo_id(repo), revision or "main"


def located(source: str, hub: Hub) -> tuple[Hub, str, str]:
    """(The Hub of its type, repository, revision) of ``NS/NAME[@REVISION]``.

    A name may be that of a dataset and of a checkpoint: the dataset is meant, unless ``models/`` stands before it.
    """
    if kind := typed(source):
        return hub.of(kind), *split(source.partition("/")[2])
    repo, revision = split(source)
    if hub.refs(repo) is None and (models := hub.of("model")).refs(repo) is not None:
        return models, repo, revision
    return hub, repo, revision


def declared(name: str) -> tuple[Registry, BuildSpec | ModelSpec]:
    """The dataset or checkpoint NAME of ./registry.yaml. Raises UsageError, which says what else could be meant."""
    from ..registry import Registry
    from ..schemas.errors import UsageError

    if not Path("registry.yaml").is_file():
        raise UsageError(
            "is no folder and no NS/NAME on the Hub, and there is no registry.yaml here that could name it", where=name,
            next_command="name a built directory, or NS/NAME@v1.0.0",
        )  # fmt: skip
    registry = Registry.load("registry.yaml")
    specs: list[BuildSpec | ModelSpec] = [*registry.datasets, *registry.models]
    known = {spec.name: spec for spec in specs}
    if name not in known:
        raise UsageError(f"there is no dataset or checkpoint {name!r}; there are {', '.join(known)}")
    return registry, known[name]


def built(name: str) -> Path:
    """What was made last of NAME of ./registry.yaml. Raises UsageError for an unknown name, ArmError for none made."""
    from ..registry.models import ModelSpec
    from ..schemas.errors import ArmError

    registry, spec = declared(name)
    folder = registry.folder(spec)
    if not (folder / "manifest.json").is_file():
        build, train = f"arm build --name {name}", f"arm train --name {name}"
        raise ArmError(
            f"{name} is not built yet", where="registry.yaml",
            next_command=train if isinstance(spec, ModelSpec) else build,
        )  # fmt: skip
    return folder
