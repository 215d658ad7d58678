"""What two manifests tell without a row being read: names, prompts, parameters, sources, withdrawn versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .model import Change, Facts
from .values import changes

Source = Mapping[str, Any]
_NAMES = ("name", "namespace", "version", "license", "description")


def facts(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Facts:
    """Compare two manifests; without one before, everything is new."""
    old, new = (before or {}).get("identity", {}), after["identity"]
    prompts = [{prompt["kind"]: prompt for prompt in identity.get("prompts", ())} for identity in (old, new)]
    withdrawn = [manifest.get("environment", {}).get("withdrawn", {}) for manifest in (before or {}, after)]
    return Facts(
        identity=[change for name in _NAMES for change in changes(name, old.get(name), new[name])],
        prompts=list(changes("prompts", *prompts)),
        parameters=list(changes("parameters", old.get("parameters", {}), new["parameters"])),
        sources=list(_sources(old.get("sources", []), new["sources"])),
        withdrawn=list(changes("withdrawn", *withdrawn)),
    )


def _sources(before: list[Source], after: list[Source]) -> Iterator[Change]:
    """Sources are the same when they are equal, else when they share a file, else when only one of a kind is left."""
    partners = _partners(before, after)
    for number, source in enumerate(before):
        if number not in partners.values():
            yield Change(f"sources[{_title(source)}]", _whole(source), None)
    for number, new in enumerate(after):
        where = f"sources[{_title(new)}]"
        if number not in partners:
            yield Change(where, None, _whole(new))
            continue
        old = before[partners[number]]
        settings = [{k: v for k, v in source.items() if k != "files"} | _origin(source) for source in (old, new)]
        yield from changes(where, *settings)
        files = [{file["path"]: file for file in source["files"]} for source in (old, new)]
        for path in sorted({*files[0], *files[1]}):
            contents = [_file(side[path]) if path in side else None for side in files]
            if contents[0] != contents[1]:
                yield Change(f"{where}.files[{path}]", *contents)
    kept = [partners[number] for number in range(len(after)) if number in partners]
    if kept != sorted(kept):
        yield Change("sources.order", [_title(before[n]) for n in sorted(kept)], [_title(before[n]) for n in kept])


def _partners(before: list[Source], after: list[Source]) -> dict[int, int]:
    """Position in after -> position in before."""
    found: dict[int, int] = {}
    for alike in (_equal, _share_a_file, _one_kind):
        for number, new in enumerate(after):
            free = [n for n in range(len(before)) if n not in found.values() and alike(before[n], new)]
            unique = alike is not _one_kind or (len(free) == 1 and _alone(number, after, found))
            if number not in found and free and unique:
                found[number] = free[0]
    return found


def _equal(old: Source, new: Source) -> bool:
    return {**old, **_origin(old)} == {**new, **_origin(new)}


def _share_a_file(old: Source, new: Source) -> bool:
    paths = {file["path"] for file in old["files"]} & {file["path"] for file in new["files"]}
    return _one_kind(old, new) and bool(paths)


def _one_kind(old: Source, new: Source) -> bool:
    return bool(old["kind"] == new["kind"])


def _alone(number: int, after: list[Source], found: Mapping[int, int]) -> bool:
    kind = after[number]["kind"]
    return [n for n, source in enumerate(after) if n not in found and source["kind"] == kind] == [number]


def _origin(source: Source) -> dict[str, Any]:
    """Older manifests say nothing about where a source comes from, which means what null does."""
    return {"origin": source.get("origin")}


def _title(source: Source) -> str:
    files = source["files"]
    first = f" {files[0]['path']}" if files else ""
    return f"{source['kind']}{first}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"


def _whole(source: Source) -> dict[str, Any]:
    return {**source, "files": {file["path"]: _file(file) for file in source["files"]}}


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    return {"sha256": file["sha256"], "records": file["records"]}
