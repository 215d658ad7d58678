"""The build spec behind a published manifest: what was declared, and every input file with the bytes it had then.

A published manifest is somebody else's text. What it says is held against the schema of registry.yaml before anything
is made of it, and a file that it names is read only below the folder of the sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PureWindowsPath
from typing import Any, cast

from ...builders import processor
from ...builders.gathering import Progress
from ...builders.importers import IMPORTERS
from ...builders.spec import RULES, BuildSpec, GateSpec, LabelSpec, Origin, SourceSpec, SplitSpec
from ...hub_sync.hub import Hub
from ...schemas import manifest as manifests
from ...schemas.actions import DIALECTS
from ...schemas.errors import ArmError, Issue
from ...schemas.ids import file_sha256
from ...schemas.store import TABLES
from ...schemas.validate import for_schema
from ...schemas.yamlfile import read
from ..files import is_file
from ..sources.store import Store
from ..training import Training

_FIELDS = ("kind", "format", "license", "on_invalid", "on_conflict")
_CONSTANTS = {"actor", "actor_revision", "sampling", "teacher", "score_source"}


@dataclass(frozen=True)
class Inputs:
    """Where the inputs of a rebuild are.

    ``sources`` holds the publisher's own files under their published names, and the registry.yaml that declares
    external prompt files; ``known`` says where a file of such a name lies otherwise. ``hub`` None: only what ``store``
    holds.
    """

    sources: Path
    store: Store
    hub: Hub | None = None
    known: Mapping[str, Path] = field(default_factory=dict)


def spec_of(manifest: Mapping[str, Any], inputs: Inputs, progress: Progress) -> BuildSpec:
    """The spec that a manifest was built from, all its files found and compared with their digests.

    Raises ArmError with every file that is missing or has other bytes, or when the manifest says what no registry.yaml
    could declare.
    """
    identity = manifest["identity"]
    _check(identity)
    issues: list[Issue] = []
    sources = []
    for number, source in enumerate(identity["sources"]):
        where = f"$.identity.sources[{number}]"
        try:
            found = _files(source, inputs, progress)
        except ArmError as error:  # of the Hub or the store: about all files of the source
            message = f"{error.where}: {error.message}" if error.where else error.message
            issues += error.issues or [Issue(manifests.NAME, 0, where, message)]
            continue
        issues += [Issue(name, 0, where, problem) for name, _, problem in found if problem]
        sources.append(_source(source, [(name, path) for name, path, _ in found]))
    found_files = _found(inputs.sources)
    issues += _lost(identity["parameters"], found_files, inputs.sources)
    name = f"{identity['namespace']}/{identity['name']} {identity['version']}"
    if issues:
        raise ArmError.of(name, issues)
    spec, issues = _spec(identity, sources, found_files, inputs.sources)
    if issues:
        raise ArmError.of(name, issues)
    return spec


def _found(folder: Path) -> dict[str, Path]:
    """sha256 -> path, of the prompts, benchmarks and processors that the registry.yaml in ``folder`` declares.

    A dataset holds what a prompt says, but not the bytes that its digest is taken of; of the others only the digest.
    """
    registry = folder / "registry.yaml"
    datasets = read(registry, "registry/1").data["datasets"] if registry.is_file() else []
    names = [benchmark["path"] for dataset in datasets for benchmark in dataset.get("benchmarks", [])]
    for options in (options for dataset in datasets for options in dataset["tables"].values()):
        prompts = (options.get("prompt"), (options.get("trajectories") or {}).get("prompt"))
        names += [prompt["file"] for prompt in prompts if isinstance(prompt, dict)]
    found = {file_sha256(path): path for path in (folder / name for name in names) if is_file(path)}
    processors = [folder / dataset["tokens"]["processor"] for dataset in datasets if "tokens" in dataset]
    return found | {digest: path for path in processors if (digest := processor.digest(path))}


def _lost(parameters: Mapping[str, Any], found: Mapping[str, Path], folder: Path) -> list[Issue]:
    """What the parameters rest on and the registry.yaml in ``folder`` does not declare."""
    needed: dict[str, tuple[str, str]] = {}
    for table in ("selection_sft", "bt_pairs", "pointwise_scores"):
        options = parameters.get(table) or {}
        for place, inner in (("", options), (".trajectories", options.get("trajectories") or {})):
            if "prompt" in inner and (sha256 := _external(inner)) and sha256 not in found:
                needed[f"{table}{place}.prompt"] = "prompt file", sha256
    for number, benchmark in enumerate(parameters.get("benchmarks", ())):
        if benchmark["sha256"] not in found:
            needed[f"benchmarks[{number}]"] = "benchmark file", benchmark["sha256"]
    if (tokens := parameters.get("tokens")) and tokens["sha256"] not in found:
        needed["tokens"] = "processor", tokens["sha256"]
    registry = folder / "registry.yaml"
    return [
        Issue(manifests.NAME, 0, f"$.identity.parameters.{place}", f"no {what} of {registry} has the sha256 {sha256}")
        for place, (what, sha256) in needed.items()
    ]


def _check(identity: Mapping[str, Any]) -> None:
    """Refuse what no registry.yaml could declare. Raises ArmError."""
    try:
        declared, rule = _declaration(identity, {}), identity["parameters"]["split"]["rule"]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        message = f"its parameters are none that this version knows ({type(error).__name__}: {error})"
        raise ArmError(message, where=manifests.NAME) from error
    problems = for_schema("registry/1").problems(declared)
    for number, source in enumerate(identity["sources"]):
        where = f"$.datasets[0].sources[{number}]"
        if (source["kind"], source["format"]) not in IMPORTERS:
            problems.append((f"{where}.format", f"{source['format']!r} of {source['kind']} is not known"))
        if source["dialect"] is not None and source["dialect"] not in DIALECTS:
            problems.append((f"{where}.dialect", f"{source['dialect']!r} is not known"))
        if strange := set(source["constants"]) - _CONSTANTS:
            problems.append((f"{where}.constants", f"{sorted(strange)} are not known"))
    parameters = identity["parameters"]
    for table in sorted({*TABLES} & {*parameters} - {*parameters["tables"]}):
        if parameters[table]:
            problems.append((f"$.datasets[0].tables.{table}", "has options, and the dataset has no such table"))
    if rule not in RULES.values():
        problems.append(("$.datasets[0].split", f"its rule is {rule!r}, and this version knows {list(RULES.values())}"))
    if problems:
        issues = [Issue(manifests.NAME, 0, place, message) for place, message in problems]
        raise ArmError("says what no registry.yaml could declare", where=manifests.NAME, issues=issues)


def _declaration(identity: Mapping[str, Any], found: Mapping[str, Path]) -> dict[str, Any]:
    """The manifest's identity as the content of a registry.yaml; each source a path, wherever it came from.

    ``found`` says where external files lie, by their sha256.
    """
    parameters = identity["parameters"]
    tables: dict[str, dict[str, Any]] = {}
    for table in parameters["tables"]:
        how = parameters["images"].get(table)
        tables[table] = {"images": how} if how else {}
        if options := parameters.get(table):
            tables[table] |= _options(options, found)
    if "ready_rules" in parameters:
        tables["bt_pairs"]["rules"] = parameters["ready_rules"]
    dataset = {
        **{name: identity[name] for name in ("name", "version", "license", "description") if identity[name]},
        "sources": [
            {
                **{n: v for n, v in source["constants"].items() if n in _CONSTANTS},
                **{name: source[name] for name in (*_FIELDS, "dialect", "space") if source[name] is not None},
                "path": "x",
            }
            for source in identity["sources"]
        ],
        "split": {**parameters["split"], "rule": _rule(parameters["split"]["rule"])},
        "labels": {name: value for name, value in parameters["labels"].items() if value is not None},
        "gates": parameters["gates"],
        "shards": parameters["shards"],
        "tables": tables,
    }
    if redact := parameters.get("redact"):
        dataset["redact"] = redact
    if tokens := parameters.get("tokens"):
        folder = str(found.get(tokens["sha256"], "x"))
        dataset["tokens"] = {"processor": folder, "max_tokens": tokens["max_tokens"]}
    if benchmarks := parameters.get("benchmarks"):
        dataset["benchmarks"] = [
            {"name": b["name"], "path": str(found.get(b["sha256"], "x")), "near": b["near"]} for b in benchmarks
        ]
    return {"registry": 1, "namespace": identity["namespace"], "datasets": [dataset]}


def _options(options: Mapping[str, Any], found: Mapping[str, Path]) -> dict[str, Any]:
    """The options of a table as registry.yaml writes them."""
    given = {name: value for name, value in options.items() if value is not None}
    made = {name: value for name, value in given.items() if name not in ("prompt", "trajectories")}
    if "prompt" in options:
        sha256 = _external(options)
        file = {"file": str(found.get(sha256, "x")), "sha256": sha256} if sha256 else None
        made |= {"prompt": file or options["prompt"]["id"], "options": options["prompt"]["options"]}
    if "trajectories" in options:
        made["trajectories"] = _options(options["trajectories"], found)
    return made


def _rule(name: str) -> str:
    """The rule of a split as registry.yaml writes it; a name that is not known stays, to be refused."""
    return next((rule for rule, written in RULES.items() if written == name), "task_group")


def _spec(
    identity: Mapping[str, Any], sources: list[SourceSpec], found: Mapping[str, Path], folder: Path
) -> tuple[BuildSpec, list[Issue]]:
    """The spec and what is wrong with it. ``identity`` has passed `_check`."""
    parameters = identity["parameters"]
    (data,) = _declaration(identity, found)["datasets"]
    spec = BuildSpec(
        **{name: identity[name] for name in ("name", "namespace", "version", "license", "description")},
        sources=tuple(sources),
        split=SplitSpec(**data["split"]),
        tables=tuple(parameters["tables"]),
        images=parameters["images"],
        labels=LabelSpec(**parameters["labels"]),
        gates=GateSpec(**parameters["gates"]),
        shards=parameters["shards"],
        redact=tuple(parameters.get("redact", ())),
    )
    issues: list[Issue] = []

    def complain(where: str, message: str) -> None:
        issues.append(Issue(manifests.NAME, 0, where.replace("$.datasets[0]", "$.identity.parameters"), message))

    training = Training(folder, complain)
    spec = training.added(spec, data, "$.datasets[0]")
    if spec.tokens:  # found by its digest, wherever it lies now
        spec = replace(spec, tokens=replace(spec.tokens, name=parameters["tokens"]["name"]))
    return spec, [*issues, *training.issues]


def _source(source: Mapping[str, Any], files: list[tuple[str, Path]]) -> SourceSpec:
    return SourceSpec(
        **{name: source[name] for name in (*_FIELDS, "dialect", "space", "constants")},
        files=tuple(files),
        origin=Origin(**source["origin"]) if source.get("origin") else None,
    )


def _external(options: Mapping[str, Any]) -> str | None:
    """The sha256 of an external prompt file; None for a shipped prompt."""
    kind, _, sha256 = str(options["prompt"]["id"]).partition(":")
    return sha256 if kind == "sha256" else None


def _files(source: Mapping[str, Any], inputs: Inputs, progress: Progress) -> list[tuple[str, Path, str | None]]:
    """(published name, where it lies, what is wrong with it) of each file of a source. Raises ArmError of the store."""
    listed = {file["path"]: file for file in source["files"]}
    origin = source.get("origin")
    if origin is None:
        places = {name: inputs.known.get(name) or _below(inputs.sources, name) for name in listed}
    elif origin["commit"]:
        prefix = f"{origin['repo']}@{origin['revision']}/"
        pinned = {name.removeprefix(prefix): (file["sha256"], file["bytes"]) for name, file in listed.items()}
        fetched = inputs.store.raw(inputs.hub, origin["repo"], origin["commit"], pinned, progress)
        places = {name: fetched[name.removeprefix(prefix)] for name in listed}
    else:
        version, repo = origin["revision"].removeprefix("v"), origin["repo"]
        built = inputs.sources / "build" / repo.rpartition("/")[2]
        table = inputs.store.table(
            inputs.hub, repo, version, None, str(origin["identity_sha256"]), source["kind"], built, progress,
            proven=True,  # whoever hands over the sources may hand over a store with them
        )  # fmt: skip
        places = dict.fromkeys(listed, table)
    return [(name, cast(Path, path), problem) for name, path, problem in _compared(places, listed)]


def _compared(
    places: Mapping[str, Path | None], listed: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, Path | None, str | None]]:
    for name, path in places.items():
        expected, problem = listed[name]["sha256"], None
        if path is None:
            problem = "is no path below a folder"
        elif not is_file(path):
            problem = f"is not at {path}: sha256 {expected} was read"
        elif (found := file_sha256(path)) != expected:
            problem = f"has sha256 {found}, and {expected} was read"
        yield name, path, problem


def _below(folder: Path, name: str) -> Path | None:
    """The file of a published name; None when the name leads out of the folder."""
    parts = name.split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or PureWindowsPath(name).drive
        or (os.sep == "\\" and "\\" in name)
    ):
        return None
    return folder.joinpath(*parts)
