"""Files that models make: what each asks for, and how far that is. Nothing here calls a model."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..builders.gathering import Progress
from ..builders.generate import labels, sets
from ..builders.generate.asking import AskWork
from ..builders.generate.batches.places import locked
from ..builders.generate.sampling import SampleWork
from ..builders.generate.spec import GenerateSpec, SampleSpec
from ..builders.runner import build
from ..builders.spec import BuildSpec, GateSpec, LabelSpec, SplitSpec
from ..builders.workspace import BusyError
from ..schemas.errors import UsageError
from . import graph
from .generated import RESTS_ON, Made, Verb
from .staleness import reasons

if TYPE_CHECKING:
    from .declaration import Registry

BASES = ".generate"  # below build/; no dataset can have this name
_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class Generation:
    """A file that a model makes, and everything that is asked for it."""

    made: Made
    spec: GenerateSpec
    work: SampleWork | AskWork


def chosen(registry: Registry, verb: Verb, name: str | None = None, source: str | None = None) -> list[Made]:
    """The files that ``verb`` makes: of all datasets or of ``name``, all or the one whose path is ``source``.

    Raises UsageError where there is none, with those that there are.
    """
    if name is not None:
        registry.dataset(name)
    ours = [made for made in registry.made if made.verb == verb]
    found = [made for made in ours if name in (None, made.dataset) and source in (None, made.name)]
    if not found:
        there = ", ".join(f"{made.name} of {made.dataset}" for made in ours)
        wanted = f"no source {source} is" if source else "no source is"
        raise UsageError(
            f"{wanted} declared to be made by arm {verb}; there are {there}" if there else
            f"{wanted} declared to be made by arm {verb}: none says `{verb}:`",
            where=str(registry.path), next_command="docs/generating.md shows how a source is declared",
        )  # fmt: skip
    return found


def generation(registry: Registry, made: Made, progress: Progress = lambda *_: None) -> Generation:
    """What is asked for a file, from a build of what it rests on, which is made anew when that changed.

    Raises ArmError for what the build raises, and for another generated file that it rests on and that is not there.
    """
    source = registry.dataset(made.dataset).sources[made.number]
    assert source.generate is not None
    folder, path = basis(registry, made, progress).absolute(), made.path.absolute()  # workers stand elsewhere
    if isinstance(source.generate, SampleSpec):
        return Generation(made, source.generate, SampleWork(folder, source.generate, path))
    return Generation(made, source.generate, AskWork(folder, source.generate, source.constants["teacher"], path))


def write(asked: Generation) -> None:
    """Write the file from the log. Whoever writes last has read the log last, so that nobody's answers are lost."""
    work = asked.work
    with locked(work.folder, "write", wait=True):
        if isinstance(work, SampleWork):
            sets.write(work)
        else:
            labels.write(work)


def rests_on(registry: Registry, made: Made) -> list[Made]:
    """The generated files that are shown for this one."""
    spec = registry.dataset(made.dataset)
    read = {path.resolve() for number in _sources(spec, made) for _, path in spec.sources[number].files}
    return [other for other in registry.made if other != made and other.path.resolve() in read]


def awaiting(registry: Registry, made: Made) -> Made | None:
    """The generated file that must be there before anything is asked for ``made``, and is not."""
    absent = registry.awaited.get(made.dataset, {})
    numbers = _sources(registry.dataset(made.dataset), made)
    return next((absent[number] for number in numbers if number in absent), None)


def basis(registry: Registry, made: Made, progress: Progress) -> Path:
    """Where the build lies from which requests are made; it is made anew when it is stale.

    It has the ids, redactions and exclusions of the dataset, and nothing else that is declared of it: no split, no
    gates, no training tables. Another process that makes it is waited for.
    """
    if awaited := awaiting(registry, made):
        raise graph.not_made(registry, awaited)
    spec = registry.dataset(made.dataset)
    numbers = _sources(spec, made)
    bare = BuildSpec(
        spec.name, "basis", "0.0.0", "other",
        sources=tuple(spec.sources[number] for number in numbers),
        split=SplitSpec(0.0, 0),
        tables=RESTS_ON[made.verb],
        images={"states": "embed"},
        labels=LabelSpec(),
        gates=GateSpec(),
        redact=spec.redact,
    )  # fmt: skip
    bare = graph.with_files(registry, bare, [registry.references[spec.name][number] for number in numbers], progress)
    bare = replace(bare, sources=tuple(replace(source, generate=None) for source in bare.sources))
    folder = registry.path.parent / "build" / BASES / spec.name / str(made.number)
    while reasons(bare, folder):
        try:
            build(bare, folder, card=lambda _: "", enforce=False, progress=progress)
            break
        except BusyError:
            time.sleep(_WAIT_SECONDS)
    return folder


def _sources(spec: BuildSpec, made: Made) -> list[int]:
    """Numbers of the sources that hold what is shown."""
    wanted = set(RESTS_ON[made.verb])
    return [number for number, source in enumerate(spec.sources) if wanted & set(source.yields)]
