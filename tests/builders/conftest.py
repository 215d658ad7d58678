"""A toy registry: plain records in, a built directory out, in a few lines a test."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from action_reward_models.builders import runner
from action_reward_models.builders.spec import (
    BuildSpec,
    LabelSpec,
    PairSpec,
    PromptSpec,
    SelectionSpec,
    SourceSpec,
    SplitSpec,
)
from action_reward_models.schemas.built import built_rows
from action_reward_models.schemas.errors import Issue
from action_reward_models.schemas.store import TABLES

Record = dict[str, Any]
Line = Record | bytes  # bytes stand in the file as they are

FILES = {
    "episodes": "episodes.jsonl",
    "states": "states.jsonl",
    "candidate_sets": "candidates.jsonl",
    "teacher_labels": "labels.jsonl",
}


@cache
def png(number: int, size: int = 8) -> bytes:
    """A grey square of ``size`` pixels; other numbers give other bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((number + x * y + y) % 256 for x in range(size)) for y in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"tEXt", b"n\0%d" % number) + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def data_url(picture: bytes | int, media_type: str = "image/png") -> str:
    data = png(picture) if isinstance(picture, int) else picture
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True)
class Build:
    """What a build came to, with its rows read back from the Parquet files."""

    spec: BuildSpec
    folder: Path
    manifest: Record
    notes: tuple[Issue, ...]

    @property
    def identity(self) -> Record:
        identity: Record = self.manifest["identity"]
        return identity

    @property
    def digests(self) -> dict[str, str]:
        return {table: entry["row_digest"] for table, entry in self.identity["tables"].items()}

    def files(self, table: str) -> list[Path]:
        splits = self.identity["tables"][table]["splits"]
        return [self.folder / file["path"] for split in sorted(splits) for file in splits[split]["files"]]

    def rows(self, table: str, **where: Any) -> list[Record]:
        """The rows of a table whose fields equal ``where``, pictures as ``sha256:<hex>``."""
        found = [row for path in self.files(table) for row in built_rows(path, TABLES[table])]
        return [row for row in found if all(row[name] == value for name, value in where.items())]

    def row(self, table: str, **where: Any) -> Record:
        (row,) = self.rows(table, **where)
        return row

    def excluded(self, stage: str) -> dict[str, list[str]]:
        """Reason -> the source ids it took, sorted."""
        found: dict[str, list[str]] = {}
        for row in self.rows("exclusions", stage=stage):
            found.setdefault(row["reason"], []).append(row["source_id"])
        return {reason: sorted(ids) for reason, ids in sorted(found.items())}

    def balanced(self) -> bool:
        """Every stage's account adds up, and the exclusion rows are the ones it counts."""
        counted = Counter((row["stage"], row["reason"]) for row in self.rows("exclusions"))
        account = {(s, r): n for s, e in self.identity["ledger"].items() for r, n in e["excluded"].items()}
        sums = all(e["in"] == e["out"] + sum(e["excluded"].values()) for e in self.identity["ledger"].values())
        return sums and counted == account


@dataclass
class Toy:
    """Records of all four kinds, and the spec they are built with; change either, then ``build``.

    Actions are written in the dialect ``function`` over pixels unless a test sets ``dialect`` and ``space``.
    """

    folder: Path
    episodes: list[Line] = field(default_factory=list)
    states: list[Line] = field(default_factory=list)
    sets: list[Line] = field(default_factory=list)
    labels: list[Line] = field(default_factory=list)
    dialect: str = "function"
    space: str = "pixel"
    source: Record = field(default_factory=dict)  # SourceSpec fields for every source
    _builds: int = 0

    # -- records ------------------------------------------------------------------------------------------------

    files = FILES  # kind of source -> its file
    png = staticmethod(png)
    data_url = staticmethod(data_url)

    def message(
        self, role: str, text: str | None = None, picture: bytes | int | str | None = None, **more: Any
    ) -> Record:
        """One message. ``picture``: a number or bytes become a data URL, a string is the URL or path itself."""
        if picture is None:
            return {"role": role, "content": text, **more}
        url = picture if isinstance(picture, str) else data_url(picture)
        parts: list[Record] = [] if text is None else [{"type": "text", "text": text}]
        return {"role": role, "content": [*parts, {"type": "image_url", "image_url": {"url": url}}], **more}

    def response(self, action: str, thought: str = "") -> str:
        return f"<think>{thought}</think>\n<action>{action}</action>"

    def episode(self, episode_id: str | None, *messages: Record, **record: Any) -> Record:
        made = {**({"episode_id": episode_id} if episode_id else {}), "messages": list(messages), **record}
        self.episodes.append(made)
        return made

    def page(self, name: str, picture: bytes | int | str | None = 0, task: str = "Click ONE.", text: str = "") -> str:
        """An episode of one turn; returns the id of its state."""
        first = self.message("user", f"Task: {task}\n{text}".strip(), picture)
        self.episode(name, first, self.message("assistant", self.response("click(1, 1)")))
        return f"{name}__t0"

    def draw(self, state_id: str, *actions: str, number: int = 0, **record: Any) -> str:
        """A candidate set; an action without tags gets them. Returns its id."""
        responses = [a if "<" in a else self.response(a) for a in actions]
        set_id = f"{state_id}#d{number}"
        self.sets.append({"state_id": set_id, "base_state_id": state_id, "candidates": responses, **record})
        return set_id

    def label(self, set_id: str, selection: Any, **record: Any) -> str:
        self.labels.append({"state_id": set_id, "selection": selection, **record})
        return f"{set_id}|-|-|0"

    def scene(self, name: str, *actions: str, pick: int | None = 0, **page: Any) -> str:
        """A page, one draw of candidates for it and one label. Returns the id of the set."""
        set_id = self.draw(self.page(name, **page), *(actions or ("click(1, 1)", "click(7, 7)", "stop()")))
        self.label(set_id, pick)
        return set_id

    def lines(self, kind: str) -> list[Line]:
        """The records of one kind of source."""
        kinds = {"episodes": self.episodes, "states": self.states, "candidate_sets": self.sets}
        return kinds.get(kind, self.labels)

    # -- building -----------------------------------------------------------------------------------------------

    def write(self, name: str, lines: Sequence[Line]) -> Path:
        """Write a JSONL file. Lines end at a line feed unless the last one, as bytes, says otherwise."""
        data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
        path = self.folder / name
        path.write_bytes(data if lines and isinstance(lines[-1], bytes) else data + b"\n" if lines else b"")
        return path

    def lay(self, kind: str, form: str, name: str, lines: Sequence[Line], **fields: Any) -> SourceSpec:
        """Write the records of one source of any format; a ``.json`` file is one array of them."""
        if name.endswith(".json"):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(lines), "utf-8")
        else:
            path = self.write(name, lines)
        return SourceSpec(kind, form, ((name, path),), "mit", **fields)  # type: ignore[arg-type]

    def sources(self) -> tuple[SourceSpec, ...]:
        """Write the records and declare the files; a kind without records is no source."""
        found: list[SourceSpec] = []
        for kind, name in FILES.items():
            if lines := self.lines(kind):
                form = "openai_messages" if kind == "episodes" else "first_release"
                spoken = (None, None) if kind == "teacher_labels" else (self.dialect, self.space)
                made = SourceSpec(kind, form, ((name, self.write(name, lines)),), "mit", *spoken)  # type: ignore[arg-type]
                found.append(replace(made, **self.source))
        return tuple(found)

    def spec(self, **changes: Any) -> BuildSpec:
        """The build of everything, all of it in train; ``changes`` are fields of BuildSpec or of its nested specs."""
        spec = BuildSpec(
            *("toy", "someone", "1.0.0", "mit"),
            sources=(),
            split=SplitSpec(0.0, 1),
            tables=("states", "candidate_sets", "teacher_labels", "selection_sft", "bt_pairs"),
            images={"states": "embed", "selection_sft": "embed", "bt_pairs": "embed"},
            selection=SelectionSpec(PromptSpec("selection/1")),
            pairs=PairSpec(PromptSpec("scalar/1")),
            labels=LabelSpec(),
        )
        for name, value in changes.items():
            if name in {f.name for f in fields(BuildSpec)}:
                spec = replace(spec, **{name: value})
                continue
            owners = ("labels", "split", "selection", "pairs", "gates")
            owner = next(o for o in owners if hasattr(getattr(spec, o), name))
            spec = replace(spec, **{owner: replace(getattr(spec, owner), **{name: value})})
        if "selection_sft" not in spec.tables:
            spec = replace(spec, selection=None)
        if "bt_pairs" not in spec.tables:
            spec = replace(spec, pairs=None)
        return spec if "sources" in changes else replace(spec, sources=self.sources())

    def build(self, out: Path | None = None, executor: Executor | None = None, **changes: Any) -> Build:
        """Build into ``out``, by default a new folder each time."""
        self._builds += 1
        out = out or self.folder / f"built-{self._builds}"
        spec = self.spec(**changes)
        made = runner.build(spec, out, card=lambda manifest: "", workers=1, executor=executor)
        return Build(spec, made.folder, made.manifest, made.notes)


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)
