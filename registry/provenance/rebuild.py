"""Is a published dataset what its sources give? Built again from the manifest alone, every digest compared."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...builders.gathering import Progress
from ...builders.manifest import code_sha256
from ...builders.runner import build
from ...schemas import digests
from ...schemas.built import built_rows
from ...schemas.errors import ArmError, Issue
from ...schemas.manifest import NAME, identity_digest, manifest_of
from ...schemas.store import ID_FIELDS, TABLES
from ..builds import check_build
from ..staleness import differences
from .respec import Inputs, spec_of

_SHOWN = 3  # rows of a kind that an issue names
_EXCLUSION = ("stage", "source_table", "source_id", "reason")


def check_rebuilt(
    folder: Path, inputs: Inputs, *, workers: int | None = None, progress: Progress = lambda *_: None
) -> list[Issue]:
    """Every issue of a built directory, as `check_build` finds them, and every difference that `rebuild` finds."""
    issues = check_build(folder, progress)
    with tempfile.TemporaryDirectory(prefix="arm-rebuild-") as work:
        manifest = manifest_of(folder)
        issues += rebuild(manifest, inputs, Path(work), published=folder, workers=workers, progress=progress)
    return sorted(issues)


def rebuild(
    manifest: Mapping[str, Any], inputs: Inputs, work: Path, *, published: Path | None = None,
    workers: int | None = None, progress: Progress = lambda *_: None,
) -> list[Issue]:  # fmt: skip
    """Build what ``manifest`` describes below ``work`` and return every difference; nothing when all digests are equal.

    ``published`` is a folder with the published files, so that rows that differ can be named. ``workers`` is by default
    another number than that of the build. Files that are missing or have other bytes are found before anything is
    built, all of them.
    """
    environment = manifest["environment"]
    processes = workers or (1 if environment["workers"] > 1 else 2)
    try:
        spec = spec_of(manifest, inputs, progress)
    except ArmError as error:
        return _issues(error)
    try:
        # Gates were judged when it was published; they decide no row.
        built = build(spec, work / "rebuilt", card=lambda _: "", workers=processes, enforce=False, progress=progress)
    except ArmError as error:
        return sorted([*_issues(error), *_code(environment)])
    if built.manifest["identity_sha256"] == identity_digest(manifest["identity"]):
        return []
    again = manifest_of(built.folder)["identity"]  # as JSON has it, as the published one
    issues = list(_compared(manifest["identity"], again, built.folder, published))
    return sorted([*issues, *_code(environment)])


def _issues(error: ArmError) -> list[Issue]:
    return sorted(error.issues) or [Issue(error.where or NAME, 0, "$", error.message)]


def _code(environment: Mapping[str, Any]) -> Iterator[Issue]:
    """Rows may differ because the code does, which is worth knowing before anybody is blamed."""
    before, now = environment["code_sha256"], code_sha256()
    if before != now:
        version = environment["action_reward_models"]
        message = f"the code that built it is another ({before[:12]}… of version {version}, {now[:12]}… here)"
        yield Issue(NAME, 0, "$.environment.code_sha256", f"{message}: differences may come from that")


def _compared(
    before: Mapping[str, Any], after: Mapping[str, Any], folder: Path, published: Path | None
) -> Iterator[Issue]:
    for name in sorted({*before["tables"], *after["tables"]}):
        old, new = before["tables"].get(name), after["tables"].get(name)
        where = f"$.identity.tables.{name}"
        if old is None or new is None:
            yield Issue(NAME, 0, where, "is not in the rebuild" if new is None else "is not in what was published")
            continue
        was, now = _files(old), _files(new)
        changed = [path for path in sorted({*was, *now}) if was.get(path) != now.get(path)]
        if old["row_digest"] != new["row_digest"]:
            said = f"row_digest is {old['row_digest']}, and the rebuild has {new['row_digest']}"
            yield Issue(NAME, 0, where, said + _rows(name, old, folder, changed, was, now, published))
        for path in changed:
            yield Issue(path, 0, "$", f"row_digest {_of(was, path)} published, {_of(now, path)} rebuilt")
        if not changed and old["row_digest"] == new["row_digest"]:
            yield from (Issue(NAME, 0, where, text) for text in differences(old, new))
    for key in sorted({*before, *after} - {"tables"}):
        for text in differences(before.get(key), after.get(key), key):
            yield Issue(NAME, 0, f"$.identity.{key}", f"published -> rebuilt: {text}")


def _files(table: Mapping[str, Any]) -> dict[str, str]:
    return {file["path"]: file["row_digest"] for split in table["splits"].values() for file in split["files"]}


def _of(files: Mapping[str, str], path: str) -> str:
    return f"{files[path][:12]}…" if path in files else "none"


def _rows(
    name: str, table: Mapping[str, Any], folder: Path, changed: Sequence[str], was: Mapping[str, str],
    now: Mapping[str, str], published: Path | None,
) -> str:  # fmt: skip
    """Which rows differ, in words; "" when the published ones cannot be looked at."""
    import pyarrow as pa

    if published is None or table["schema"] != TABLES.get(name):
        return ""
    try:
        before = _digests(name, [published / path for path in changed if path in was])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:  # damage, which a check names, too
        return f"; the published rows cannot be read: {error}"
    after = _digests(name, [folder / path for path in changed if path in now])
    kinds = {
        "missing": before.keys() - after.keys(),
        "new": after.keys() - before.keys(),
        "other": {key for key in before.keys() & after.keys() if before[key] != after[key]},
    }
    return "".join(f"; {len(ids)} {kind} ({_some(ids)})" for kind, ids in kinds.items() if ids)


def _some(ids: Iterable[str]) -> str:
    first = sorted(ids)
    return ", ".join(first[:_SHOWN]) + (", …" if len(first) > _SHOWN else "")


def _digests(name: str, files: Iterable[Path]) -> dict[str, bytes]:
    """Row id -> row digest."""
    codec = digests.for_schema(TABLES[name])
    fields = (ID_FIELDS[name],) if name in ID_FIELDS else _EXCLUSION
    return {
        " ".join(str(row[field]) for field in fields): codec.digest(row)
        for path in files
        for row in built_rows(path, TABLES[name])
    }
