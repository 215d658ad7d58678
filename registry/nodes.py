"""Checkpoints in the graph: whether one is what its recipe asks for, and how it is made."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..builders.gathering import Progress
from ..inference.base import folder_sha256
from ..recipes import manifest as manifests
from ..recipes.inputs import Inputs
from ..schemas.errors import ArmError
from ..schemas.manifest import identity_digest, manifest_of
from . import graph
from .models import ModelSpec
from .sources.models import Models
from .staleness import differences

if TYPE_CHECKING:
    from .declaration import Registry


class Make(Protocol):
    """What trains: the signature of `recipes.run.make`, which is the one that is used unless another is given."""

    def __call__(
        self, inputs: Inputs, work: Path, out: Path, *, smoke: int | None = None, restart: bool = False,
        progress: Progress,
    ) -> dict[str, Any] | None: ...  # fmt: skip


@dataclass(frozen=True)
class ModelNode:
    """One checkpoint of a registry. A dataset is asked the same of `Registry`: its reasons, and to be built."""

    registry: Registry
    spec: ModelSpec

    @property
    def folder(self) -> Path:
        return self.registry.folder(self.spec)

    @property
    def work(self) -> Path:
        """Where training leaves what the next run goes on with."""
        return self.folder.with_name(f".{self.spec.name}-training")

    @property
    def command(self) -> str:
        """The command that trains it."""
        path = self.registry.path
        names = [] if self.registry.alone else ["--name", self.spec.name]
        shown = [] if path == Path("registry.yaml") else [str(path)]
        return shlex.join(["arm", "train", *shown, *names])

    def reasons(self) -> list[str]:
        """Why it must be trained (again); empty when it is up to date. What it is called is no reason.

        Raises ArmError for a reference that arm.lock does not hold, and for a dataset that is not built as declared.
        """
        wanted = self.identity
        manifest = manifests.read(self.folder)
        if manifest is None:
            return ["there is no checkpoint yet"]
        before = manifests.trained_from(manifest["identity"])
        found = list(differences(before, manifests.trained_from(wanted)))
        return found + [f"{path} is missing or changed" for path in manifests.changed_files(self.folder, manifest)]

    @property
    def keeps_weights(self) -> bool:
        """Whether building it only evaluates the weights that are there anew."""
        last = manifests.unchanged(self.folder)
        return last is not None and manifests.weights_from(last["identity"]) == manifests.weights_from(self.identity)

    def build(
        self, *, smoke: int | None = None, restart: bool = False, progress: Progress = lambda *_: None
    ) -> dict[str, Any] | None:
        """Train it and return the manifest, which is written last: see `recipes.run.make`.

        A failure leaves the last checkpoint, and what was done of this one in `work`.

        smoke: only so many steps, to see that all of it works. restart: forget what an earlier run left.
        Raises ArmError for what `inputs` raises, and what training does.
        """
        inputs = self.inputs(progress)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        return self._make(inputs, self.work, self.folder, smoke=smoke, restart=restart, progress=progress)

    @property
    def _make(self) -> Make:
        if self.registry.make is not None:
            return self.registry.make
        from ..recipes.run import make

        return make

    def inputs(self, progress: Progress = lambda *_: None) -> Inputs:
        """Its recipe with local files for all that it refers to, downloaded by commit unless they are here.

        Raises ArmError for what arm.lock does not hold, what cannot be had, and a checkpoint that cannot be trained on.
        """
        spec, identity = self.spec, self.identity
        dataset, dataset_commit = self._dataset(progress)
        if spec.recipe.data.get("init_from") is None:
            base = self._base(progress)
            source = {key: identity["base"][key] for key in ("repo", "commit", "sha256")}
            return Inputs(spec.recipe, identity, dataset, dataset_commit, base, source)
        assert not isinstance(spec.start, Path)
        start = self._models.build("model", spec.start.repo, self._locked(spec.start), progress)
        parent = manifests.manifest_of(start)["checkpoint"]
        source, where = parent["base"], f"{spec.start}"
        if parent["kind"] != spec.recipe.kind:
            raise ArmError(
                f"rests on {where}, which is a {parent['kind']}, and the recipe is of a {spec.recipe.kind}",
                where=str(spec.recipe.path), next_command="init_from: a checkpoint of the same kind",
            )  # fmt: skip
        if parent["layout"] != "adapter" or source["repo"] is None:
            what = "was merged" if parent["layout"] != "adapter" else "names no base model that others can have"
            message = f"rests on {where}, which {what}: its LoRA cannot be trained further"
            raise ArmError(message, where=str(spec.recipe.path), next_command="init_from: a published adapter")
        seen = self._seen(manifests.manifest_of(start), dataset)
        base = self._models.base(source["repo"], source["commit"], progress)
        return Inputs(spec.recipe, identity, dataset, dataset_commit, base, source, start, seen)

    def _seen(self, parent: Mapping[str, Any], dataset: Path) -> frozenset[str]:
        """Tasks that the checkpoint which is trained further, and those before it, were trained on.

        Raises ArmError when they cannot be known: an evaluation could ask about them, and nobody would see it.
        """
        if self.spec.recipe.evaluation is None:
            return frozenset()
        from .evaluating import trained_on

        found = trained_on(self.registry.hub, parent, dataset)
        if found.unknown:
            raise ArmError(
                f"is trained further, and which tasks it was trained on is not known: {'; '.join(found.unknown)}",
                where=str(self.spec.start), next_command="evaluation: none   # in the recipe; then arm evaluate",
            )  # fmt: skip
        return frozenset(found.groups)

    def base_of(self, manifest: Mapping[str, Any], progress: Progress = lambda *_: None) -> Path | None:
        """The folder of the base model that a checkpoint of this registry rests on; None when it needs none."""
        checkpoint = manifest["checkpoint"]
        if checkpoint["layout"] == "merged":
            return None
        source = checkpoint["base"]
        if source["repo"] is None:
            return self.spec.start if isinstance(self.spec.start, Path) else None
        return self._models.base(source["repo"], source["commit"], progress)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What the manifest has to say of it; as it is when it is first asked for."""
        spec = self.spec
        if isinstance(spec.dataset, Path):
            dataset = {"repo": None, "revision": None,
                       "identity_sha256": identity_digest(manifest_of(spec.dataset)["identity"])}  # fmt: skip
        else:
            dataset = {"repo": spec.dataset.repo, "revision": spec.dataset.revision,
                       "identity_sha256": graph.dataset_of(self.registry, spec.dataset)}  # fmt: skip
        start: dict[str, Any]
        if isinstance(spec.start, Path):
            start = {**manifests.FOLDER, "sha256": folder_sha256(spec.start)}
        else:
            start = {
                "repo": spec.start.repo,
                "revision": spec.start.revision,
                "commit": self._locked(spec.start).commit,
            }
        from_checkpoint = "init_from" in spec.recipe.data
        return manifests.identity(
            spec.recipe.data, name=spec.name, namespace=spec.namespace, version=spec.version, dataset=dataset,
            base=None if from_checkpoint else {"sha256": None, **start}, init_from=start if from_checkpoint else None,
            license=spec.license, description=spec.description,
        )  # fmt: skip

    # -- what it is called, after it was trained -----------------------------------------------------------------------

    def relabel(self) -> list[str]:
        """Let a trained checkpoint say what it is called now, without training it; returns what was said otherwise.

        Name, version, licence and description of registry.yaml, the commit of a dataset that was published since, and
        what this version of the project would write on the card, which keeps a person's words. Nothing is changed in
        weights, figures or predictions.
        """
        manifest = manifests.manifest_of(self.folder)
        identity, evaluations = self.identity, list(self._evaluations(manifest))
        changes = list(differences(manifest["identity"], identity))
        if evaluations != manifest["evaluations"]:
            changes.append("the commit of the dataset is known now")
        if not changes and self._written_otherwise(manifest):
            changes.append("the card, as this version writes it")
        if changes:
            self._rewrite({**manifest, "identity": identity, "evaluations": evaluations})
        return changes

    def _written_otherwise(self, manifest: dict[str, Any]) -> bool:
        """Whether card or results are not what this version makes of the manifest."""
        from ..cards import model as cards

        texts = {**cards.eval_results(manifest), manifests.CARD: self._card(manifest)}
        return any(
            not (self.folder / path).is_file() or (self.folder / path).read_text("utf-8") != text
            for path, text in texts.items()
        )

    def _card(self, manifest: dict[str, Any]) -> str:
        """The card of ``manifest``, with the words of a person that stand on the one that lies there."""
        from ..cards import model as cards

        path = self.folder / manifests.CARD
        if path.is_symlink():
            raise ArmError("is a link, and no card of a checkpoint", where=str(path), next_command=f"rm {path}")
        try:
            return cards.merge(path.read_text("utf-8"), manifest) if path.is_file() else cards.render(manifest)
        except UnicodeDecodeError as error:
            raise ArmError(f"is not UTF-8: {error.reason} at byte {error.start}", where=str(path)) from error
        except ArmError as error:
            raise ArmError(error.message, where=str(path), next_command=error.next_command) from error

    def _evaluations(self, manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The evaluations with the commit of the dataset, where that is published as it was read."""
        dataset = self.identity["dataset"]
        commit = self.dataset_commit
        for one in manifest["evaluations"]:
            said = one["dataset"]
            same = said["repo"] == dataset["repo"] and said["identity_sha256"] == dataset["identity_sha256"]
            if not same or said["commit"] is not None:
                yield one
                continue
            reports = [{**report, "dataset_commit": commit} for report in one["reports"]]
            yield {**one, "dataset": {**said, "commit": commit}, "reports": reports}

    def _rewrite(self, manifest: dict[str, Any]) -> None:
        """Write what follows from a manifest that says other words, the manifest last."""
        from ..cards import model as cards

        for path, text in cards.eval_results(manifest).items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text, "utf-8")
        made = manifests.describe(
            self.folder, manifest["identity"], checkpoint=manifest["checkpoint"], training=manifest["training"],
            evaluations=manifest["evaluations"],
        )  # fmt: skip
        made["environment"] = {**made["environment"], "created": manifest["environment"]["created"]}
        work = self.folder.with_name(f".{self.spec.name}-card")  # beside it: what lies in it is listed
        work.write_text(self._card(made), "utf-8")
        work.replace(self.folder / manifests.CARD)
        manifests.write(self.folder, made)

    # -- inputs -------------------------------------------------------------------------------------------------------

    @property
    def _models(self) -> Models:
        return Models(self.registry.store.folder, self.registry.hub)

    def _locked(self, reference: Any) -> Any:
        return self.registry.read_lock().of(reference, self.registry.path)

    @property
    def dataset_commit(self) -> str | None:
        """The commit of the dataset; None for one that is not published as it was read."""
        reference = self.spec.dataset
        if isinstance(reference, Path):
            return None
        mine = graph.own(self.registry, reference)
        if mine is None:
            return str(self._locked(reference).commit)
        said = self.registry.read_lock().published.get(mine.name, {}).get(mine.version)
        same = said and (said["repo"], said["identity_sha256"]) == (
            reference.repo,
            self.identity["dataset"]["identity_sha256"],
        )
        return str(said["commit"]) if said and same else None

    def _dataset(self, progress: Progress) -> tuple[Path, str | None]:
        """(The built directory of the dataset: the registry's own, or the published one; its commit)."""
        reference = self.spec.dataset
        if isinstance(reference, Path):
            return reference, None
        if mine := graph.own(self.registry, reference):
            return self.registry.folder(mine), self.dataset_commit
        return self._models.build("dataset", reference.repo, self._locked(reference), progress), self.dataset_commit

    def _base(self, progress: Progress) -> Path:
        start = self.spec.start
        if isinstance(start, Path):
            return start
        return self._models.base(start.repo, self._locked(start).commit, progress)
