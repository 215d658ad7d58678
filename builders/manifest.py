"""The manifest: what a build is, written last. README.md is rendered from it afterwards and is not in it."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import orjson

from .. import __version__
from ..prompts.render import RENDERER_VERSION, Prompt
from ..schemas.arrow import image_columns
from ..schemas.digests import combine
from ..schemas.errors import ArmError
from ..schemas.ids import file_sha256, sha256_hex
from ..schemas.manifest import identity_digest
from ..schemas.store import TABLES
from ..schemas.validate import for_schema
from . import audits, processor
from .bucket import BucketResult
from .gathering import SourceFile
from .ledger import Ledger, account
from .partition import Partition
from .spec import BuildSpec
from .writer import WrittenFile

PACKAGES = ("datasets", "huggingface_hub", "jsonschema-rs", "orjson", "pillow", "pyarrow")


def assemble(
    spec: BuildSpec,
    parts: Partition,
    results: Sequence[BucketResult],
    ledger: Mapping[str, Any],
    prompts: Sequence[Prompt],
) -> dict[str, Any]:
    """Return the identity half: everything that decides whether a build is new, and nothing that does not."""
    files = [file for result in results for file in result.files]
    statistics: Counter[tuple[str, ...]] = Counter({("redacted", kind): n for kind, n in parts.redacted.items()})
    for result in results:
        statistics.update(result.statistics)
    return {
        "name": spec.name,
        "namespace": spec.namespace,
        "version": spec.version,
        "license": spec.license,
        "description": spec.description,
        "tables": {t: _table(t, spec, files) for t in spec.published},
        "parameters": {**spec.parameters(), "shards": parts.buckets},
        "sources": [_source(spec, position, parts.files) for position in range(len(spec.sources))],
        "prompts": [
            {
                "id": p.id,
                "sha256": p.sha256,
                "kind": p.kind,
                "options": p.options.to_json(),
                "renderer": RENDERER_VERSION,
            }
            for p in prompts
        ],
        "ledger": ledger,
        "statistics": {
            **_nested(statistics),
            **_distinct(results),
            "leakage": leakage(results),
            "audits": audits.report(spec, [r.audits for r in results], [r.seen for r in results]),
        },
    }  # fmt: skip


def environment(
    files: Mapping[str, dict[str, Any]], workers: int, seconds: float, more: Mapping[str, str]
) -> dict[str, Any]:
    """The other half: file hashes and where the build ran; it never decides whether something is new. ``more``:
    versions of packages that only this build needed."""
    return {
        "files": dict(sorted(files.items())),
        "action_reward_models": __version__,
        "code_sha256": code_sha256(),
        "packages": {**{name: metadata.version(name) for name in PACKAGES}, **more},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "workers": workers,
        "seconds": round(seconds, 1),
    }


def fingerprint(spec: BuildSpec, parts: Partition) -> str:
    """Digest of everything that decides the files of the buckets, down to the versions of what writes them.

    The specification is taken whole, whatever fields it has, and the sources by what was read of them: a picture may
    have changed beside a file of records that did not.
    """
    copied = sorted(path for path in parts.folder.iterdir() if not path.name.startswith("bucket-"))
    said = {
        "spec": asdict(spec),
        "buckets": parts.buckets,
        "sources": [[f.name, f.sha256] for f in parts.files],
        "copied": [[path.name, file_sha256(path)] for path in copied],
        "code": code_sha256(),
        "packages": packages() | processor.packages(spec.tokens),
    }
    return sha256_hex(json.dumps(said, sort_keys=True, default=_place))


def _place(value: object) -> str:
    """A file is what was read of it, wherever it lies."""
    if isinstance(value, Path):
        return ""
    raise TypeError(f"no JSON for {type(value).__name__}")


def packages() -> dict[str, str]:
    """Versions of what a build rests on."""
    return {**{name: metadata.version(name) for name in PACKAGES}, "python": platform.python_version()}


def write(folder: Path, identity: dict[str, Any], env: dict[str, Any]) -> dict[str, Any]:
    """Write ``manifest.json`` and return it."""
    manifest = {
        "manifest": 1,
        "identity_sha256": identity_digest(identity),
        "identity": identity,
        "environment": env,
    }
    problems = for_schema("manifest/1").problems(manifest)
    if problems:
        raise ArmError(f"the manifest breaks its schema, which is a defect of the builder: {problems[:3]}")
    data = orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    (folder / "manifest.json").write_bytes(data + b"\n")
    return manifest


def account_of(parts: Partition, results: Sequence[BucketResult]) -> dict[str, Any]:
    """The account over the partition and all buckets; raises ArmError when a unit got lost."""
    units_in: Counter[str] = Counter()
    units_out: Counter[str] = Counter()
    excluded: Counter[tuple[str, str, str]] = Counter()
    told: list[Ledger | BucketResult] = [parts.ledger, *results]
    for part in told:
        units_in.update(part.units_in)
        units_out.update(part.units_out)
        excluded.update(part.excluded)
    return account(units_in, units_out, excluded)


def leakage(results: Sequence[BucketResult]) -> dict[str, int]:
    """Validation rows' distinct (prompt, pictures) that train has too, over all buckets, per table."""
    found = {}
    others = {table for result in results for table, _ in result.seen} - {"bench_items"}  # of which none is in train
    for table in ("selection_sft", "bt_pairs", *sorted(others - {"selection_sft", "bt_pairs"})):
        split: dict[str, set[bytes]] = {"train": set(), "validation": set()}
        for result in results:
            for (name, part), joined in result.seen.items():
                if name == table:
                    split[part].update(joined[i : i + 32] for i in range(0, len(joined), 32))
        found[table] = len(split["train"] & split["validation"])
    return found


@cache
def code_sha256() -> str:
    """Digest of the code and data that decide rows: a build by other code is stale even with equal inputs."""
    root = resources.files("action_reward_models")
    digest = []
    for room in ("schemas", "prompts", "builders"):
        for path in sorted(Path(str(root / room)).rglob("*")):
            if path.suffix in (".py", ".json", ".yaml") and path.is_file():
                name = path.relative_to(str(root)).as_posix()
                digest.append(f"{name} {sha256_hex(path.read_bytes())}")
    return sha256_hex("\n".join(digest))


def _table(table: str, spec: BuildSpec, files: Sequence[WrittenFile]) -> dict[str, Any]:
    own = [f for f in files if f.table == table]
    return {
        "schema": TABLES[table],
        "images": spec.images.get(table, "embed") if image_columns(TABLES[table]) else None,
        "rows": sum(f.rows for f in own),
        "row_digest": combine(digest for f in own for digest in _cut(f.digests)),
        "splits": {
            split: {
                "rows": sum(f.rows for f in own if f.split == split),
                "expanded_bytes": sum(f.expanded_bytes for f in own if f.split == split),
                "files": [
                    {"path": f.path, "rows": f.rows, "row_digest": combine(_cut(f.digests))}
                    for f in sorted(own, key=lambda f: f.path)
                    if f.split == split
                ],
            }
            for split in ("train", "validation")
            if any(f.split == split for f in own)
        },
    }


def _cut(joined: bytes) -> list[bytes]:
    return [joined[i : i + 32] for i in range(0, len(joined), 32)]


def _source(spec: BuildSpec, position: int, files: Sequence[SourceFile]) -> dict[str, Any]:
    source = spec.sources[position]
    return {
        "kind": source.kind,
        "format": source.format,
        "dialect": source.dialect,
        "space": source.space,
        "license": source.license,
        "constants": dict(source.constants),
        "on_invalid": source.on_invalid,
        "on_conflict": source.on_conflict,
        "origin": source.origin and source.origin.to_json(),
        "files": [
            {"path": f.name, "sha256": f.sha256, "bytes": f.bytes, "records": f.records}
            for f in sorted(files, key=lambda f: f.name)
            if f.source == position
        ],
    }


def _nested(counts: Counter[tuple[str, ...]]) -> dict[str, dict[str, int]]:
    result: dict[str, dict[str, int]] = {}
    for (name, value), n in sorted(counts.items()):
        if n:
            result.setdefault(name, {})[value] = n
    return result


def _distinct(results: Sequence[BucketResult]) -> dict[str, Any]:
    """Distinct episodes, task groups, hosts and screenshots per split, and how many both splits have."""
    merged: dict[str, set[bytes]] = {}
    for result in results:
        for name, values in result.groups.items():
            merged.setdefault(name, set()).update(values)
    facts = sorted({name.partition("/")[0] for name in merged})
    return {
        "distinct": {
            fact: {
                "train": len(train := merged.get(f"{fact}/train", set())),
                "validation": len(validation := merged.get(f"{fact}/validation", set())),
                "both": len(train & validation),
            }
            for fact in facts
        }
    }
