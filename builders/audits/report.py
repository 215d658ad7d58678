"""The audits of a whole build, from what its buckets counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..spec import BuildSpec
from . import agreement, baselines, benchmarks, choices, conflicts, distributions, slots, tables, tasks
from .counts import Counts, Json

_DIGEST = 32  # bytes


def report(spec: BuildSpec, parts: Sequence[Json], seen: Iterable[Mapping[tuple[str, str], bytes]]) -> Json:
    """What a manifest holds as ``identity.statistics.audits``; see the package for its shape.

    ``parts`` are the buckets' `Audits.partial`, ``seen`` their distinct rendered prompts by (table, split), joined.
    Neither their order nor their number decides anything.
    """
    counts: Counts = Counter()
    looks: dict[str, list[str]] = {}
    for part in parts:
        for path, n in part["counts"]:
            counts[tuple(path)] += n
        for screenshot, (look, place) in part["looks"].items():
            known = looks.get(screenshot)
            looks[screenshot] = [look, min(place, known[1]) if known else place]
    texts = tasks.merged(part["tasks"] for part in parts)
    named = [example for part in parts for example in part["conflicts"]]
    return {
        **_overlap(tables.merged(part["tables"] for part in parts), looks, seen),
        "near_tasks": tasks.near_tasks(texts),
        "benchmarks": [benchmarks.match(texts, b, benchmarks.read(b)) for b in spec.benchmarks],
        "conflicting_picks": conflicts.report(counts, named, spec.labels.conflicting),
        "agreement": agreement.report(counts),
        "slots": slots.report(counts),
        **choices.report(counts),
        "baselines": baselines.report(counts),
        "headroom": baselines.headroom(counts),
        "distributions": distributions.report(counts),
    }


def _overlap(
    found: Mapping[str, Mapping[str, tables.Facts]],
    looks: Mapping[str, Sequence[str]],
    seen: Iterable[Mapping[tuple[str, str], bytes]],
) -> Json:
    prompts = _prompts(seen)
    overlap: Json = {}
    pairs: list[tuple[str, str, int]] = []
    for table, splits in sorted(found.items()):
        if "validation" not in splits:
            continue
        overlap[table], alike = tables.overlap(splits, looks)
        pairs += alike
        if table in prompts:
            overlap[table]["prompt"] = prompts[table]
    return {"overlap": overlap, "screenshots": tables.named(sorted(set(pairs)), looks)}


def _prompts(seen: Iterable[Mapping[tuple[str, str], bytes]]) -> dict[str, Json]:
    """Per table, the distinct prompts with pictures of validation, and how many of them train has, too."""
    import numpy as np

    joined: dict[tuple[str, str], list[bytes]] = {}
    for part in seen:
        for key, digests in part.items():
            # the first 8 bytes tell some millions apart
            heads = np.frombuffer(digests, np.uint64).reshape(-1, _DIGEST // 8)[:, 0]
            joined.setdefault(key, []).append(heads.tobytes())
    distinct = {key: np.unique(np.frombuffer(b"".join(parts), np.uint64)) for key, parts in joined.items()}
    none = np.zeros(0, np.uint64)
    return {
        table: {
            "validation": len(values),
            "both": len(np.intersect1d(values, distinct.get((table, "train"), none), assume_unique=True)),
        }
        for (table, split), values in sorted(distinct.items())
        if split == "validation"
    }
