"""What a card says, worked out from a manifest: figures that do not depend on the order of its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..schemas.arrow import image_columns
from ..schemas.store import TABLES
from .text import share

Manifest = Mapping[str, Any]
Row = list[str | int]
# As the account of a build has them.
STAGES = (
    "states", "candidate_sets", "teacher_labels", "candidate_scores", "coverage", "selection_sft", "bt_pairs",
    "pointwise_scores", "actor_sft", "reserve", "bench_items", "reviews",
)  # fmt: skip
SPLITS = ("train", "validation")
DEFAULT = "selection_sft"
READY = ("selection_sft", "bt_pairs", "pointwise_scores", "bench_items")  # kinds of rows that may come ready-made
LEARNED = ("selection_sft", "bt_pairs", "pointwise_scores", "actor_sft")  # tables that a model learns from


def table_names(manifest: Manifest) -> list[str]:
    """Published tables in the order of their making, `exclusions` last."""
    tables = manifest["identity"]["tables"]
    return [t for t in TABLES if t in tables] + sorted(t for t in tables if t not in TABLES)


def published(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """The tables that have a file, which are those with rows."""
    tables = manifest["identity"]["tables"]
    return {name: tables[name] for name in table_names(manifest) if tables[name]["splits"]}


def default_table(manifest: Manifest) -> str | None:
    """What a bare `load_dataset` loads: what most people train on, else what else is learned from.

    With pairs and no selection rows it is the first table, as it was before there were others to learn from.
    """
    names = list(published(manifest))
    learned = [name for name in LEARNED if name in names]
    if learned and (learned[0] == DEFAULT or "bt_pairs" not in names):
        return learned[0]
    return names[0] if names else None


def other_table(manifest: Manifest) -> str | None:
    """The table that shows how to load another than the default one."""
    default, names = default_table(manifest), published(manifest)
    wanted = ("bt_pairs", "pointwise_scores", "actor_sft", "bench_items")
    return next((name for name in wanted if name in names and name != default), default)


def joined(manifest: Manifest) -> list[str]:
    """Tables all of whose rows name the state that they are about."""
    derived = ("candidate_sets", "teacher_labels", *LEARNED, "reserve")
    ready = ready_made(manifest)
    return [name for name in derived if name in published(manifest) and name not in ready]


def ready_made(manifest: Manifest) -> list[str]:
    """Tables with rows that a source brought as they are."""
    kinds = {source["kind"] for source in manifest["identity"]["sources"]}
    return [name for name in table_names(manifest) if name in READY and name in kinds]


def made_here(manifest: Manifest) -> list[str]:
    """Tables of training rows that this build made, from states, sets and what judged them."""
    parameters = manifest["identity"]["parameters"]
    return [
        name for name in table_names(manifest)
        if name == "reserve" or (name in LEARNED and parameters.get(name) is not None)
    ]  # fmt: skip


def purposes(manifest: Manifest) -> list[tuple[str, int]]:
    """Tables that something is trained or evaluated with, and their rows."""
    tables = published(manifest)
    names = [name for name in table_names(manifest) if name in (*LEARNED, "reserve", "bench_items")]
    return [(name, tables[name]["rows"]) for name in names if name in tables]


def one_origin(manifest: Manifest) -> bool:
    """Whether there are selection rows and pairs and nothing else to learn from, both of the same labels."""
    names = [name for name, _ in purposes(manifest)]
    rule = manifest["identity"]["parameters"].get("bt_pairs") or {}
    return names == ["selection_sft", "bt_pairs"] and not ready_made(manifest) and "origins" not in rule


def assets(manifest: Manifest) -> list[str]:
    """Names of the figures that lie beside the data, without folder and ending."""
    files = manifest.get("environment", {}).get("files", {})
    return sorted(m.group(1) for name in files if (m := re.fullmatch(r"assets/([a-z_]+)\.png", name)))


def stored_bytes(manifest: Manifest, split: Mapping[str, Any]) -> int:
    files = manifest.get("environment", {}).get("files", {})
    return sum(files.get(file["path"], {}).get("bytes", 0) for file in split["files"])


def withdrawn(manifest: Manifest) -> dict[str, str]:
    """Withdrawn versions of the dataset with their reasons."""
    found: dict[str, str] = manifest.get("environment", {}).get("withdrawn") or {}
    return found


def statistic(manifest: Manifest, name: str) -> dict[str, Any]:
    found: dict[str, Any] = manifest["identity"]["statistics"].get(name, {})
    return found


def distinct(manifest: Manifest, fact: str) -> dict[str, int]:
    """Distinct values per split, and in ``both`` and ``all``."""
    counts: dict[str, int] = {"train": 0, "validation": 0, "both": 0} | statistic(manifest, "distinct").get(fact, {})
    return counts | {"all": counts["train"] + counts["validation"] - counts["both"]}


def stage(manifest: Manifest, name: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"unit": name, "in": 0, "out": 0, "excluded": {}, "status": {}}
    found: dict[str, Any] = manifest["identity"]["ledger"].get(name, {})
    return empty | found


def totals(manifest: Manifest) -> dict[str, Any]:
    splits = [split for table in published(manifest).values() for split in table["splits"].values()]
    return {
        "stored": sum(stored_bytes(manifest, split) for split in splits),
        "expanded": sum(split["expanded_bytes"] for split in splits),
    }


def stage_names(manifest: Manifest) -> list[str]:
    ledger = manifest["identity"]["ledger"]
    return [s for s in STAGES if s in ledger] + sorted(s for s in ledger if s not in STAGES)


def slots(manifest: Manifest) -> dict[str, Any] | None:
    """The teacher's pick by position, as sampled and as shown; None without a usable label.

    Uniform means that each of a set's candidates is picked equally often, so it falls with the position where sizes
    differ. ``guess`` and ``constant`` are the shares of rows that a uniform guess, and always naming the most frequent
    position, get right.
    """
    picked = _integers(statistic(manifest, "picked_slot"), shift=1)  # stored 0-based, shown 1-based
    shown = _integers(statistic(manifest, "shown_slot"))
    if not picked and not shown:
        return None
    by_sample = _uniform(statistic(manifest, "set_size"), sum(picked.values()))
    by_shown = _uniform(statistic(manifest, "shown_size"), sum(shown.values()))
    rows: list[Row] = []
    for position in range(1, max([*picked, *shown, *by_sample, *by_shown]) + 1):
        row: Row = [position]
        for counts, expected in ((picked, by_sample), (shown, by_shown)):
            if counts:
                total = sum(counts.values())
                n = counts.get(position, 0)
                row += [n, share(n, total), share(expected.get(position, 0.0), total)]
        rows.append(row)
    total = sum(shown.values())
    return {
        "rows": rows,
        "picked": bool(picked),
        "shown": bool(shown),
        "sizes": len(statistic(manifest, "set_size")),
        "guess": share(by_shown.get(1, 0.0), total),
        "constant": share(max(shown.values(), default=0), total),
    }


def picked_first(manifest: Manifest) -> tuple[int, int, int, float]:
    """(most picked position (1-based), its picks, all picks, picks that uniform would give it)."""
    picked = _integers(statistic(manifest, "picked_slot"), shift=1)
    if not picked:
        return 0, 0, 0, 0.0
    total = sum(picked.values())
    top = min(picked, key=lambda position: (-picked[position], position))
    return top, picked[top], total, _uniform(statistic(manifest, "set_size"), total).get(top, 0.0)


def pictured(manifest: Manifest) -> dict[str, list[str]]:
    """Tables with pictures by how they hold them: ``embed`` or ``reference``."""
    result: dict[str, list[str]] = {"embed": [], "reference": []}
    for name, table in published(manifest).items():
        if image_columns(table["schema"]):
            result["reference" if table.get("images") == "reference" else "embed"].append(name)
    return result


def other_licences(manifest: Manifest) -> list[str]:
    """Licences of sources that are not the dataset's own."""
    own = manifest["identity"]["license"]
    return sorted({s["license"] for s in manifest["identity"]["sources"] if s["license"].lower() != own.lower()})


def declared(manifest: Manifest, kind: str, key: str) -> tuple[list[str], bool]:
    """(values declared for the constant ``key``, whether some source of ``kind`` declares none)."""
    found = [s.get("constants", {}).get(key) for s in manifest["identity"]["sources"] if s["kind"] == kind]
    return sorted({str(value) for value in found if value is not None}), None in found


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent first, equal ones by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _integers(counts: Mapping[str, int], shift: int = 0) -> dict[int, int]:
    return {int(key) + shift: n for key, n in counts.items()}


def _uniform(sizes: Mapping[str, int], total: int) -> dict[int, float]:
    """Expected picks per position (1-based) of ``total``, when sets have the ``sizes`` (size -> sets)."""
    sets = sum(sizes.values())
    largest = max((int(n) for n in sizes), default=0) if sets else 0
    return {
        position: total / sets * sum(n / int(width) for width, n in sizes.items() if int(width) >= position)
        for position in range(1, largest + 1)
    }
