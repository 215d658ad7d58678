"""The text of a first registry.yaml."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..builders.spec import BASE_TABLES, READY
from ..schemas.actions import DIALECTS
from .files import matching
from .reading import SAYS
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
_NAME = "action-reward-models-data"
_MANY = 3  # files of one kind and format, from which on a pattern may stand for them
# Words that YAML takes for text as they stand: no number, no truth value, nothing that opens something else.
_PLAIN = re.compile(
    r"(?!(?:[.]inf|[.]nan|true|false|yes|no|on|off|null|y|n)\Z)[A-Za-z._][A-Za-z0-9._/-]*", re.I | re.ASCII
)


@dataclass(frozen=True)
class Source:
    """A source to declare: its file, its keys but for `path`, a remark for the reader, kinds of what it holds."""

    path: Path
    fields: Mapping[str, Any]
    told: str
    yields: tuple[str, ...]


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
        "      # A model can make both: `sample:` below a source of format sampled, then `arm sample`; `label:` below",
        "      # one of teacher_labels and format table, then `arm label run`.",
    ]
    return _text(sources, _tables({"states", "candidate_sets", "teacher_labels"}, False), "other")


def from_folder(found: Folder, target: Path) -> str:
    """A registry that builds what was found, its paths relative to ``target``, the registry's folder."""
    return from_sources([_source(source, found) for source in found.sources], found, target)


def from_sources(sources: Sequence[Source], found: Folder, target: Path, license_: str = "other") -> str:
    """A registry that declares ``sources``, of what was found, and says what was skipped."""
    lines = [line for path, source in _together(sources, target) for line in _lines(path, source)]
    lines += [f"      # skipped {json.dumps(_relative(path, target))}: {_comment(why)}" for path, why in found.skipped]
    kinds = {kind for source in sources for kind in source.yields}
    return _text(lines, _tables(kinds, found.text_only), license_)


def _source(source: Sniffed, found: Folder) -> Source:
    spoken = found.spoken[source.format]
    fields: dict[str, Any] = {"kind": source.kind, "format": source.format}
    if set(source.yields) & set(SAYS["dialect"]):
        fields |= {"dialect": spoken.dialect, "space": spoken.space}
    broken = source.records - source.valid
    if broken:
        fields["on_invalid"] = "exclude"
    told = f"{source.records:,} record{'s' if source.records != 1 else ''}" + (
        f", {broken:,} of them broken" if broken else ""
    )
    return Source(source.path, fields, told, source.yields)


def _together(sources: Sequence[Source], target: Path) -> Iterator[tuple[str, Source]]:
    """(Path to write, source): many files that one pattern names, and nothing else, are one source."""
    kinds: dict[tuple[str, str], list[Source]] = {}
    for source in sources:
        kinds.setdefault((source.fields["kind"], source.fields["format"]), []).append(source)
    for same in kinds.values():
        pattern = _pattern([source.path for source in same], target) if len(same) >= _MANY else None
        if pattern is None:
            yield from ((_relative(source.path, target), source) for source in same)
            continue
        fields = {name: value for source in same for name, value in source.fields.items()}
        yield pattern, Source(same[0].path, fields, f"{len(same):,} files", same[0].yields)


def _pattern(paths: Sequence[Path], target: Path) -> str | None:
    """A glob that names exactly ``paths``, if one of the usual ones does."""
    names = [_relative(path, target) for path in paths]
    above = os.path.commonpath([str(Path(name).parent) for name in names])
    folder = Path(os.path.normpath(target.resolve() / above))  # ``target`` itself need not be there yet
    endings = {Path(name).suffix for name in names}
    for tail in (f"*{min(endings)}", f"*/{Path(names[0]).name}", f"**/{Path(names[0]).name}", f"**/*{min(endings)}"):
        if {path.resolve() for path in matching(tail, folder)} == {path.resolve() for path in paths}:
            return tail if above == "." else f"{Path(above).as_posix()}/{tail}"
    return None


def _lines(path: str, source: Source) -> list[str]:
    fields = {"kind": source.fields["kind"], "format": source.fields["format"], "path": path, **source.fields}
    lines = [f"      - {_flow(fields)} # {_comment(source.told)}"]
    # Tables of ours say who judged.
    if "teacher_labels" in source.yields and "teacher" not in fields and fields["format"] != "table":
        lines.append("      #   add `teacher: NAME` inside the braces: the records do not say who judged")
    return lines


def _tables(kinds: Collection[str], text_only: bool) -> dict[str, Any]:
    """The tables that sources of these kinds make, with their options; rows that come ready-made are not made again."""
    # Without a screenshot there is text to show.
    shown = {"options": {"observation": "text"}} if text_only else {}
    made: dict[str, Any] = {}
    if {"candidate_sets", "teacher_labels"} <= set(kinds):
        made["selection_sft"] = {"prompt": "selection/1", **shown, "duplicates": "merge", "shuffle": True}
        made["bt_pairs"] = {"prompt": "scalar/1", **shown, "max_pairs_per_set": 2}
    if {"candidate_sets", "candidate_scores"} <= set(kinds):
        scored = {"prompt": "scalar/1", **shown, "max_pairs_per_set": 2, "origins": ["scores"]}
        made.setdefault("bt_pairs", scored)
        made["pointwise_scores"] = {"prompt": "scalar/1", **shown}
    ready: dict[str, Any] = {kind: {} for kind in READY if kind in kinds}
    return {table: {} for table in BASE_TABLES if table in kinds} | made | ready


def _text(sources: Sequence[str], tables: Mapping[str, Any], license_: str) -> str:
    shown = "\n".join(f"      {table}: {_flow(options)}" for table, options in tables.items())
    return _HEAD.format(name=_NAME, license=_flow(license_), sources="\n".join(sources), tables=shown)


def _relative(path: Path, target: Path) -> str:
    real = path.parent.resolve() / path.name  # `..` leads from where the registry really lies
    return Path(os.path.relpath(real, target.resolve())).as_posix()


def _flow(value: Any) -> str:
    """A value as YAML on one line; what is not plain is quoted as in JSON, which YAML reads, too."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_flow(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(inner) for inner in value)}]"
    return json.dumps(value) if not isinstance(value, str) or not _PLAIN.fullmatch(value) else value


def _comment(text: str) -> str:
    """``text`` behind a #, where a line of its own would be read as YAML."""
    return " ".join(text.split())
