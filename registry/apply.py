"""Carry out a plan, step by step; and hold a saved plan, which anyone may have written, against one made anew."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ..builders.gathering import Progress
from ..hub_sync.forms import DATASET
from ..hub_sync.hub import Hub
from ..hub_sync.publish import Published, publish
from ..hub_sync.release import CARD
from ..schemas.errors import ArmError, Issue
from ..schemas.manifest import is_safe_path, manifest_of
from ..schemas.validate import for_schema
from .plan import Plan, Step
from .reloading import reloading
from .sources.lock import update, with_published

if TYPE_CHECKING:
    from .declaration import Registry


def apply(
    plan: Plan, hub: Hub, *, registry: Registry | None = None, stage: bool = False, full: bool = False,
    allow_findings: bool = False, tell: Callable[[Published], None] = lambda _: None,
    progress: Progress = lambda *_: None,
) -> list[Published]:  # fmt: skip
    """Publish every step of a plan that has something to publish, in its order.

    Each is noted in the arm.lock of ``registry``, and ``tell`` hears of it. Returns where each version stands, also of
    steps that had nothing to do. Safe to run again when it was killed: plan anew, and what is published is nothing to
    do. Raises ArmError when a step is refused, before anything is sent, and what `publish` raises.
    """
    if plan.refusals:
        first = plan.refusals[0]
        more = f" (and {len(plan.refusals) - 1} more)" if plan.refusals[1:] else ""
        raise ArmError(
            f"nothing was published: {first.message}{more}", where=first.where, next_command=first.next_command,
            issues=[issue for error in plan.refusals for issue in error.issues],
        )  # fmt: skip
    done = []
    for step in plan.steps:
        if step.push is None:
            continue
        reload = None if step.form is DATASET else reloading(registry, step.push.folder, progress)
        published = publish(
            step.push, hub.of(step.form.repo_type), stage=stage, full=full, allow_findings=allow_findings,
            reload=reload, progress=progress,
        )  # fmt: skip
        if registry is not None and step.repo == f"{registry.namespace}/{step.name}":
            _note(registry, step, published)
            _take_words(step)
        done.append(published)
        if step.status == "publish":
            tell(published)
    return done


def _note(registry: Registry, step: Step, published: Published) -> None:
    """What arm.lock says of the registry's own repository; a copy elsewhere is no version of it."""
    assert step.push is not None
    identity = str(step.push.release.manifest["identity_sha256"])
    update(
        registry.lock_path,
        lambda lock: with_published(lock, step.name, step.version, step.repo, published.commit, identity),
    )


def _take_words(step: Step) -> None:
    """Bring a person's words of the published card into the local one, or the next plan would ask whose to keep."""
    assert step.push is not None
    path, published = step.push.folder / CARD, step.push.release.files[CARD].source
    if not isinstance(published, bytes) or path.is_symlink() or not path.is_file():
        return
    card = published.decode()
    if step.form.words(path.read_text("utf-8")) != step.form.words(card):
        work = path.with_name(f".{path.name}-{os.getpid()}")
        manifest = manifest_of(step.push.folder, step.form.schema)
        work.write_text(step.form.merge(card, manifest), "utf-8")
        work.replace(path)


@dataclass(frozen=True)
class SavedPlan:
    """A plan that `arm plan --out` wrote. It decides nothing: it says what a person has seen and agreed to."""

    path: Path
    data: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> SavedPlan:
        """Raises ArmError with every place that is not of the form, an unknown operation among them."""
        try:
            data = orjson.loads(path.read_bytes())
        except OSError as error:
            raise ArmError(f"cannot be read: {error.strerror}", where=str(path), next_command=_anew(path)) from error
        except ValueError as error:
            raise ArmError(f"is no plan: it is not JSON: {error}", where=str(path), next_command=_anew()) from error
        if problems := for_schema("plan/1").problems(data):
            raise ArmError.of(str(path), [Issue(str(path), 0, at, message) for at, message in problems], _anew())
        return cls(path, data)

    @property
    def names(self) -> tuple[str, ...]:
        """The datasets and checkpoints that it publishes."""
        return tuple(step["name"] for step in self.data["steps"])

    @property
    def private(self) -> bool:
        """Whether repositories to be created are private."""
        return any(step["private"] for step in self.data["steps"])

    def check(self, plan: Plan) -> None:
        """Raise ArmError that names everything in which ``plan``, made now, is not what was saved."""
        issues = [Issue(str(self.path), 0, at, message) for at, message in self._differences(plan)]
        if issues:
            raise ArmError(
                "is not what would be done now; nothing was published", where=str(self.path), issues=issues,
                next_command=_anew(self.path),
            )  # fmt: skip

    def _differences(self, plan: Plan) -> Iterator[tuple[str, str]]:
        if self.data["endpoint"] != plan.endpoint:
            yield "$.endpoint", f"is {self.data['endpoint']}, and HF_ENDPOINT is {plan.endpoint}"
        fresh = {step.name: step for step in plan.steps}
        names = [step["name"] for step in self.data["steps"]]
        order = [step.name for step in plan.to_publish]
        for number, saved in enumerate(self.data["steps"]):
            where = f"$.steps[{number}]"
            if saved["name"] in names[:number]:
                yield f"{where}.name", f"{saved['name']} stands twice"
            elif saved["name"] not in fresh:
                yield f"{where}.name", f"{saved['name']} is no dataset of this registry, nor a checkpoint"
            else:
                yield from _step(where, saved, fresh[saved["name"]])
        if sorted(names) == sorted(order) and names != order:
            yield "$.steps", f"the order is {', '.join(order)}"
        if missing := [name for name in order if name not in names]:
            yield "$.steps", f"lacks {', '.join(missing)}"


def _anew(path: Path = Path("plan.json")) -> str:
    """The command that makes a plan. ``path`` is where one was, or may be: any other file would be lost by it."""
    return f"arm plan --out {shlex.quote(str(path))}   # and look at it again"


def saved(plan: Plan) -> dict[str, Any]:
    """The plan as `arm plan --out` writes it. Raises ArmError for one that would be refused, or has nothing to do."""
    if plan.refusals or not plan.to_publish:
        message = plan.refusals[0].message if plan.refusals else "there is nothing to publish"
        raise ArmError(f"no plan was saved: {message}")
    return {"plan": 1, "endpoint": plan.endpoint, "steps": [_saved_step(step) for step in plan.to_publish]}


def _saved_step(step: Step) -> dict[str, Any]:
    assert step.push is not None
    files = step.push.release.files
    return {
        "name": step.name,
        "version": step.version,
        "repo": step.repo,
        "identity_sha256": step.push.release.manifest["identity_sha256"],
        "base": step.push.base,
        "private": step.push.private,
        "operations": [
            {
                "action": operation.action,
                "path": operation.path,
                "bytes": operation.size,
                "sha256": None if operation.action == "delete" else files[operation.path].sha256,
            }
            for operation in step.push.operations
        ],
    }


def _step(where: str, saved: Mapping[str, Any], step: Step) -> Iterator[tuple[str, str]]:
    if step.refusals or step.push is None:
        said = f": {step.refusals[0].message}" if step.refusals else ""
        yield where, f"{step.name} {step.version} is refused now{said}"
        return
    same = saved["identity_sha256"] == step.push.release.manifest["identity_sha256"]
    if step.status == "nothing":
        as_saved = " with what the plan says" if same and saved["repo"] == step.repo else ""
        yield where, f"{step.name} {step.version} is published{as_saved}, at {step.push.tagged}"
        return
    now = _saved_step(step)
    if same and saved["operations"] and not now["operations"]:
        yield where, f"its files are at the head {now['base']} already, without the tag {step.push.tag}"
        return
    if saved["base"] != now["base"]:
        rested = saved["base"] or "no repository"
        yield f"{where}.base", f"the head moved: the plan rests on {rested}, the head is {now['base'] or 'gone'}"
    for key, what in (("version", "version"), ("repo", "repository"), ("private", "visibility")):
        if saved[key] != now[key]:
            yield f"{where}.{key}", f"is another {what}: {saved[key]}, and {now[key]} would be published"
    if not same:
        yield f"{where}.identity_sha256", f"the build is {now['identity_sha256']}"
    current = {operation["path"]: operation for operation in now["operations"]}
    known = {*step.push.release.files, *current}
    seen = set()
    for number, operation in enumerate(saved["operations"]):
        place, path = f"{where}.operations[{number}]", operation["path"]
        if not is_safe_path(path) or path not in known:
            yield f"{place}.path", f"{path!r} is no file of the build"
        elif path in seen:
            yield f"{place}.path", f"{path} stands twice"
        elif path not in current:
            yield f"{place}.path", f"{path} would not change"
        else:
            for key in ("action", "sha256", "bytes"):
                if operation[key] != current[path][key]:
                    yield f"{place}.{key}", f"of {path} is {operation[key]}, and {current[path][key]} would be done"
        seen.add(path)
    if missing := [path for path in current if path not in seen]:
        more = f" and {len(missing) - 5} more" if missing[5:] else ""
        yield f"{where}.operations", f"lacks {', '.join(missing[:5])}{more}"
