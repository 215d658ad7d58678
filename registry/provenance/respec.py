"""The build spec behind a published manifest: what was declared, and every input file with the bytes it had then.

A published manifest is somebody else's text. What it says is held against the schema of registry.yaml before anything
is made of it, and a file that it names is read only below the folder of the sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any, cast

from ...builders.importers import IMPORTERS
from ...builders.partition import Progress
from ...builders.spec import (
    BuildSpec,
    GateSpec,
    LabelSpec,
    Origin,
    PairSpec,
    PromptSpec,
    SelectionSpec,
    SourceSpec,
    SplitSpec,
)
from ...hub_sync.hub import Hub
from ...schemas import manifest as manifests
from ...schemas.actions import DIALECTS
from ...schemas.errors import ArmError, Issue
from ...schemas.ids import file_sha256
from ...schemas.validate import for_schema
from ...schemas.yamlfile import read
from ..files import is_file
from ..sources.store import Store

_RULE = "sha256(seed, task_group)"
_FIELDS = ("kind", "format", "license", "on_invalid", "on_conflict")
_CONSTANTS = {"actor", "actor_revision", "sampling", "teacher"}


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
            found = _files(source, where, inputs, progress)
        except ArmError as error:  # of the Hub or the store: about all files of the source
            message = f"{error.where}: {error.message}" if error.where else error.message
            issues += error.issues or [Issue(manifests.NAME, 0, where, message)]
            continue
        issues += [Issue(name, 0, where, problem) for name, _, problem in found if problem]
        sources.append(_source(source, [(name, path) for name, path, _ in found]))
    prompts, lost = _prompts(identity["parameters"], inputs.sources)
    if issues := issues + lost:
        raise ArmError.of(f"{identity['namespace']}/{identity['name']} {identity['version']}", issues)
    return _spec(identity, sources, prompts)


def _prompts(parameters: Mapping[str, Any], folder: Path) -> tuple[dict[str, Path], list[Issue]]:
    """sha256 -> external prompt file, of those that the registry.yaml in ``folder`` declares; and those not there.

    A dataset holds what a prompt says, but not the bytes that its digest is taken of.
    """
    tables = [table for table in ("selection_sft", "bt_pairs") if parameters[table] and _external(parameters[table])]
    if not tables:
        return {}, []
    registry = folder / "registry.yaml"
    datasets = read(registry, "registry/1").data["datasets"] if registry.is_file() else []
    declared = [options.get("prompt") for dataset in datasets for options in dataset["tables"].values()]
    paths = [folder / prompt["file"] for prompt in declared if isinstance(prompt, dict)]
    found = {file_sha256(path): path for path in paths if path.is_file()}
    lost = []
    for table in tables:
        if (sha256 := _external(parameters[table])) not in found:
            message = f"no prompt file of {registry} has the sha256 {sha256}"
            lost.append(Issue(manifests.NAME, 0, f"$.identity.parameters.{table}.prompt", message))
    return found, lost


def _check(identity: Mapping[str, Any]) -> None:
    """Refuse what no registry.yaml could declare. Raises ArmError."""
    try:
        declared, rule = _declaration(identity), identity["parameters"]["split"]["rule"]
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
    if rule != _RULE:
        problems.append(("$.datasets[0].split", f"its rule is {rule!r}, and this version splits by {_RULE}"))
    if problems:
        issues = [Issue(manifests.NAME, 0, place, message) for place, message in problems]
        raise ArmError("says what no registry.yaml could declare", where=manifests.NAME, issues=issues)


def _declaration(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's identity as the content of a registry.yaml; each source a path, wherever it came from."""
    parameters = identity["parameters"]
    tables: dict[str, dict[str, Any]] = {}
    for table in parameters["tables"]:
        how = parameters["images"].get(table)
        tables[table] = {"images": how} if how else {}
    for table in ("selection_sft", "bt_pairs"):
        if options := parameters[table]:
            sha256 = _external(options)
            prompt = {"file": "x", "sha256": sha256} if sha256 else options["prompt"]["id"]
            tables[table] |= {**_rest(options), "prompt": prompt, "options": options["prompt"]["options"]}
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
        "split": {name: value for name, value in parameters["split"].items() if name != "rule"},
        "labels": {name: value for name, value in parameters["labels"].items() if value is not None},
        "gates": parameters["gates"],
        "shards": parameters["shards"],
        "tables": tables,
    }
    if redact := parameters.get("redact"):
        dataset["redact"] = redact
    return {"registry": 1, "namespace": identity["namespace"], "datasets": [dataset]}


def _spec(identity: Mapping[str, Any], sources: list[SourceSpec], prompts: Mapping[str, Path]) -> BuildSpec:
    """``identity`` has passed `_check`."""
    parameters = identity["parameters"]

    def prompt(options: Mapping[str, Any]) -> PromptSpec:
        sha256, own = _external(options), options["prompt"]["options"]
        return PromptSpec(file=(prompts[sha256], sha256), options=own) if sha256 else PromptSpec(
            id=options["prompt"]["id"], options=own
        )  # fmt: skip

    selection, pairs = parameters["selection_sft"], parameters["bt_pairs"]
    return BuildSpec(
        **{name: identity[name] for name in ("name", "namespace", "version", "license", "description")},
        sources=tuple(sources),
        split=SplitSpec(**{name: value for name, value in parameters["split"].items() if name != "rule"}),
        tables=tuple(parameters["tables"]),
        images=parameters["images"],
        selection=SelectionSpec(prompt(selection), **_rest(selection)) if selection else None,
        pairs=PairSpec(prompt(pairs), **_rest(pairs)) if pairs else None,
        labels=LabelSpec(**parameters["labels"]),
        gates=GateSpec(**parameters["gates"]),
        shards=parameters["shards"],
        redact=tuple(parameters.get("redact", ())),
    )


def _source(source: Mapping[str, Any], files: list[tuple[str, Path]]) -> SourceSpec:
    return SourceSpec(
        **{name: source[name] for name in (*_FIELDS, "dialect", "space", "constants")},
        files=tuple(files),
        origin=Origin(**source["origin"]) if source.get("origin") else None,
    )


def _rest(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "prompt"}


def _external(options: Mapping[str, Any]) -> str | None:
    """The sha256 of an external prompt file; None for a shipped prompt."""
    kind, _, sha256 = str(options["prompt"]["id"]).partition(":")
    return sha256 if kind == "sha256" else None


def _files(
    source: Mapping[str, Any], where: str, inputs: Inputs, progress: Progress
) -> list[tuple[str, Path, str | None]]:
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
