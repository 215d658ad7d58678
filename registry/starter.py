"""The text of a first registry.yaml."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..schemas.actions import DIALECTS
from .sniff import Folder, Sniffed

_HEAD = """\
# What should exist on the Hub. `arm validate` checks it, `arm build` builds it, `arm plan` shows what would change.
registry: 1
namespace: your-name # Hub user or organisation
datasets:
  - name: {name}
    version: "1.0.0"
    license: {license} # identifier of the Hub: mit, apache-2.0, cc-by-4.0, other, ...
    sources:
{sources}
    # The split is a hash of the seed and the task's words: no row ever moves. Share of the task groups held out:
    split: {{validation: 0.1, seed: 42}}
    tables:
{tables}
"""
_BASE = ["states", "candidate_sets", "teacher_labels"]
_TRAINING = {
    "selection_sft": "{prompt: selection/1, duplicates: merge, shuffle: true}",
    "bt_pairs": "{prompt: scalar/1, max_pairs_per_set: 2}",
}


def from_scratch() -> str:
    """A registry to be edited: its paths name files that are not there yet."""
    declared = "dialect: function, space: pixel"
    sources = [
        "      # Raw trajectories, one episode a line, OpenAI chat form. How responses write actions",
        f"      # ({', '.join(DIALECTS)})",
        "      # and in which space their points lie (pixel, norm1000) is declared, never guessed.",
        f"      - {{kind: episodes, format: openai_messages, path: data/episodes*.jsonl, {declared}}}",
        f"      - {{kind: candidate_sets, format: first_release, path: data/candidates.jsonl, {declared}}}",
        "      - {kind: teacher_labels, format: first_release, path: data/labels.jsonl, teacher: name-of-the-teacher}",
    ]
    return _text("action-reward-models-data", sources, [*_BASE, *_TRAINING])


def from_folder(found: Folder, target: Path) -> str:
    """A registry that builds what was found, its paths relative to ``target``, the registry's folder."""
    sources = [line for source in found.sources for line in _source(source, found, target)]
    for path, why in found.skipped:
        sources.append(f"      # skipped {json.dumps(_relative(path, target))}: {why}")
    kinds = {source.kind for source in found.sources}
    tables = ["states"]
    if "candidate_sets" in kinds:
        tables.append("candidate_sets")
        if "teacher_labels" in kinds:
            tables += ["teacher_labels", *_TRAINING]
    return _text("action-reward-models-data", sources, tables, found.text_only)


def _source(source: Sniffed, found: Folder, target: Path) -> list[str]:
    fields = {"kind": source.kind, "format": source.format, "path": _relative(source.path, target)}
    if source.kind != "teacher_labels":
        fields |= {"dialect": found.dialect, "space": found.space}
    broken = source.records - source.valid
    if broken:
        fields["on_invalid"] = "exclude"
    inner = ", ".join(f"{key}: {_scalar(value)}" for key, value in fields.items())
    lines = [f"      - {{{inner}}} # {source.records:,} records" + (f", {broken:,} of them broken" if broken else "")]
    if source.kind == "teacher_labels":
        lines.append("      #   add `teacher: NAME` inside the braces: the records do not say who judged")
    return lines


def _text(name: str, sources: list[str], tables: list[str], text_only: bool = False) -> str:
    shown = [f"      {table}: {_TRAINING.get(table, '{}')}" for table in tables]
    if text_only:  # there is no screenshot to show
        shown = [line.replace("/1,", "/1, options: {observation: text},") for line in shown]
    return _HEAD.format(name=name, license="other", sources="\n".join(sources), tables="\n".join(shown))


def _relative(path: Path, target: Path) -> str:
    real = path.parent.resolve() / path.name  # `..` leads from where the registry really lies
    return Path(os.path.relpath(real, target.resolve())).as_posix()


def _scalar(text: str) -> str:
    plain = text.isascii() and text.replace("_", "").replace("/", "").replace(".", "").replace("-", "").isalnum()
    return text if plain and not text.startswith("-") else json.dumps(text)
