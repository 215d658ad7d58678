"""Built directories of random rows: every field of every schema, pictures, shards and row groups of any cut."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
from action_reward_models.builders.writer import parquet_options
from action_reward_models.schemas import digests
from action_reward_models.schemas.arrow import arrow_schema, image_columns, is_image
from action_reward_models.schemas.columns import arrow_table, embed_pictures
from action_reward_models.schemas.ids import canonical_json, file_sha256, sha256_hex
from action_reward_models.schemas.store import ID_FIELDS, TABLES, Schema, load

from ...hub_sync.conftest import png

Row = dict[str, Any]
Tables = dict[str, list[Row]]
BLOBS = {f"sha256:{sha256_hex(png(n))}": png(n) for n in range(6)}


def value(node: Schema, draw: random.Random) -> Any:
    """A random value that fits the type of a schema node."""
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    if "null" in kinds and draw.random() < 0.3:
        return None
    if is_image(node):
        return draw.choice(sorted(BLOBS))
    if "enum" in node:
        return draw.choice([word for word in node["enum"] if word is not None])
    match next(kind for kind in kinds if kind != "null"):
        case "array":
            return [value(node["items"], draw) for _ in range(draw.randrange(3))]
        case "object":
            return {name: value(sub, draw) for name, sub in node["properties"].items()}
        case "integer":
            return draw.randrange(3)
        case "number":
            return draw.choice([0.0, -0.0, 0.5, 1.0])
        case "boolean":
            return draw.random() < 0.5
    return draw.choice(["", "a", "ä\n", "\x1b[31m", "word " * 5])


def row(table: str, number: int, draw: random.Random) -> Row:
    """A random row with an id of its own; rows of one number in several tables belong together."""
    made: Row = {name: value(node, draw) for name, node in load(TABLES[table])["properties"].items()}
    if table in ID_FIELDS:
        made[ID_FIELDS[table]] = f"{table}-{number}"
    if table in ("selection_sft", "bt_pairs"):
        made["label_id"] = f"teacher_labels-{number % 7}"
    if table == "teacher_labels":
        made["set_id"] = f"candidate_sets-{number % 5}"
    if table == "reviews":
        made["item_id"] = f"teacher_labels-{number}"
    if "split" in made:
        made["split"] = draw.choice(["train", "train", "validation"])
    return made


def revised(table: str, rows: list[Row], draw: random.Random) -> list[Row]:
    """Some rows gone, some with another value in one field or in none that counts, some new; in another order."""
    properties = load(TABLES[table])["properties"]
    new = []
    for old in rows:
        fate = draw.random()
        if fate < 0.1:
            continue
        changed = dict(old)
        if fate < 0.5:
            name = draw.choice([name for name in properties if name != ID_FIELDS.get(table)])
            changed[name] = row(table, 0, draw)[name]
        new.append(changed)
    new += [row(table, 1000 + n, draw) for n in range(draw.randrange(4))]
    draw.shuffle(new)
    return new


def write(
    folder: Path, tables: Tables, draw: random.Random, *, shards: int = 1, group: int = 3, images: str = "embed",
    identity: Row | None = None,
) -> Path:  # fmt: skip
    """A built directory of these rows, ``shards`` files per table and split, ``group`` rows in a row group."""
    files: dict[str, Row] = {}
    entries: dict[str, Row] = {}
    for table, rows in tables.items():
        codec = digests.for_schema(TABLES[table])
        pictured = bool(image_columns(TABLES[table]))
        splits: dict[str, Row] = {}
        for split in ("train", "validation"):
            own = [r for r in rows if r.get("split", "train") == split]
            parts: list[list[Row]] = [[] for _ in range(shards)]
            for r in own:
                parts[draw.randrange(shards) if draw.random() < 0.2 else len(canonical_json(r)) % shards].append(r)
            listed = []
            for number, part in enumerate(parts):
                if not part:
                    continue
                path = f"data/{table}/{split}-{number:05d}-of-{shards:05d}.parquet"
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                made = arrow_table(TABLES[table], [codec.normalise(r) for r in part])
                embed = images == "embed" and pictured
                if embed:
                    made = embed_pictures(TABLES[table], made, BLOBS)
                schema = arrow_schema(TABLES[table], "embed" if embed else "reference")
                pq.write_table(made, folder / path, row_group_size=group, **parquet_options(schema, table))
                files[path] = {"sha256": file_sha256(folder / path), "bytes": (folder / path).stat().st_size}
                digest = digests.combine(map(codec.digest, part))
                listed.append({"path": path, "rows": len(part), "row_digest": digest})
            if listed:
                splits[split] = {"rows": len(own), "expanded_bytes": 1, "files": listed}
        entries[table] = {
            "schema": TABLES[table],
            "images": images if pictured else None,
            "rows": len(rows),
            "row_digest": digests.combine(map(codec.digest, rows)),
            "splits": splits,
        }
    save(folder, {"tables": entries, **(identity or {})}, files)
    return folder


def save(folder: Path, identity: Row, files: Row, **environment: Any) -> None:
    """Write a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        "name": "tiny", "namespace": "lab", "version": "1.0.0", "license": "mit", "description": "", "tables": {},
        "parameters": {}, "sources": [], "prompts": [], "ledger": {}, "statistics": {}, **identity,
    }  # fmt: skip
    where = {
        "files": files, "action_reward_models": "0", "code_sha256": "0" * 64, "packages": {}, "python": "3",
        "platform": "any", "created": "2026-01-01T00:00:00Z", "workers": 1, "seconds": 0.0, **environment,
    }  # fmt: skip
    manifest = {"manifest": 1, "identity_sha256": sha256_hex(canonical_json(whole)), "identity": whole}
    (folder / "manifest.json").write_bytes(orjson.dumps({**manifest, "environment": where}))


def edit(folder: Path, change: Any) -> None:
    """Let ``change`` alter the manifest in place."""
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
