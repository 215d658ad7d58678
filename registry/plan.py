"""What would change: the declaration, its builds and the Hub compared, version rule and order included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..builders.gathering import Progress
from ..builders.spec import BuildSpec
from ..hub_sync import plan as push
from ..hub_sync.forms import CHECKPOINT, DATASET, Form
from ..hub_sync.hub import Hub, status_of, transient
from ..hub_sync.release import CARD, Keep, Release, Remote
from ..schemas.built import row_digest
from ..schemas.errors import ArmError, UsageError
from ..schemas.manifest import manifest_of
from . import bumps
from .builds import check_build, check_checkpoint, form_of
from .diff import Diff, Side, compare
from .endpoints import Known
from .models import ModelSpec
from .nodes import ModelNode
from .resting import lacks_words, refuse_unnamed, rests_on_nothing, rests_on_unpublished
from .standing import Standing, advised, standings

if TYPE_CHECKING:
    from .declaration import Registry

Status = Literal["publish", "nothing", "refused"]


@dataclass(frozen=True)
class Options:
    """How to publish, for all steps: see `hub_sync.plan.plan`. ``repo`` is for a plan of one dataset only.

    endpoints: the endpoints.yaml with the prices of what is not asked yet; see `registry.endpoints`.
    """

    repo: str | None = None
    private: bool = False
    keep: Keep | None = None
    overwrite: bool = False
    endpoints: Path | None = None


@dataclass(frozen=True)
class Step:
    """What would happen to one dataset or checkpoint.

    ``built``: why it was built by this plan, empty when it was up to date; of a checkpoint, which is not trained by a
    plan, what its manifest and card say otherwise now. ``last``: the version published last.
    ``level``: the bump that the change needs, and ``because`` of what. ``diff`` is None of a checkpoint, where nothing
    changes, and where something refuses before rows can be compared. ``generated``: how far the files are that models
    make. ``refusals`` stop `apply`, each with what to write or run.
    """

    name: str
    version: str
    repo: str
    status: Status
    built: tuple[str, ...] = ()
    last: str | None = None
    level: bumps.Level = bumps.Level.NONE
    because: tuple[str, ...] = ()
    diff: Diff | None = None
    push: push.Plan | None = None
    notes: tuple[str, ...] = ()
    generated: tuple[Standing, ...] = ()
    refusals: tuple[ArmError, ...] = ()
    form: Form = DATASET

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.form.kind,
            "version": self.version,
            "repo": self.repo,
            "status": self.status,
            "built": list(self.built),
            "last": self.last,
            "bump": str(self.level),
            "because": list(self.because),
            "diff": self.diff and self.diff.to_json(),
            "publish": self.push and self.push.to_json(),
            "notes": list(self.notes),
            "generated": [found.to_json() for found in self.generated],
            "refusals": [error.to_json() for error in self.refusals],
        }


@dataclass(frozen=True)
class Plan:
    """The steps in the order in which they would be taken: a dataset after those that it rests on, then checkpoints."""

    endpoint: str
    steps: tuple[Step, ...]

    @property
    def refusals(self) -> tuple[ArmError, ...]:
        return tuple(error for step in self.steps for error in step.refusals)

    @property
    def to_publish(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.status == "publish")

    @property
    def nothing(self) -> bool:
        """Whether all is as declared."""
        return not self.to_publish and not self.refusals

    def to_json(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "nothing": self.nothing,
            "steps": [step.to_json() for step in self.steps],
        }


def plan(
    registry: Registry, *, names: Iterable[str] = (), options: Options | None = None, workers: int | None = None,
    progress: Progress = lambda *_: None,
) -> Plan:  # fmt: skip
    """Build what is stale, check the builds, and compare them with the Hub. Nothing there is changed.

    A checkpoint is never trained by a plan, which may take hours: one that is not trained as declared is refused.

    ``names`` are datasets and models; all without any. What is wrong with one of them becomes a refusal of its step,
    and the others are still planned, unless it is that the Hub gives no answer: it is not asked again.
    Raises ArmError for a registry or lock that cannot be read, UsageError for a name that is not declared.
    """
    options = options or Options()
    known = [*(spec.name for spec in registry.datasets), *(spec.name for spec in registry.models)]
    wanted = set(names) or set(known)
    if unknown := sorted(wanted - set(known)):
        raise UsageError(f"there is no dataset or model {unknown[0]!r}; there are {', '.join(known)}")
    if options.repo and len(wanted) > 1:
        raise UsageError("another repository is for one dataset", next_command="--name NAME --repo NS/NAME")
    steps: dict[str, Step] = {}
    silent: ArmError | None = None
    for spec in registry.order():
        if spec.name not in wanted:
            continue
        step = _step(spec, options)
        if silent:
            step = replace(step, refusals=(silent,))
        else:
            step = _dataset(registry, spec, step, options, workers, progress, steps)
            silent = next((error for error in step.refusals if _gave_no_answer(error)), None)
        steps[spec.name] = step
    for model in registry.models:
        if model.name in wanted:
            step = _step(model, options)
            steps[model.name] = (
                replace(step, refusals=(silent,)) if silent else _model(registry, model, step, options, progress, steps)
            )
    return Plan(registry.hub.endpoint, tuple(steps.values()))


def plan_folder(
    folder: Path, hub: Hub, *, options: Options | None = None, progress: Progress = lambda *_: None
) -> Plan:
    """The plan for one built directory, whatever declared it. Raises ArmError when it holds no manifest."""
    form = form_of(folder)
    identity = manifest_of(folder, form.schema)["identity"]
    options = options or Options()
    repo = options.repo or f"{identity['namespace']}/{identity['name']}"
    step = Step(identity["name"], identity["version"], repo, "refused", form=form)
    try:
        if form is CHECKPOINT:
            refuse_unnamed(folder)
        step = _published(step, folder, hub, options, progress)
    except ArmError as error:
        step = replace(step, status="refused", refusals=(error,))
    return Plan(hub.endpoint, (step,))


def _step(spec: BuildSpec | ModelSpec, options: Options) -> Step:
    form = CHECKPOINT if isinstance(spec, ModelSpec) else DATASET
    return Step(spec.name, spec.version, options.repo or f"{spec.namespace}/{spec.name}", "refused", form=form)


def _gave_no_answer(error: ArmError) -> bool:
    cause = error.__cause__
    return isinstance(cause, Exception) and transient(cause) is not None and status_of(cause) is None


def _dataset(
    registry: Registry, spec: BuildSpec, step: Step, options: Options, workers: int | None, progress: Progress,
    before: Mapping[str, Step],
) -> Step:  # fmt: skip
    """``before`` are the steps that come before this one."""
    try:
        if any(made.dataset == spec.name for made in registry.made):
            found, remarks = standings(registry, spec, Known.of(registry.path.parent, options.endpoints), progress)
            step = replace(step, generated=tuple(found), notes=tuple(remarks))
        _, why = registry.build(spec.name, workers=workers, progress=progress)
        step = replace(step, built=tuple(why))
        step = _published(step, registry.folder(spec), registry.hub, options, progress)
        if step.status == "publish":
            if note := _unseen(registry, step):
                step = replace(step, notes=(*step.notes, note))
            refusals = (*_incomplete(registry, step), *rests_on_unpublished(registry, spec, before))
            step = replace(step, status="refused" if refusals else "publish", refusals=refusals)
    except ArmError as error:
        return replace(step, status="refused", refusals=(error,))
    return step


def _published(step: Step, folder: Path, hub: Hub, options: Options, progress: Progress) -> Step:
    """``step`` for a built directory, compared with what is published. Raises ArmError for what refuses it."""
    hub = hub.of(step.form.repo_type)
    check = check_build if step.form is DATASET else check_checkpoint
    try:
        planned = push.plan(
            folder, hub, check=lambda path: check(path, progress), repo=options.repo, private=options.private,
            keep=options.keep, overwrite=options.overwrite, row_digest=row_digest, progress=progress,
        )  # fmt: skip
    except push.VersionTakenError as error:
        if error.last.manifest is None:
            raise
        # What stands at the tag is other content: what the next version has to be follows from the difference.
        return _compared(step, folder, hub, error.last, error.release, None, progress)
    if planned.tagged:
        return replace(step, status="nothing", push=planned, last=step.version)
    return _compared(step, folder, hub, planned.last, planned.release, planned, progress)


def _compared(
    step: Step, folder: Path, hub: Hub, last: Remote | None, release: Release, planned: push.Plan | None,
    progress: Progress,
) -> Step:  # fmt: skip
    """``step`` with what changes since ``last``, and refused when its version does not fit. No ``planned``: taken."""
    source = release.files[CARD].source
    assert isinstance(source, bytes)
    card = source.decode()  # with the words that a person left on the Hub
    diff = _rows(step, folder, hub, last, release, card, progress) if step.form is DATASET else None
    if last is None or last.manifest is None:
        return replace(step, status="publish", push=planned, diff=diff)
    published = last.manifest["identity"]["version"]
    changed = last.card is None or step.form.words(last.card) != step.form.words(card)
    needed = bumps.needed if step.form is DATASET else bumps.needed_by_checkpoint
    level, because = needed(last.manifest, release.manifest, card_changed=changed)
    step = replace(step, last=published, level=level, because=tuple(because), diff=diff, push=planned)
    right = bumps.fits(published, step.version, level)
    if planned is None:  # the tag of that version, or of an older one, holds other content
        right = right or bumps.next_version(published, max(level, bumps.Level.PATCH))
    if right is not None:
        return replace(step, status="refused", refusals=(_wrong_version(step, right, last.commit),))
    if bumps.larger_than_needed(published, step.version, level):
        note = f"{published} -> {step.version} is more than the change needs, which is a {level} bump"
        if level is bumps.Level.NONE:
            note = "nothing changed but the version"
        step = replace(step, notes=(*step.notes, note))
    return replace(step, status="publish")


def _rows(
    step: Step, folder: Path, hub: Hub, last: Remote | None, release: Release, card: str, progress: Progress
) -> Diff:
    """What differs in the rows of a dataset since ``last``."""
    after = Side.folder(folder)
    after.card = card
    if last is None or last.manifest is None:
        return compare(None, after, progress)
    with Side.revision(hub, step.repo, last.commit) as before:
        # Those were downloaded, and their rows are those that are built.
        held = {path: file.sha256 for path, file in last.files.items()}
        kept = {path for path, file in release.files.items() if file.source is None and file.sha256 == held.get(path)}
        return compare(before, after, progress, same=kept)


def _wrong_version(step: Step, right: str, commit: str) -> ArmError:
    """``commit`` is that of the version published last."""
    if step.version == step.last:
        message = f"v{step.version} is published at {commit} with other content"
    else:
        message = f"{step.version} does not fit after {step.last}"
    why = "; ".join(step.because[:3])
    return ArmError(
        f"{message}: the change asks for a {step.level} bump ({why})" if why else message, where=step.name,
        next_command=f'raise the version in registry.yaml: version: "{right}"',
    )  # fmt: skip


def _unseen(registry: Registry, step: Step) -> str | None:
    """What to say when arm.lock knows of versions where the Hub shows no repository at all."""
    known = {v for v, at in registry.read_lock().published.get(step.name, {}).items() if at["repo"] == step.repo}
    if step.push is None or step.push.base is not None or not known:
        return None
    return (
        f"arm.lock says that {', '.join(sorted(known))} of {step.repo} was published, and {registry.hub.endpoint} "
        "shows no such repository: is it another Hub, or a private repository and no token (HF_ENDPOINT, HF_TOKEN)?"
    )


def _incomplete(registry: Registry, step: Step) -> Iterator[ArmError]:
    """A version holds what was declared: what failed is told, and what was never asked would be missing."""
    for found in step.generated:
        if not found.whole:
            advice = None if found.waits else advised(registry, found)
            yield ArmError(f"{found.made.name}: {found.lacks}", where=step.name, next_command=advice)


def _model(
    registry: Registry, spec: ModelSpec, step: Step, options: Options, progress: Progress, before: Mapping[str, Step]
) -> Step:
    """``before`` are the steps of the datasets."""
    node = ModelNode(registry, spec)
    try:
        if refusals := tuple(lacks_words(node)):
            return replace(step, refusals=refusals)
        if why := node.reasons():
            raise ArmError(
                f"is to be trained first: {'; '.join(why[:5])}", where=step.name,
                next_command=f"{node.command}   # a plan trains nothing; the datasets alone: arm apply --name DATASET",
            )  # fmt: skip
        if refusals := tuple(rests_on_nothing(registry, spec, before)):
            return replace(step, refusals=refusals)
        step = replace(step, built=tuple(node.relabel()))
        step = _published(step, node.folder, registry.hub, options, progress)
        if step.status == "publish" and (note := _unseen(registry, step)):
            step = replace(step, notes=(*step.notes, note))
    except ArmError as error:
        return replace(step, status="refused", refusals=(error,))
    return step
