"""A recipe to a finished checkpoint, stage by stage: what is finished is kept, and a failure later loses none of it."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..schemas.errors import ArmError
from ..schemas.manifest import NAME
from . import manifest as manifests
from . import work as works
from .checks import refuse
from .inputs import Inputs
from .reload import compare
from .scoring import opened
from .train import Progress, train
from .work import Work


def make(
    inputs: Inputs, work: Path, out: Path, *, smoke: int | None = None, restart: bool = False,
    progress: Progress = lambda *_: None,
) -> dict[str, Any] | None:  # fmt: skip
    """Train, load again, evaluate, describe, and move the checkpoint to ``out``. Returns its manifest.

    work: folder that keeps what is finished; it is gone at the end. restart: what it holds is deleted first.
    smoke: train so many steps, save, load again and stop: {"checkpoint", "training"}, and nothing is left behind.
    None in every process but the first, when several train together.

    Raises ArmError for whatever fails, with the command that goes on; train.Stopped when training was told to stop.
    """
    from .trainers.team import team

    together = team()
    if smoke is not None:
        return _smoke(inputs, work.with_name(f"{work.name}-smoke"), smoke, together, progress)
    if not together.first:
        together.wait()  # until the work folder is there
        if Work(work).trained() is None:
            train(inputs, Work(work), together, steps=None, progress=progress)
        return None
    _refuse_foreign(out, inputs.identity["name"])
    refuse(inputs.recipe, with_arguments=False)  # also where the weights are here already
    with works.opened(work, inputs, together.count, restart=restart) as mine:
        made = mine.trained()
        if made is None and not restart:
            made = _taken_over(inputs, mine, out)
        together.wait()
        if made is None:
            mine.forget("reloaded", "evaluated")
            made = train(inputs, mine, together, steps=None, progress=progress)
            mine.finish("weights", made)
        assert made is not None
        together.part()
        manifest = _finished(inputs, mine, made, progress)
        _move(mine, out)
    works.remove(work)
    return manifest


def _taken_over(inputs: Inputs, work: Work, out: Path) -> dict[str, Any] | None:
    """The weights of the last checkpoint, when only its evaluation is to be another one; else None."""
    last = manifests.unchanged(out)
    if last is None or last["training"] is None:
        return None
    if manifests.weights_from(last["identity"]) != manifests.weights_from(inputs.identity):
        return None
    shutil.rmtree(work.made, ignore_errors=True)
    shutil.copytree(out, work.made, ignore=lambda *_: {"evaluation", NAME, manifests.CARD})
    training = {key: value for key, value in last["training"].items() if key != "reload"}
    work.finish("reloaded", last["training"]["reload"])
    made: dict[str, Any] = work.finish("weights", {"checkpoint": last["checkpoint"], "training": training})
    return made


def _smoke(inputs: Inputs, work: Path, steps: int, together: Any, progress: Progress) -> dict[str, Any] | None:
    if not together.first:
        together.wait()
        return train(inputs, Work(work), together, steps=steps, progress=progress)
    try:
        with works.opened(work, inputs, together.count, restart=True) as mine:
            together.wait()
            made = train(inputs, mine, together, steps=steps, progress=progress)
            assert made is not None
            together.part()
            training = {**made["training"], "reload": _reloaded(inputs, mine, made, progress)}
            return {"checkpoint": made["checkpoint"], "training": training}
    finally:
        works.remove(work)


def _finished(inputs: Inputs, work: Work, made: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Everything after training. The weights stay where they are, whatever fails."""
    doing = "loading it again"
    try:
        reloaded = work.read("reloaded") or work.finish("reloaded", _reloaded(inputs, work, made, progress))
        doing = "evaluating it"
        evaluations = _evaluated(inputs, work, made, progress)
        doing = "describing it"
        progress("describing", 0, 1)
        manifest = _described(inputs, work, made["checkpoint"], {**made["training"], "reload": reloaded}, evaluations)
        progress("describing", 1, 1)
    except Exception as error:
        kept = f"the trained weights are kept in {work.made}, and the same command goes on from there"
        if isinstance(error, ArmError):
            told, where, then = f"{error.message}; {kept}", error.where, error.next_command
            raise ArmError(told, where=where, next_command=then, issues=error.issues) from error
        at = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{doing} failed: {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno}); {kept}"
        raise ArmError(told, where=str(inputs.recipe.path)) from error
    return manifest


def _reloaded(inputs: Inputs, work: Work, made: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    progress("loading again", 0, 1)
    found = compare(
        work.made, work.rows, base=inputs.base, checkpoint=made["checkpoint"], reference=made["reference"]
    )  # fmt: skip
    progress("loading again", 1, 1)
    return found


def _evaluated(inputs: Inputs, work: Work, made: Mapping[str, Any], progress: Progress) -> list[dict[str, Any]]:
    """What the recipe's evaluation found. One that was asked for otherwise before does not count."""
    how, said = inputs.recipe.evaluation, inputs.recipe.data["evaluation"]
    if work.read("evaluating") != {"how": said}:
        shutil.rmtree(work.made / "evaluation", ignore_errors=True)
        work.forget("evaluated")
        work.finish("evaluating", {"how": said})
    found: list[dict[str, Any]] | None = [] if how is None else work.read("evaluated")
    if found is None:
        assert how is not None
        from .evaluation.run import evaluate

        out = work.made / "evaluation" / how.split
        source = {**inputs.identity["dataset"], "commit": inputs.dataset_commit}
        model = opened(work.made, inputs.base, made["checkpoint"])
        entry = evaluate(
            model, inputs.dataset, how, out=out, name=how.split, source=source, progress=progress, before=inputs.seen
        )  # fmt: skip
        found = work.finish("evaluated", [entry])
    assert found is not None
    return found


def _described(
    inputs: Inputs, work: Work, checkpoint: Mapping[str, Any], training: Mapping[str, Any],
    evaluations: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """Figures, results, card; then the manifest, last."""
    from ..cards import model as cards
    from ..cards.model_figures import figures

    folder = work.made
    for name in ("assets", ".eval_results"):
        shutil.rmtree(folder / name, ignore_errors=True)

    def described() -> dict[str, Any]:
        return manifests.describe(
            folder, inputs.identity, checkpoint=checkpoint, training=training, evaluations=evaluations
        )

    first = described()
    figures(first, folder)
    for path, text in cards.eval_results(first).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8", newline="\n")
    manifest = described()
    (folder / manifests.CARD).write_text(cards.render(manifest), "utf-8", newline="\n")
    manifests.write(folder, manifest)
    return manifest


def _move(work: Work, out: Path) -> None:
    """The finished checkpoint to its place; the one that was there goes with the work folder."""
    old = work.folder / "old"
    shutil.rmtree(old, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.exists():
        out.rename(old)
    work.made.rename(out)


def _refuse_foreign(out: Path, name: str) -> None:
    """Only a checkpoint of the same name is ever replaced."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    found = manifests.read(out)
    if found is None or found["identity"]["name"] != name:
        told = "is no checkpoint" if found is None else f"is the checkpoint {found['identity']['name']}"
        raise ArmError(
            f"{told}, and would be replaced",
            where=str(out),
            next_command=f"mv {out} {out.with_name(out.name + '.old')}",
        )
