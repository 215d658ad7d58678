"""A built directory, checked against its manifest: the opposite of the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..schemas import digests
from ..schemas.built import built_rows
from ..schemas.errors import Issue
from ..schemas.ids import file_sha256
from ..schemas.manifest import identity_digest, manifest_of
from ..schemas.store import TABLES, UNSPLIT
from ..schemas.validate import for_schema


def check(folder: Path, progress: Callable[[str, int, int], None] = lambda *_: None) -> list[Issue]:
    """Check a built directory against its manifest: files, schemas of all rows, digests of rows, tables and build.

    Returns every issue, sorted by file. Raises ArmError when there is no manifest.
    """
    manifest = manifest_of(folder)
    issues = _check_files(folder, manifest)
    broken = {issue.file for issue in issues}
    identity = manifest["identity"]
    if identity_digest(identity) != manifest["identity_sha256"]:
        issues.append(Issue("manifest.json", 0, "$.identity_sha256", "is not the digest of identity"))
    total = sum(table["rows"] for table in identity["tables"].values())
    done = 0
    for name, table in identity["tables"].items():
        found: list[bytes] = []
        complete = True
        for split, part in table["splits"].items():
            for file in part["files"]:
                if file["path"] in broken or table["schema"] != TABLES.get(name):
                    complete = False
                    continue
                file_issues, own = _check_rows(folder, file, table["schema"], None if name in UNSPLIT else split)
                issues += file_issues
                found += own
                done += file["rows"]
                progress("checking", done, total)
        if table["schema"] != TABLES.get(name):
            message = f"is {table['schema']!r}, which this version does not know for {name}: its rows were not checked"
            issues.append(Issue("manifest.json", 0, f"$.identity.tables.{name}.schema", message))
        issues += _check_counts(f"$.identity.tables.{name}", table)
        if complete and digests.combine(found) != table["row_digest"]:
            issues.append(Issue("manifest.json", 0, f"$.identity.tables.{name}.row_digest", "is not the rows' digest"))
    return sorted(issues)


def _check_counts(where: str, table: dict[str, Any]) -> Iterator[Issue]:
    splits = table["splits"]
    counted = {f"{where}.splits.{name}": sum(file["rows"] for file in split["files"]) for name, split in splits.items()}
    said = {f"{where}.splits.{name}": split["rows"] for name, split in splits.items()}
    counted[where], said[where] = sum(counted.values()), table["rows"]
    for place, rows in counted.items():
        if said[place] != rows:
            yield Issue("manifest.json", 0, f"{place}.rows", f"is {said[place]}, its files have {rows}")


def _check_files(folder: Path, manifest: dict[str, Any]) -> list[Issue]:
    issues = []
    listed = manifest["environment"]["files"]
    splits = (split for table in manifest["identity"]["tables"].values() for split in table["splits"].values())
    data = {file["path"] for split in splits for file in split["files"]}
    issues += [Issue(name, 0, "$", "has no hash in the manifest") for name in sorted(data - set(listed))]
    if not (folder / "README.md").is_file():
        issues.append(Issue("README.md", 0, "$", "is missing: stock datasets reads the tables from it"))
    for name, expected in listed.items():
        path = folder / name
        if not _inside(path, folder):
            issues.append(Issue(name, 0, "$", "does not lie in the build"))
            continue
        if not path.is_file():
            issues.append(Issue(name, 0, "$", "is missing"))
            continue
        sha256 = file_sha256(path)
        if sha256 != expected["sha256"]:
            issues.append(
                Issue(name, 0, "$", f"has sha256 {sha256[:12]}…, the manifest says {expected['sha256'][:12]}…")
            )
    known = {*data, *(name for name in listed if not name.startswith("data/")), "README.md", "manifest.json"}
    for path in sorted(folder.rglob("*")):
        if (path.is_symlink() or not path.is_dir()) and path.relative_to(folder).as_posix() not in known:
            issues.append(Issue(path.relative_to(folder).as_posix(), 0, "$", "is not in the manifest"))
    return issues


def _check_rows(
    folder: Path, file: dict[str, Any], schema_name: str, split: str | None
) -> tuple[list[Issue], list[bytes]]:
    import pyarrow as pa

    validator, codec = for_schema(schema_name), digests.for_schema(schema_name)
    issues, found = [], []
    try:
        for number, row in enumerate(built_rows(folder / file["path"], schema_name)):
            problems = validator.problems(row)
            if split is not None and row.get("split") != split:
                problems.append(("$.split", f"is {row.get('split')!r} in a file of {split}"))
            issues += [Issue(file["path"], 0, f"row {number} {where}", message) for where, message in problems]
            if not problems:
                found.append(codec.digest(row))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:  # damage, or columns of other types
        issues.append(Issue(file["path"], 0, "$", f"cannot be read: {error}"))
    if len(found) == file["rows"] and digests.combine(found) == file["row_digest"]:
        return issues, found
    if not issues:
        issues.append(Issue(file["path"], 0, "$", f"holds other rows than the manifest says ({len(found)} rows read)"))
    return issues, found


def _inside(path: Path, folder: Path) -> bool:
    """False for what leads out of the folder: ``..``, an absolute path, a link, a link to itself."""
    try:
        return folder.resolve() in path.resolve().parents
    except (OSError, RuntimeError):
        return False
