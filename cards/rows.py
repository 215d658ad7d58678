"""The rows of a card's tables, in one order whatever the order of the manifest's keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..schemas.store import ID_FIELDS, load
from .facts import (
    SPLITS,
    Manifest,
    Row,
    distinct,
    ranked,
    stage,
    stage_names,
    statistic,
    stored_bytes,
    table_names,
    withdrawn,
)
from .text import Markdown, code, listed, plural, share, size
from .words import FACTS, KINDS, RELATIONS, STATUSES, meaning

MAX_FILES = 50  # source files on the card; the manifest has them all


def size_rows(manifest: Manifest) -> list[Row]:
    """Config, rows per split, stored and expanded size."""
    rows: list[Row] = []
    for name in table_names(manifest):
        table = manifest["identity"]["tables"][name]
        splits = table["splits"].values()
        rows.append([
            code(name),
            *(table["splits"].get(split, {}).get("rows", 0) for split in SPLITS),
            size(sum(stored_bytes(manifest, s) for s in splits)),
            size(sum(s["expanded_bytes"] for s in splits)),
        ])  # fmt: skip
    return rows


def withdrawn_rows(manifest: Manifest) -> list[Row]:
    """Withdrawn version and reason, the newest version first."""

    def order(version: str) -> list[int]:
        return [int(number) for number in re.findall("[0-9]+", version)]

    found = withdrawn(manifest)
    return [[code(f"v{version}"), found[version]] for version in sorted(found, key=order, reverse=True)]


def content_rows(manifest: Manifest) -> list[Row]:
    """Config, what one row is, its id, and the ids of other tables that it carries."""
    names = table_names(manifest)
    rows: list[Row] = []
    for name in names:
        schema = load(manifest["identity"]["tables"][name]["schema"])
        own = ID_FIELDS.get(name)
        others = [f for other, f in ID_FIELDS.items() if other in names and f != own and f in schema["properties"]]
        links = listed([code(f) for f in others]) if others else Markdown("–")
        if name == "reviews":
            links = Markdown("`item_id`, which is an id of the table that `item_table` names")
        rows.append([code(name), schema["description"], code(own) if own else Markdown("–"), links])
    return rows


def stage_rows(manifest: Manifest) -> list[Row]:
    """Stage, what is counted, in, out, excluded, their share. Stages that saw nothing are left out."""
    rows: list[Row] = []
    for name in stage_names(manifest):
        facts = stage(manifest, name)
        if facts["in"]:
            excluded = sum(facts["excluded"].values())
            rows.append([code(name), facts["unit"], facts["in"], facts["out"], excluded, share(excluded, facts["in"])])
    return rows


def reason_rows(manifest: Manifest) -> list[Row]:
    """Stage, reason, its meaning, count, share of what went into the stage; the most frequent first."""
    rows: list[Row] = []
    for name in stage_names(manifest):
        facts = stage(manifest, name)
        for reason, n in ranked(facts["excluded"]):
            rows.append([code(name), code(reason), meaning(name, reason), n, share(n, facts["in"])])
    return rows


def distinct_rows(manifest: Manifest) -> list[Row]:
    rows: list[Row] = []
    known = statistic(manifest, "distinct")
    for fact in [*FACTS, *sorted(set(known) - set(FACTS))]:
        if fact in known:
            counts = distinct(manifest, fact)
            rows.append([FACTS.get(fact, fact), *(counts[part] for part in (*SPLITS, "both"))])
    return rows


def status_rows(manifest: Manifest) -> list[Row]:
    counts = statistic(manifest, "label_status")
    total = sum(counts.values())
    return [[code(name), STATUSES.get(name, ""), n, share(n, total)] for name, n in ranked(counts)]


def histogram(manifest: Manifest, name: str) -> list[Row]:
    """Value, count, share, numbers in their order."""
    counts = statistic(manifest, name)
    total = sum(counts.values())
    return [[key, counts[key], share(counts[key], total)] for key in sorted(counts, key=_numerically)]


def pair_rows(manifest: Manifest) -> list[Row]:
    """Type, comparisons, their share, pairs kept, their share."""
    compared, kept = statistic(manifest, "comparisons"), statistic(manifest, "pairs")
    both = {name: compared.get(name, 0) for name in {*compared, *kept}}
    into, out = sum(compared.values()), sum(kept.values())
    return [
        [code(name), n, share(n, into), kept.get(name, 0), share(kept.get(name, 0), out)] for name, n in ranked(both)
    ]


def relation_rows(manifest: Manifest) -> list[Row]:
    """Relation, meaning, what was done with it, comparisons, share."""
    rules = {"identical": "drop"} | ((manifest["identity"]["parameters"].get("bt_pairs") or {}).get("rules") or {})
    counts = statistic(manifest, "relations")
    total = sum(counts.values())
    return [
        [code(name), RELATIONS.get(name, ""), rules.get(name, "keep"), n, share(n, total)] for name, n in ranked(counts)
    ]


def origin_rows(manifest: Manifest, name: str, words: Mapping[str, str]) -> list[Row]:
    """Value, meaning, pairs, share; nothing where all pairs are what they always were, one teacher's picks."""
    counts = statistic(manifest, name)
    total = sum(counts.values())
    if set(counts) <= {next(iter(words))}:
        return []
    return [[code(value), words.get(value, ""), n, share(n, total)] for value, n in ranked(counts)]


def prompt_rows(manifest: Manifest) -> list[Row]:
    return [
        [code(p["id"]), p["kind"], settings(p["options"]), code(p["sha256"])]
        for p in manifest["identity"].get("prompts", [])
    ]


def source_rows(manifest: Manifest) -> list[Row]:
    """Number, what it holds, format, how actions are written, licence, what the publisher declares, records."""
    rows: list[Row] = []
    for number, source in enumerate(manifest["identity"]["sources"], 1):
        written = [code(source["dialect"])] if source.get("dialect") else []
        written += [Markdown(f"points in {code(source['space'])}")] if source.get("space") else []
        rows.append([
            Markdown(number),
            KINDS.get(source["kind"], source["kind"]),
            code(source["format"]),
            Markdown(", ".join(written) or "–"),
            code(source["license"]),
            settings(source.get("constants", {})),
            sum(file["records"] for file in source["files"]),
        ])  # fmt: skip
    return rows


def file_rows(manifest: Manifest) -> list[Row]:
    return [
        [Markdown(number), code(file["path"]), file["records"], size(file["bytes"]), code(file["sha256"])]
        for number, source in enumerate(manifest["identity"]["sources"], 1)
        for file in source["files"]
    ]


def digest_rows(manifest: Manifest) -> list[Row]:
    tables = manifest["identity"]["tables"]
    return [[code(t), code(tables[t]["schema"]), code(tables[t]["row_digest"])] for t in table_names(manifest)]


def settings(options: Mapping[str, Any]) -> Markdown:
    """``key: value`` spans, sorted, nested keys as ``outer.inner``; a dash when there are none."""
    return Markdown(", ".join(_spans(options)) or "–")


def packages(manifest: Manifest) -> Markdown:
    env = manifest.get("environment", {})
    spans = [code(f"{name} {version}") for name, version in sorted(env.get("packages", {}).items())]
    return listed([*spans, code(f"Python {env['python']}")] if "python" in env else spans)


def counted(counts: Mapping[str, int], one: str, many: str | None = None) -> Markdown:
    """``name (3 rows)`` of each, the most frequent first."""
    return listed([Markdown(f"{code(name)} ({plural(n, one, many)})") for name, n in ranked(counts)])


def _spans(options: Mapping[str, Any], prefix: str = "") -> Iterator[Markdown]:
    for key, value in sorted(options.items()):
        if isinstance(value, Mapping):
            yield from _spans(value, f"{prefix}{key}.")
        else:
            yield code(f"{prefix}{key}: {_plain(value)}")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _numerically(key: str) -> tuple[int, float, str]:
    try:
        return 0, float(key), key
    except ValueError:
        return 1, 0.0, key
