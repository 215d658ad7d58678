"""What somebody's files hold, what of it cannot be taken, and the registry that builds the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..builders.spec import BuildSpec, SourceSpec, SplitSpec
from ..builders.survey import survey
from ..schemas.actions import DIALECTS, SPACES
from ..schemas.errors import UsageError
from ..schemas.validate import nearest
from .files import published_names
from .reading import SAYS
from .report import Report, report
from .sniff import Folder, Progress, Sniffed, sniff
from .spoken import Spoken
from .starter import Source, from_sources


@dataclass(frozen=True)
class Said:
    """What a person declares of all sources that it means something for; None and empty: the records decide."""

    dialect: str | None = None
    space: str | None = None
    license: str = "other"
    constants: Mapping[str, Any] = field(default_factory=dict)  # actor, actor_revision, teacher, score_source, sampling
    on_invalid: str | None = None  # None: exclude where there are broken records
    on_conflict: str | None = None  # None: quarantine where ids have two contents


def look(
    place: Path, fmt: str | None, said: Said, target: Path, *, workers: int | None = None,
    progress: Progress = lambda *_: None,
) -> tuple[Report, str]:  # fmt: skip
    """Import ``place``, a file or folder, as a build would; return what it holds and the registry that builds it.

    ``target`` is the folder of the registry to be: files are named from there. Raises UsageError for a declaration that
    no source could use, ArmError for a place that holds nothing to start from.
    """
    _known(said)
    found = sniff(place, fmt, progress)
    names = published_names((_real(source.path) for source in found.sources), target)
    specs = [_spec(source, found, said, names) for source in found.sources]
    _used(specs, said)
    split = SplitSpec(0.0, 0)  # nothing is split
    build = BuildSpec("import", "import", "1.0.0", said.license, tuple(specs), split, tables=(), images={})
    surveyed = survey(build, workers=workers, progress=progress)
    made = report(place, found, specs, surveyed)
    sources = [_source(source, spec, said, made) for source, spec in zip(found.sources, specs, strict=True)]
    return made, from_sources(sources, found, target, said.license)


def _known(said: Said) -> None:
    for what, word, words in (("dialect", said.dialect, DIALECTS), ("space", said.space, SPACES)):
        if word is not None and word not in words:
            close = nearest(word, words)
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(words)}"
            raise UsageError(f"no {what} {word!r}; {hint}")


def _spec(source: Sniffed, found: Folder, said: Said, names: Mapping[Path, str]) -> SourceSpec:
    spoken = found.spoken.get(source.format, Spoken("function", "pixel"))
    acts = set(source.yields) & set(SAYS["dialect"])
    given = {k: v for k, v in said.constants.items() if v and set(source.yields) & set(SAYS[k])}
    return SourceSpec(
        kind=source.kind,  # type: ignore[arg-type]  # a key of IMPORTERS
        format=source.format,
        files=((names[_real(source.path)], _real(source.path)),),
        license=said.license,
        dialect=(said.dialect or spoken.dialect) if acts else None,
        space=(said.space or spoken.space) if acts else None,
        constants=given,
    )


def _real(path: Path) -> Path:
    """The path as a registry finds it: a link to a file keeps its own name."""
    return path.parent.resolve() / path.name


def _used(specs: list[SourceSpec], said: Said) -> None:
    """A declaration that nothing reads is a mistake."""
    for name, value in said.constants.items():
        if value and not any(name in spec.constants for spec in specs):
            kinds = ", ".join(SAYS[name])
            raise UsageError(f"{name} means nothing here: no file holds {kinds}")
    for name in ("dialect", "space"):
        if getattr(said, name) and not any(getattr(spec, name) for spec in specs):
            raise UsageError(f"{name} means nothing here: no file holds {', '.join(SAYS[name])}")


def _source(source: Sniffed, spec: SourceSpec, said: Said, made: Report) -> Source:
    ((name, _),) = spec.files
    broken, twice = name in made.broken, name in made.contested
    return Source(
        path=source.path,
        fields={
            "kind": spec.kind,
            "format": spec.format,
            **({"dialect": spec.dialect, "space": spec.space} if spec.dialect else {}),
            **spec.constants,
            **({"on_invalid": said.on_invalid or "exclude"} if broken or said.on_invalid else {}),
            **({"on_conflict": said.on_conflict or "quarantine"} if twice or said.on_conflict else {}),
        },
        told=made.told(name),
        yields=source.yields,
    )
