"""Whether a build still is what its declaration asks for, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ..builders.manifest import code_sha256
from ..builders.spec import BuildSpec
from ..builders.views import load as load_prompt
from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256
from ..schemas.manifest import manifest_of


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished build, or None; a folder without a valid one is no build."""
    try:
        return manifest_of(folder)
    except ArmError:
        return None


def reasons(spec: BuildSpec, folder: Path) -> list[str]:
    """Why ``folder`` must be built (again); empty when it is up to date.

    Source files are compared by content, parameters by value, and the code by its digest.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return ["there is no build yet"]
    identity, environment = manifest["identity"], manifest["environment"]
    found = [
        f"{name}: {identity.get(name)!r} -> {getattr(spec, name)!r}"
        for name in ("namespace", "name", "version", "license", "description")
        if identity.get(name) != getattr(spec, name)
    ]
    found += _parameters(identity["parameters"], spec)
    found += _sources(identity["sources"], spec)
    found += _prompts(identity["prompts"], spec)
    if environment.get("code_sha256") != code_sha256():
        found.append("the code that builds rows is another version")
    for path, file in environment["files"].items():
        if not (folder / path).is_file() or file_sha256(folder / path) != file["sha256"]:
            found.append(f"{path} is missing or changed")
    if not (folder / "README.md").is_file():
        found.append("README.md is missing")
    return found


def _parameters(before: dict[str, Any], spec: BuildSpec) -> Iterator[str]:
    after = spec.parameters()
    if spec.shards is None:  # chosen from the data size
        after["shards"] = before.get("shards")
    yield from differences(before, after)


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """What differs in two JSON values, key by key, in words."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{where}.{key}" if where else key)
    elif before != after:
        yield f"{where}: {_short(before)} -> {_short(after)}"


def _sources(before: list[dict[str, Any]], spec: BuildSpec) -> Iterator[str]:
    """Differences source by source, in declared order: two sources may hold files of one name."""
    if len(before) != len(spec.sources):
        yield f"sources: {len(before)} -> {len(spec.sources)}"
        return
    for number, (old, new) in enumerate(zip(before, spec.sources, strict=True)):
        for name in ("kind", "format", "dialect", "space", "license", "constants", "on_invalid", "on_conflict"):
            value = dict(new.constants) if name == "constants" else getattr(new, name)
            if old[name] != value:
                yield f"sources[{number}].{name}: {_short(old[name])} -> {_short(value)}"
        origin = new.origin and new.origin.to_json()
        yield from differences(old.get("origin"), origin, f"sources[{number}].origin")
        known = {file["path"]: file["sha256"] for file in old["files"]}
        now = dict(new.files)
        yield from (f"sources[{number}]: {name} is new" for name in sorted(now.keys() - known.keys()))
        yield from (f"sources[{number}]: {name} is gone" for name in sorted(known.keys() - now.keys()))
        for name in sorted(known.keys() & now.keys()):
            if file_sha256(now[name]) != known[name]:
                yield f"sources[{number}]: {name} has other content"


def _prompts(before: list[dict[str, Any]], spec: BuildSpec) -> Iterator[str]:
    parts = (spec.selection, spec.pairs, spec.pointwise, spec.pairs and spec.pairs.trajectories)
    known = {old["sha256"]: old for old in before}
    for new in (load_prompt(part.prompt) for part in parts if part):
        if new.sha256 not in known:
            was = next((old["sha256"][:12] for old in before if (old["id"], old["kind"]) == (new.id, new.kind)), "none")
            yield f"prompt {new.id} renders differently ({was} -> {new.sha256[:12]})"


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"
