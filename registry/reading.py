"""registry.yaml: read strictly and checked whole; what a schema cannot see becomes an issue at its line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ..builders.importers import IMPORTERS, formats, yields
from ..builders.spec import READY, BuildSpec, GateSpec, LabelSpec, Origin, SourceSpec, SplitSpec
from ..schemas.actions import DIALECTS
from ..schemas.arrow import Images, image_columns
from ..schemas.errors import ArmError, Issue, plain
from ..schemas.store import TABLES
from ..schemas.validate import nearest
from ..schemas.versions import parse
from ..schemas.yamlfile import YamlFile, read
from .files import is_file, matching, published_names
from .generated import Made, generate, lacking, made
from .models import ModelSpec, read_recipe
from .sources.references import Kind, Reference, glob_problem, repo_problem, version_of
from .training import TRAINING, Training

_CONSTANTS = ("actor", "actor_revision", "sampling", "teacher", "score_source")
# Field of a source -> kinds of what it holds that it says something about; one that nothing reads is refused.
SAYS = {
    "dialect": ("states", "candidate_sets", "bt_pairs"),
    "space": ("states", "candidate_sets", "bt_pairs"),
    "actor": ("candidate_sets", "teacher_labels", "candidate_scores"),
    "actor_revision": ("candidate_sets",),
    "sampling": ("candidate_sets",),
    "teacher": ("teacher_labels",),
    "score_source": ("candidate_scores", "pointwise_scores"),
}
_LONGEST = 400  # characters of a message, which may quote what somebody wrote
TABLE = "table"  # the format of a version's own tables


@dataclass(frozen=True)
class Declaration:
    """A checked registry.yaml. ``references``: per dataset, for each source what it refers to, None for own files.

    made: every file that a model makes. awaited: per dataset, number of a source -> its file that is not made yet.
    """

    namespace: str
    datasets: tuple[BuildSpec, ...]
    models: tuple[ModelSpec, ...]
    references: Mapping[str, tuple[Reference | None, ...]]
    made: tuple[Made, ...] = ()
    awaited: Mapping[str, Mapping[int, Made]] = field(default_factory=dict)


def declaration(path: Path) -> Declaration:
    """Read ``path``. Raises ArmError with every problem of the file (``file:line $.path``)."""
    file = read(path, "registry/1")
    reader = _Reader(file, tuple(made(file.data, path.parent)))
    declared = file.data["datasets"]
    datasets = tuple(reader.dataset(data, f"$.datasets[{i}]") for i, data in enumerate(declared))
    models = tuple(
        found
        for i, data in enumerate(file.data.get("models", []))
        if (found := reader.model(data, f"$.models[{i}]")) is not None
    )
    reader.names([data["name"] for data in declared], [data["name"] for data in file.data.get("models", [])])
    reader.whole(datasets, models)
    if reader.issues:
        raise ArmError.of(str(path), reader.issues)
    return Declaration(file.data["namespace"], datasets, models, reader.references, reader.made, reader.awaited)


@dataclass
class _Reader:
    """Turns validated data into specs; what a schema cannot see becomes an issue at its line."""

    file: YamlFile
    made: tuple[Made, ...] = ()
    issues: list[Issue] = field(default_factory=list)
    references: dict[str, tuple[Reference | None, ...]] = field(default_factory=dict)
    awaited: dict[str, dict[int, Made]] = field(default_factory=dict)

    def issue(self, where: str, message: str) -> None:
        self.issues.append(Issue(str(self.file.path), self.file.line(where), where, _brief(message)))

    def dataset(self, data: dict[str, Any], where: str) -> BuildSpec:
        places = [f"{where}.sources[{i}]" for i in range(len(data["sources"]))]
        references = [self._reference(s, place) for s, place in zip(data["sources"], places, strict=True)]
        self.references[data["name"]] = tuple(references)
        training = Training(self.file.path.parent, self.issue)
        read = [
            self.source(number, source, data, where, reference, training)
            for number, (source, reference) in enumerate(zip(data["sources"], references, strict=True))
        ]
        sources = self._named(read, where)
        tables = data["tables"]
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
        if not {"states", *READY} & spec.kinds:
            self.issue(f"{where}.sources", "holds no states; add a source of kind episodes or states")
        for number, source in enumerate(sources):
            for verb, kind in lacking(source, spec.kinds):
                what = "shown to a policy" if verb == "sample" else "shown to a teacher"
                self.issue(f"{places[number]}.{verb}", f"needs a source of {kind} in this dataset, which are {what}")
        spec = training.added(spec, data, where)
        self.issues += training.issues
        return spec

    def source(
        self, number: int, data: dict[str, Any], dataset: dict[str, Any], at: str, reference: Reference | None,
        training: Training,
    ) -> SourceSpec:  # fmt: skip
        where = f"{at}.sources[{number}]"
        if (data["kind"], data["format"]) not in IMPORTERS:
            self._unknown(f"{where}.format", f"format of {data['kind']}", data["format"], formats(data["kind"]))
        if data.get("dialect", "function") not in DIALECTS:
            self._unknown(f"{where}.dialect", "dialect", data["dialect"], DIALECTS)
        held = yields(data["kind"], data["format"])
        for name in sorted(set(data) & set(SAYS)):
            if not set(held) & set(SAYS[name]):
                self.issue(f"{where}.{name}", f"means nothing for {data['kind']}; only for {', '.join(SAYS[name])}")
        for name in (
            "dialect",
            "space",
        ):  # scores need them where candidates come along; for other kinds the schema asks
            if name not in data and data["kind"] == "candidate_scores" and set(held) & set(SAYS[name]):
                self.issue(where, f"lacks the field {name!r}")
        files = matching(data["path"], self.file.path.parent) if "path" in data else []
        if "path" in data and not files and not self._awaited(data, where, dataset["name"], number):
            self.issue(f"{where}.path", f"matches no file: {data['path']}")
        return SourceSpec(
            kind=data["kind"],
            format=data["format"],
            files=tuple(("", path) for path in files),  # named when all files of the dataset are known
            license=data.get("license", dataset["license"]),
            dialect=data.get("dialect"),
            space=data.get("space"),
            constants={name: data[name] for name in _CONSTANTS if name in data},
            on_invalid=data.get("on_invalid", "error"),
            on_conflict=data.get("on_conflict", "error"),
            origin=Origin(reference.repo, reference.revision) if reference else None,
            generate=generate(data, where, self.file.path.parent, self.issue, training.asked),
        )

    def _awaited(self, data: dict[str, Any], where: str, dataset: str, number: int) -> bool:
        """Whether the file of a source that is not there will be made, by this source or another one."""
        path = self.file.path.parent / data["path"]
        found = next((mine for mine in self.made if mine.path == path), None)
        if found is None:
            return False
        if found.dataset == dataset and found.number != number:
            self.issue(f"{where}.path", f"{data['path']} is read by sources[{found.number}]; records are read once")
        self.awaited.setdefault(dataset, {})[number] = found
        return True

    def _reference(self, data: dict[str, Any], where: str) -> Reference | None:
        """What a source refers to on the Hub, if it does; exactly one of path, repo and dataset says where it is."""
        ways = [name for name in ("path", "repo", "dataset") if name in data]
        if len(ways) != 1:
            said = f"says it in {len(ways)} ways ({', '.join(ways)})" if ways else "says not where its records are"
            self.issue(where, f"{said}; write one of path, repo (with revision and file) and dataset")
            return None
        for name in ("revision", "file"):
            if name in data and ways != ["repo"]:
                self.issue(f"{where}.{name}", "means something beside repo only")
        if ways == ["dataset"] and data["format"] != TABLE:
            self.issue(f"{where}.format", "is not how a dataset is read; write format: table")
        if ways == ["dataset"]:
            return self._version(data["dataset"], "dataset", f"{where}.dataset")
        return self._raw(data, where) if ways == ["repo"] else None

    def _raw(self, data: dict[str, Any], where: str) -> Reference | None:
        problem = repo_problem(data["repo"])
        if problem:
            self.issue(f"{where}.repo", problem)
        if "revision" not in data:
            problem = "is floating: add revision, a tag, branch or commit of it; arm lock pins the commit"
            self.issue(f"{where}.repo", problem)
        if "file" not in data:
            problem = "says not which file: add file, a path or glob in the repository"
            self.issue(f"{where}.repo", problem)
        elif wrong := glob_problem(data["file"]):
            problem = wrong
            self.issue(f"{where}.file", problem)
        return None if problem else Reference("dataset", data["repo"], data["revision"], data["file"])

    def _version(self, text: str, kind: Kind, where: str) -> Reference | None:
        try:
            return version_of(text, kind, self.file.data["namespace"])
        except ValueError as error:
            self.issue(where, str(error))
            return None

    def model(self, data: dict[str, Any], where: str) -> ModelSpec | None:
        """A checkpoint with its recipe, whose own problems are issues with their own file and line."""
        path = self.file.path.parent / data["recipe"]
        if not is_file(path):
            self.issue(f"{where}.recipe", f"names no file: {data['recipe']}")
            return None
        try:
            return read_recipe(
                data["name"], self.file.data["namespace"], data["version"], path, license=data.get("license"),
                description=data.get("description", "").strip(),
            )  # fmt: skip
        except ArmError as error:
            self.issue(f"{where}.recipe", f"{data['recipe']} {error.message}")
            self.issues += error.issues
            return None

    # -- the registry as a whole ------------------------------------------------------------------------------------

    def names(self, datasets: list[str], models: list[str]) -> None:
        """A name is taken once: each has its folder in build/."""
        places = [f"$.datasets[{i}].name" for i in range(len(datasets))]
        places += [f"$.models[{i}].name" for i in range(len(models))]
        first: dict[str, str] = {}
        for name, place in zip([*datasets, *models], places, strict=True):
            if first.setdefault(name.lower(), place) != place:  # not every file system tells capitals apart
                self.issue(place, f"the name {name!r} is taken by {first[name.lower()][2:-5]}")

    def whole(self, datasets: tuple[BuildSpec, ...], models: tuple[ModelSpec, ...]) -> None:
        """References within the registry: to versions that it has or had, and without a circle."""
        own = {f"{spec.namespace}/{spec.name}": spec for spec in datasets}
        needs: dict[str, list[str]] = {}
        for number, spec in enumerate(datasets):
            for place, reference in enumerate(self.references[spec.name]):
                where = f"$.datasets[{number}].sources[{place}].dataset"
                if reference and reference.is_version and self._own(reference, own, where):
                    needs.setdefault(spec.name, []).append(own[reference.repo].name)
        for number, spec in enumerate(datasets):
            if circle := _circle(spec.name, needs):
                self.issue(f"$.datasets[{number}].sources", f"rests on itself: {' -> '.join(circle)}")
        writers: dict[str, Made] = {}
        numbers = {spec.name: number for number, spec in enumerate(datasets)}
        for mine in self.made:
            # not every file system tells capitals apart
            first = writers.setdefault(str(mine.path.resolve()).lower(), mine)
            if first != mine:
                where = f"$.datasets[{numbers[mine.dataset]}].sources[{mine.number}].path"
                by = f"sources[{first.number}] of {first.dataset}"
                self.issue(where, f"{mine.name} is made by {by}; a file is made once, and read by who declares it")
        for number, model in enumerate(models):
            assert isinstance(model.dataset, Reference)
            self._own(model.dataset, own, f"$.models[{number}].recipe")

    def _own(self, reference: Reference, own: Mapping[str, BuildSpec], where: str) -> bool:
        """Whether ``reference`` is what this registry builds now; an older version is one that was published."""
        spec = own.get(reference.repo)
        if spec is None:
            return False
        if reference.version == spec.version:
            return True
        if parse(reference.version) > parse(spec.version):
            self.issue(where, f"names {reference}, and version {spec.version} is the newest that is declared")
        return False

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
        labels = [source for source in sources if source.kind == "teacher_labels"]
        judged: set[str | None] = {s.constants.get("teacher") for s in labels if s.format != TABLE or s.generate}
        teachers = {name for name in judged if name is not None}
        named_by_records = any(source.format == TABLE and not source.generate for source in labels)
        if teacher is not None and teacher not in teachers and not named_by_records:
            known = f"; there are {', '.join(sorted(teachers))}" if teachers else ""
            self.issue(f"{where}.labels.teacher", f"no source declares the teacher {teacher!r}{known}")
        trained = set(tables) & set(TRAINING)
        if data.get("labels") and not trained:
            self.issue(f"{where}.labels", f"means nothing without {', '.join(TRAINING)}")
        if trained and len(judged) > 1 and teacher is None and data.get("labels", {}).get("rule") != "majority":
            named = ", ".join(sorted(name or "one that is not named" for name in judged))
            message = f"have several teachers ({named}); write labels: {{teacher: NAME}}"
            self.issue(f"{where}.sources", f"{message} or labels: {{rule: majority}}")
        held = {kind for source in sources for kind in source.yields}
        if data["split"].get("rule") == "legacy_draws":
            if data["split"].get("isolate_screenshots"):
                self.issue(
                    f"{where}.split.isolate_screenshots", "means nothing with legacy_draws, which takes no row out"
                )
            if "teacher_labels" not in held:
                self.issue(f"{where}.split.rule", "draws per label, and no source holds teacher_labels")
        counted = set(tables) | ({"candidate_scores"} & held)  # scores are counted, too, and are no table
        for table in data.get("gates", {}).get("max_excluded", {}):
            if table not in counted:
                self.issue(f"{where}.gates.max_excluded.{table}", "is no table of this dataset")
        images = {t: o.get("images", "embed") for t, o in tables.items() if _has_images(t)}
        if "reference" in images.values() and images.get("states") != "embed":
            table = next(t for t, how in images.items() if how == "reference")
            message = "refers to pictures that no table holds; let states embed them"
            self.issue(f"{where}.tables.{table}.images", message)


def _brief(message: str) -> str:
    """``message`` for a terminal, without the middle of what it quotes at length: the advice stands at its end."""
    text = plain(message).replace("\n", "\\n")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def _has_images(table: str) -> bool:
    return bool(image_columns(TABLES[table]))


def _circle(name: str, needs: Mapping[str, list[str]]) -> list[str] | None:
    """The way from ``name`` back to itself, if there is one."""

    def walk(way: list[str]) -> list[str] | None:
        for need in needs.get(way[-1], []):
            if need == name:
                return [*way, need]
            if need not in way and (found := walk([*way, need])):
                return found
        return None

    return walk([name])
