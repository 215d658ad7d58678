"""registry.yaml: read strictly, checked whole, and turned into build specs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ..builders.importers import IMPORTERS, formats
from ..builders.partition import Progress
from ..builders.runner import Built, build, check
from ..builders.spec import (
    DEFAULT_RULES,
    BuildSpec,
    GateSpec,
    LabelSpec,
    PairSpec,
    PromptSpec,
    SelectionSpec,
    SourceSpec,
    SplitSpec,
)
from ..builders.training_rows import load as load_prompt
from ..cards.dataset import merge, render
from ..schemas.actions import DIALECTS
from ..schemas.arrow import Images, image_columns
from ..schemas.errors import ArmError, Issue, UsageError
from ..schemas.store import TABLES
from ..schemas.validate import nearest
from ..schemas.yamlfile import YamlFile, read
from .files import matching, published_names
from .staleness import read_manifest, reasons

_CONSTANTS = ("actor", "actor_revision", "sampling", "teacher")
# Field of a source -> kinds it says something about; a field that nothing would read is refused.
_ONLY = {
    "dialect": ("episodes", "states", "candidate_sets"),
    "space": ("episodes", "states", "candidate_sets"),
    "actor": ("candidate_sets",),
    "actor_revision": ("candidate_sets",),
    "sampling": ("candidate_sets",),
    "teacher": ("teacher_labels",),
}


@dataclass(frozen=True)
class Registry:
    """A checked registry.yaml; ``datasets`` are in the order of the file."""

    path: Path
    datasets: tuple[BuildSpec, ...]

    @classmethod
    def load(cls, path: Path | str = "registry.yaml") -> Registry:
        """Read ``path``. Raises ArmError with every problem of the file (``file:line $.path``)."""
        path = Path(path)
        if path.is_dir():
            path /= "registry.yaml"
        if not path.is_file():
            raise UsageError("there is no such registry", where=str(path), next_command="arm init   # writes one")
        file = read(path, "registry/1")
        reader = _Reader(file)
        datasets = tuple(reader.dataset(data, f"$.datasets[{i}]") for i, data in enumerate(file.data["datasets"]))
        names = [spec.name for spec in datasets]
        for i, name in enumerate(names):
            if name in names[:i]:
                reader.issue(f"$.datasets[{i}].name", f"the name {name!r} is taken by an earlier dataset")
        if reader.issues:
            raise ArmError.of(str(path), reader.issues)
        return cls(path, datasets)

    def dataset(self, name: str | None = None) -> BuildSpec:
        """The dataset called ``name``; without a name, the only one. Raises UsageError with the known names."""
        found = [spec for spec in self.datasets if name in (None, spec.name)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(spec.name for spec in self.datasets)
        raise UsageError(f"there is no dataset {name!r}; there are {known}" if name else f"which dataset? {known}")

    def folder(self, spec: BuildSpec) -> Path:
        """Where ``spec`` is built unless another folder is asked for: ``build/<name>`` beside the registry."""
        return self.path.parent / "build" / spec.name

    def build(
        self, name: str | None = None, *, out: Path | None = None, workers: int | None = None,
        executor: Executor | None = None, force: bool = False, progress: Progress = lambda *_: None,
    ) -> tuple[Built | None, list[str]]:  # fmt: skip
        """Build one dataset if it is stale (or with ``force``) and return (the build or None, the reasons for it).

        ``executor`` is any `concurrent.futures` executor, such as Dask's, whose workers see the same files.
        """
        spec = self.dataset(name)
        folder = out or self.folder(spec)
        why = reasons(spec, folder) or (["--force"] if force else [])
        if not why:
            return None, []
        written = _card(folder)
        built = build(
            spec,
            folder,
            card=lambda manifest: merge(written, manifest) if written else render(manifest),
            workers=workers,
            executor=executor,
            progress=progress,
        )
        return built, why

    def check(
        self, name: str | None = None, *, workers: int | None = None, progress: Progress = lambda *_: None
    ) -> tuple[list[Issue], dict[str, Any]]:
        """Read all sources of one dataset as a build would, write nothing: (every issue, the account per stage)."""
        return check(self.dataset(name), workers=workers, progress=progress)


def _card(folder: Path) -> str:
    """The card of the last build, whose person's words survive the next; "" without one.

    Raises ArmError when they could not, before anything is built.
    """
    card, manifest = folder / "README.md", read_manifest(folder)
    if manifest is None or not card.is_file():
        return ""
    try:
        text = card.read_text("utf-8")
        merge(text, manifest)
    except UnicodeDecodeError as error:
        raise ArmError(f"is not UTF-8: {error.reason} at byte {error.start}", where=str(card)) from error
    except ArmError as error:
        raise ArmError(error.message, where=str(card), next_command=error.next_command) from error
    return text


@dataclass
class _Reader:
    """Turns validated data into specs; what a schema cannot see becomes an issue at its line."""

    file: YamlFile
    issues: list[Issue] = field(default_factory=list)

    def issue(self, where: str, message: str) -> None:
        self.issues.append(Issue(str(self.file.path), self.file.line(where), where, message))

    def dataset(self, data: dict[str, Any], where: str) -> BuildSpec:
        read = [self.source(s, f"{where}.sources[{i}]", data["license"]) for i, s in enumerate(data["sources"])]
        sources = self._named(read, where)
        tables = data["tables"]
        self._needs(sources, tables, where)
        self._says_something(data, sources, tables, where)
        spec = BuildSpec(
            name=data["name"],
            namespace=self.file.data["namespace"],
            version=data["version"],
            license=data["license"],
            description=data.get("description", "").strip(),
            sources=sources,
            split=SplitSpec(**data["split"]),
            tables=tuple(tables),
            images={t: cast(Images, o.get("images", "embed")) for t, o in tables.items() if _has_images(t)},
            labels=LabelSpec(**data.get("labels", {})),
            gates=GateSpec(**data.get("gates", {})),
            shards=data.get("shards"),
            redact=tuple(data.get("redact", ())),
        )
        return self._with_training_tables(spec, tables, f"{where}.tables")

    def source(self, data: dict[str, Any], where: str, default_license: str) -> SourceSpec:
        if (data["kind"], data["format"]) not in IMPORTERS:
            self._unknown(f"{where}.format", f"format of {data['kind']}", data["format"], formats(data["kind"]))
        if data.get("dialect", "function") not in DIALECTS:
            self._unknown(f"{where}.dialect", "dialect", data["dialect"], DIALECTS)
        for name in sorted(set(data) & set(_ONLY)):
            if data["kind"] not in _ONLY[name]:
                self.issue(f"{where}.{name}", f"means nothing for {data['kind']}; only for {', '.join(_ONLY[name])}")
        if "path" not in data:
            self.issue(where, "says not where its records are: path is missing")
        files = matching(data["path"], self.file.path.parent) if "path" in data else []
        if "path" in data and not files:
            self.issue(f"{where}.path", f"matches no file: {data['path']}")
        return SourceSpec(
            kind=data["kind"],
            format=data["format"],
            files=tuple(("", path) for path in files),  # named when all files of the dataset are known
            license=data.get("license", default_license),
            dialect=data.get("dialect"),
            space=data.get("space"),
            constants={name: data[name] for name in _CONSTANTS if name in data},
            on_invalid=data.get("on_invalid", "error"),
            on_conflict=data.get("on_conflict", "error"),
        )

    def _unknown(self, where: str, what: str, word: str, known: Iterable[str]) -> None:
        close = nearest(word, known)
        hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
        self.issue(where, f"is no {what}: {word!r}; {hint}")

    def _named(self, sources: list[SourceSpec], where: str) -> tuple[SourceSpec, ...]:
        """The sources with the published names of their files; a file is read once."""
        folder = self.file.path.parent
        names = published_names((path for source in sources for _, path in source.files), folder)
        read: dict[Path, int] = {}
        for number, source in enumerate(sources):
            for _, path in source.files:
                if not names[path].isprintable():  # also what is no UTF-8
                    message = f"the file name {names[path]!r} cannot be published; rename the file"
                    self.issue(f"{where}.sources[{number}].path", message)
                if read.setdefault(path.resolve(), number) != number:
                    message = f"{names[path]} is read by sources[{read[path.resolve()]}]; records are read once"
                    self.issue(f"{where}.sources[{number}].path", message)
        return tuple(
            replace(source, files=tuple(sorted((names[path], path) for _, path in source.files))) for source in sources
        )

    def _says_something(
        self, data: dict[str, Any], sources: tuple[SourceSpec, ...], tables: dict[str, Any], where: str
    ) -> None:
        """Declarations that nothing would read, and pictures that no table would hold, are mistakes."""
        teacher = data.get("labels", {}).get("teacher")
        judged: set[str | None] = {s.constants.get("teacher") for s in sources if s.kind == "teacher_labels"}
        teachers = {name for name in judged if name is not None}
        if teacher is not None and teacher not in teachers:
            known = f"; there are {', '.join(sorted(teachers))}" if teachers else ""
            self.issue(f"{where}.labels.teacher", f"no source declares the teacher {teacher!r}{known}")
        trained = set(tables) & {"selection_sft", "bt_pairs"}
        if data.get("labels") and not trained:
            self.issue(f"{where}.labels", "means nothing without selection_sft or bt_pairs")
        if trained and len(judged) > 1 and teacher is None and data.get("labels", {}).get("rule") != "majority":
            named = ", ".join(sorted(name or "one that is not named" for name in judged))
            message = f"have several teachers ({named}); write labels: {{teacher: NAME}}"
            self.issue(f"{where}.sources", f"{message} or labels: {{rule: majority}}")
        for table in data.get("gates", {}).get("max_excluded", {}):
            if table not in tables:
                self.issue(f"{where}.gates.max_excluded.{table}", "is no table of this dataset")
        images = {t: o.get("images", "embed") for t, o in tables.items() if _has_images(t)}
        if "reference" in images.values() and images.get("states") != "embed":
            table = next(t for t, how in images.items() if how == "reference")
            message = "refers to pictures that no table holds; let states embed them"
            self.issue(f"{where}.tables.{table}.images", message)

    def _needs(self, sources: tuple[SourceSpec, ...], tables: dict[str, Any], where: str) -> None:
        kinds = {source.kind for source in sources}
        if not kinds & {"episodes", "states"}:
            self.issue(f"{where}.sources", "holds no states; add a source of kind episodes or states")
        for table in tables:
            for kind in _kinds_behind(table):
                if kind not in kinds:
                    self.issue(f"{where}.tables.{table}", f"needs a source of kind {kind}")

    def _with_training_tables(self, spec: BuildSpec, tables: dict[str, Any], where: str) -> BuildSpec:
        if (options := tables.get("selection_sft")) is not None:
            prompt = self._prompt(options, "selection", f"{where}.selection_sft")
            rest = {name: options[name] for name in ("duplicates", "shuffle") if name in options}
            spec = replace(spec, selection=SelectionSpec(prompt, **rest))
        if (options := tables.get("bt_pairs")) is not None:
            prompt = self._prompt(options, "scalar", f"{where}.bt_pairs")
            rest = {name: options[name] for name in ("max_pairs_per_set",) if name in options}
            spec = replace(spec, pairs=PairSpec(prompt, rules={**DEFAULT_RULES, **options.get("rules", {})}, **rest))
        return spec

    def _prompt(self, options: dict[str, Any], kind: str, where: str) -> PromptSpec:
        declared = options["prompt"]
        if isinstance(declared, str):
            spec = PromptSpec(id=declared, options=options.get("options", {}))
        else:
            path = self.file.path.parent / declared["file"]
            spec = PromptSpec(file=(path, declared["sha256"]), options=options.get("options", {}))
        try:
            prompt = load_prompt(spec)
        except ArmError as error:
            hint = f" ({error.next_command})" if error.next_command else ""
            self.issue(f"{where}.prompt", f"{error.message}{hint}")
            self.issues += error.issues  # of an external file, with its own lines
            return spec
        if prompt.kind != kind:
            self.issue(f"{where}.prompt", f"is a {prompt.kind} prompt; this table needs a {kind} prompt")
        return spec


def _has_images(table: str) -> bool:
    return bool(image_columns(TABLES[table]))


def _kinds_behind(table: str) -> Iterator[str]:
    if table != "states":
        yield "candidate_sets"
    if table not in ("states", "candidate_sets"):
        yield "teacher_labels"
