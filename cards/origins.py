"""Where the rows of a dataset come from: its sources, what of them lies on the Hub, and the tables that they feed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..schemas.store import TABLES
from .facts import READY, Manifest, made_here, published
from .mermaid import flowchart
from .text import Markdown, code, count, listed, plural
from .words import KINDS

MAX_SOURCES = 20  # in the picture; the table below it has them all
SHORT = 12  # characters of a commit or digest in a label
# Kind of what a source holds -> the table of its records.
OWN_TABLE: Mapping[str, str] = {
    "episodes": "states",
    "states": "states",
    "candidate_sets": "candidate_sets",
    "teacher_labels": "teacher_labels",
    **{table: table for table in READY},
}
# (kind, format) of sources whose records hold more than their kind says.
YIELDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("episodes", "rest_mcts"): ("states", "candidate_sets", "candidate_scores"),
    ("episodes", "molmoweb_result"): ("states", "candidate_sets", "teacher_labels"),
    ("candidate_scores", "molmoweb"): ("candidate_sets", "candidate_scores"),
}
_BASE = ("states", "candidate_sets", "teacher_labels")
_LABELLED = ("selection_sft", "bt_pairs", "actor_sft", "reserve")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_TAG = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)


def fed(manifest: Manifest, kind: str) -> list[str]:
    """The tables of the dataset that records of ``kind`` come into, themselves or in rows made from them."""
    tables = manifest["identity"]["tables"]
    into = {kind, OWN_TABLE.get(kind), *_feeds(manifest, kind)}
    return [table for table in TABLES if table in tables and table in into]


def _feeds(manifest: Manifest, kind: str) -> list[str]:
    """The tables of training rows that are made from records of ``kind``."""
    made = made_here(manifest)
    if OWN_TABLE.get(kind) in ("states", "candidate_sets") or kind == "reviews":
        return made
    if kind == "teacher_labels":
        return [table for table in made if table in _LABELLED]
    if kind == "candidate_scores":
        compared = "scores" in (manifest["identity"]["parameters"].get("bt_pairs") or {}).get("origins", ())
        return [table for table in made if table != "selection_sft" and (table != "bt_pairs" or compared)]
    return []


def _kinds(source: Mapping[str, Any]) -> tuple[str, ...]:
    """What the records of a source hold."""
    return YIELDS.get((source["kind"], source["format"]), (source["kind"],))


def picture(manifest: Manifest) -> Markdown:
    """A fenced Mermaid flowchart: sources, the tables that they feed, this version."""
    identity = manifest["identity"]
    made = made_here(manifest)
    tables = [table for table in published(manifest) if table in OWN_TABLE.values() or table in made]
    nodes: dict[str, list[str]] = {}
    edges: list[tuple[str, str]] = []
    target = {table: f"t{number}" for number, table in enumerate(tables, 1)}
    sources = list(enumerate(identity["sources"], 1))
    shown, left = sources[:MAX_SOURCES], sources[MAX_SOURCES:]
    for number, source in shown:
        nodes[f"s{number}"] = _source(number, source)
        edges += _into(manifest, f"s{number}", source, target)
    if left:
        records = sum(_records(source) for _, source in left)
        nodes["s0"] = [plural(len(left), "more source"), f"{count(records)} records"]
        edges += [edge for _, source in left for edge in _into(manifest, "s0", source, target)]
    for table, node in target.items():
        nodes[node] = [table, plural(identity["tables"][table]["rows"], "row")]
        edges += [(target[base], node) for base in _BASE if base in target and table in _feeds(manifest, base)]
    here = f"{identity['namespace']}/{identity['name']}"
    nodes["v1"] = [here, f"version {identity['version']}", f"identity {manifest['identity_sha256'][:SHORT]}"]
    edges += [(node, "v1") for node in target.values()]
    return Markdown(f"```mermaid\n{flowchart(nodes, edges)}\n```")


def in_words(manifest: Manifest) -> Markdown:
    """The picture as a sentence: which tables each group of sources feeds."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, source in enumerate(manifest["identity"]["sources"], 1):
        groups.setdefault(_kinds(source), []).append(number)
    said = []
    for kinds, numbers in groups.items():
        found = {table for kind in kinds for table in fed(manifest, kind)}
        tables = [code(table) for table in TABLES if table in found]
        who, goes = ("source", "goes") if len(numbers) == 1 else ("sources", "go")
        if kinds == ("reviews",):
            goes = "decides about rows of" if len(numbers) == 1 else "decide about rows of"
        else:
            goes += " into"
        said.append(f"{who} {_ranges(numbers)} {goes} {listed(tables) if tables else 'no table'}")
    return Markdown("; ".join(said))


def upstream(manifest: Manifest) -> list[Markdown]:
    """One line for each thing on the Hub that sources rest on, with a link within the same Hub and its pin."""
    found: dict[tuple[str, ...], list[int]] = {}
    for number, source in enumerate(manifest["identity"]["sources"], 1):
        if origin := source.get("origin"):
            key = tuple(str(origin.get(name) or "") for name in ("repo", "revision", "commit", "identity_sha256"))
            found.setdefault(key, []).append(number)
    lines = []
    for (repo, revision, commit, identity), numbers in found.items():
        what = "version" if identity else "files at"
        pin = f", identity {code(identity)}" if identity else f", commit {code(commit)}" if commit else ""
        named = "Source" if len(numbers) == 1 else "Sources"
        lines.append(
            Markdown(f"{named} {_ranges(numbers)}: {what} {code(revision)} of {_link(repo, commit or revision)}{pin}")
        )
    return lines


def _source(number: int, source: Mapping[str, Any]) -> list[str]:
    files = len(source["files"])
    lines = [f"source {number}: {KINDS.get(source['kind'], source['kind'])}", f"format {source['format']}"]
    lines.append(f"{plural(_records(source), 'record')} in {plural(files, 'file')}")
    if origin := source.get("origin"):
        lines.append(f"from {origin['repo']}@{origin['revision']}")
        if origin.get("identity_sha256"):
            lines.append(f"identity {origin['identity_sha256'][:SHORT]}")
        elif origin.get("commit"):
            lines.append(f"commit {origin['commit'][:SHORT]}")
    return lines


def _into(manifest: Manifest, node: str, source: Mapping[str, Any], target: Mapping[str, str]) -> list[tuple[str, str]]:
    """Edges to the tables of the records; to those made from them where these are not published."""
    edges = []
    for kind in _kinds(source):
        own = OWN_TABLE.get(kind)
        into = [own] if own and own in target else _feeds(manifest, kind)
        edges += [(node, target[table]) for table in into if table in target]
    return list(dict.fromkeys(edges))


def _records(source: Mapping[str, Any]) -> int:
    return sum(file["records"] for file in source["files"])


def _link(repo: str, revision: str) -> Markdown:
    """A link from the root of whichever Hub shows the card; plain text for what cannot be an address there."""
    if _REPO.fullmatch(repo) and (_COMMIT.fullmatch(revision) or _TAG.fullmatch(revision)):
        return Markdown(f"[{repo}](/datasets/{repo}/tree/{revision})")
    return code(repo)


def _ranges(numbers: list[int]) -> str:
    """``1, 3 to 5``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}{' to ' if r[2:] else ', '}{r[-1]}" for r in runs)
