"""The registry: what registry.yaml declares, and everything that can be done with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..builders.gathering import Progress
from ..builders.runner import Built, build, check
from ..builders.spec import BuildSpec
from ..cards.dataset import merge, render
from ..cards.figures import figures
from ..schemas.errors import ArmError, Issue, UsageError
from . import graph
from .alone import is_recipe, of_recipe
from .generated import Made
from .models import ModelSpec
from .reading import declaration
from .sources.lock import NAME as LOCK
from .sources.lock import Lock
from .sources.references import Reference
from .sources.store import Store
from .staleness import read_manifest, reasons

if TYPE_CHECKING:
    from ..hub_sync.hub import Hub
    from ..hub_sync.publish import Published
    from .nodes import Make, ModelNode
    from .plan import Options, Plan
    from .reloading import Compare


@dataclass(frozen=True)
class Registry:
    """A checked registry.yaml; ``datasets`` and ``models`` are in the order of the file.

    ``references`` gives, per dataset, what each source refers to on the Hub (None: the publisher's own files).
    ``make`` trains checkpoints; None: `recipes.run.make`. ``compare`` loads them back; None: `recipes.probe.compare`.
    ``given_hub`` is the Hub to talk to; None: the environment's.
    ``made`` are the files that models make; ``awaited`` gives, per dataset and number of a source, those that are not
    there yet. ``alone``: it is a recipe that no registry declares; its arm.lock may be that of other recipes, too.
    """

    path: Path
    namespace: str
    datasets: tuple[BuildSpec, ...]
    models: tuple[ModelSpec, ...] = ()
    references: Mapping[str, tuple[Reference | None, ...]] = field(default_factory=dict)
    make: Make | None = None
    compare: Compare | None = None
    given_hub: Hub | None = None
    made: tuple[Made, ...] = ()
    awaited: Mapping[str, Mapping[int, Made]] = field(default_factory=dict)
    alone: bool = False

    @classmethod
    def load(
        cls, path: Path | str = "registry.yaml", *, hub: Hub | None = None, make: Make | None = None,
        compare: Compare | None = None,
    ) -> Registry:  # fmt: skip
        """Read ``path``. Raises ArmError with every problem of the file (``file:line $.path``).

        ``path`` may also be a recipe: the registry is then the one that declares it, in its folder or above, or that
        recipe ``alone``. ``hub`` is the Hub to talk to, by default the one that HF_ENDPOINT and HF_TOKEN name.
        ``make`` trains checkpoints instead of `recipes.run.make`, ``compare`` loads them back instead of
        `recipes.probe.compare`.
        """
        path = Path(path)
        if path.is_dir():
            path /= "registry.yaml"
        if not path.is_file():
            name = Path("registry.yaml").is_file() and len(path.parts) == 1 and not path.suffix
            fix = f"--name {path}   # if it is one of ./registry.yaml" if name else "arm init   # writes one"
            raise UsageError("there is no such registry", where=str(path), next_command=fix)
        if is_recipe(path):
            return of_recipe(path, hub=hub, make=make, compare=compare)[0]
        declared = declaration(path)
        return cls(
            path, declared.namespace, declared.datasets, declared.models, declared.references, make, compare, hub,
            declared.made, declared.awaited,
        )  # fmt: skip

    def dataset(self, name: str | None = None) -> BuildSpec:
        """The dataset called ``name``; without a name, the only one. Raises UsageError with the known names."""
        found = [spec for spec in self.datasets if name in (None, spec.name)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(spec.name for spec in self.datasets)
        raise UsageError(f"there is no dataset {name!r}; there are {known}" if name else f"which dataset? {known}")

    def model(self, name: str) -> ModelNode:
        """The checkpoint called ``name``: its reasons to be trained, and to build it. Raises UsageError."""
        from .nodes import ModelNode

        for spec in self.models:
            if spec.name == name:
                return ModelNode(self, spec)
        known = ", ".join(spec.name for spec in self.models) or "none"
        raise UsageError(f"there is no model {name!r}; there are {known}")

    def folder(self, spec: BuildSpec | ModelSpec) -> Path:
        """Where ``spec`` is built unless another folder is asked for: ``build/<name>`` beside the registry."""
        return self.path.parent / "build" / spec.name

    @property
    def lock_path(self) -> Path:
        return self.path.parent / LOCK

    @cached_property
    def hub(self) -> Hub:
        """The Hub that its references are on and that it publishes to. Made when it is first needed."""
        if self.given_hub is not None:
            return self.given_hub
        from ..hub_sync.hub import Hub

        return Hub()

    @cached_property
    def store(self) -> Store:
        """The files of the Hub that the builds read, kept below ``build``."""
        return Store(self.path.parent / "build" / ".sources")

    def read_lock(self) -> Lock:
        """arm.lock as it is now; an empty one when there is none. Raises ArmError for a damaged one."""
        return Lock.read(self.lock_path)

    def order(self) -> list[BuildSpec]:
        """The datasets, each after those of this registry that it rests on."""
        return graph.order(self)

    def resolved(self, name: str | None = None, progress: Progress = lambda *_: None) -> BuildSpec:
        """The dataset with local files for everything that its sources refer to, downloaded by commit and checked.

        What was downloaded once is used without the network. Raises ArmError for a reference that arm.lock does not
        hold, and for a dataset of this registry that it rests on and that is not built as declared.
        """
        return graph.resolved(self, self.dataset(name), progress)

    def reasons(self, name: str | None = None, *, out: Path | None = None) -> list[str]:
        """Why the dataset must be built (again); empty when it is up to date. Raises as `resolved` does."""
        spec = self.resolved(name)
        return reasons(spec, out or self.folder(spec))

    def build(
        self, name: str | None = None, *, out: Path | None = None, workers: int | None = None,
        executor: Executor | None = None, force: bool = False, progress: Progress = lambda *_: None,
    ) -> tuple[Built | None, list[str]]:  # fmt: skip
        """Build one dataset if it is stale (or with ``force``) and return (the build or None, the reasons for it).

        ``executor`` is any `concurrent.futures` executor, such as Dask's, whose workers see the same files. Until a
        version is published, gates that are violated only warn. arm.lock takes down what was read, unless ``out`` is
        another folder than the registry's own. Raises ArmError for problems of the sources and for what `resolved`
        raises.
        """
        spec = self.resolved(name, progress)
        folder = out or self.folder(spec)
        why = reasons(spec, folder) or (["--force"] if force else [])
        built = None
        if why:
            written = _card(folder)
            built = build(
                spec,
                folder,
                card=lambda manifest: merge(written, manifest) if written else render(manifest),
                figures=figures,
                workers=workers,
                executor=executor,
                enforce=bool(self.read_lock().published.get(spec.name)),
                progress=progress,
            )
        if out is None:
            from .sources.locking import recorded

            manifest = built.manifest if built else read_manifest(folder)
            assert manifest is not None
            recorded(self, manifest["identity"])
        return built, why

    def check(
        self, name: str | None = None, *, workers: int | None = None, progress: Progress = lambda *_: None
    ) -> tuple[list[Issue], dict[str, Any]]:
        """Read all sources of one dataset as a build would, write nothing: (every issue, the account per stage)."""
        return check(self.resolved(name, progress), workers=workers, progress=progress)

    def lock(self, *, update: bool = False, names: tuple[str, ...] = ()) -> list[str]:
        """Resolve what arm.lock does not hold yet and write it; return what changed, in words.

        ``update`` resolves anew what is there already: of the datasets and models ``names``, or of all.
        Raises ArmError for a reference that the Hub does not have; nothing is written then.
        """
        from .sources.locking import lock

        return lock(self, update=update, names=names)

    def lock_problems(self) -> list[str]:
        """What arm.lock does not say as it is now, in words, without the network; empty when it is right."""
        from .sources.locking import problems

        return problems(self)

    def plan(
        self, *, names: Iterable[str] = (), options: Options | None = None, workers: int | None = None,
        progress: Progress = lambda *_: None,
    ) -> Plan:  # fmt: skip
        """Build what is stale, check it, and compare it with the Hub; see `registry.plan.plan`. Publishes nothing."""
        from .plan import plan

        return plan(self, names=names, options=options, workers=workers, progress=progress)

    def apply(
        self, plan: Plan, *, stage: bool = False, full: bool = False, allow_findings: bool = False,
        progress: Progress = lambda *_: None,
    ) -> list[Published]:  # fmt: skip
        """Publish what ``plan`` shows, and note it in arm.lock; see `registry.apply.apply`."""
        from .apply import apply

        return apply(
            plan, self.hub, registry=self, stage=stage, full=full, allow_findings=allow_findings, progress=progress
        )  # fmt: skip


def _card(folder: Path) -> str:
    """The card of the last build, whose person's words survive the next; "" without one.

    Raises ArmError when they could not, before anything is built.
    """
    card, manifest = folder / "README.md", read_manifest(folder)
    if manifest is None or not card.is_file():
        return ""
    if card.is_symlink():  # a registry may come with one, and what it leads to would be published
        raise ArmError("is a link, and no card of a build", where=str(card), next_command=f"rm {card}")
    try:
        text = card.read_text("utf-8")
        merge(text, manifest)
    except UnicodeDecodeError as error:
        raise ArmError(f"is not UTF-8: {error.reason} at byte {error.start}", where=str(card)) from error
    except ArmError as error:
        raise ArmError(error.message, where=str(card), next_command=error.next_command) from error
    return text
