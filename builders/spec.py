"""What to build: plain frozen data, made by the registry (or by hand) and handed to the runner and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..schemas.arrow import Images

# What happens to a comparison by the relation of its two actions. Choosing the right place is what a click pair
# teaches, so `coordinate_only` is kept; pairs that differ only in an amount or an answer need a person first.
DEFAULT_RULES: Mapping[str, str] = {
    "near_coordinates": "drop",
    "coordinate_only": "keep",
    "scroll_amount": "quarantine",
    "wait_duration": "quarantine",
    "done_vs_done": "quarantine",
    "unparsed": "drop",
}
Redaction = Literal["secrets", "addresses"]
BASE_TABLES = ("states", "candidate_sets", "teacher_labels")


@dataclass(frozen=True)
class Origin:
    """Where on the Hub the files of a source come from: raw files of a commit, or a table of a dataset's version.

    A version is pinned by its identity, so that a dataset rests on the same one before and after it is published.
    """

    repo: str  # namespace/name
    revision: str  # as declared; v1.0.0 for a version of a dataset
    commit: str | None = None  # of raw files
    identity_sha256: str | None = None  # of the version of a dataset

    def to_json(self) -> dict[str, str | None]:
        return asdict(self)


@dataclass(frozen=True)
class SourceSpec:
    """One declared source: ``files`` are (name as published, path to read), sorted by name."""

    kind: Literal["episodes", "states", "candidate_sets", "teacher_labels"]
    format: str
    files: tuple[tuple[str, Path], ...]
    license: str
    dialect: str | None = None
    space: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)  # actor, actor_revision, sampling, teacher
    on_invalid: Literal["error", "exclude"] = "error"
    on_conflict: Literal["error", "quarantine"] = "error"
    origin: Origin | None = None  # None: the publisher's own files


@dataclass(frozen=True)
class PromptSpec:
    """A shipped prompt by id, or an external file by path and sha256; with its options."""

    id: str | None = None
    file: tuple[Path, str] | None = None  # (path to read, sha256)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SelectionSpec:
    prompt: PromptSpec
    duplicates: Literal["merge", "keep"] = "merge"
    shuffle: bool = True


@dataclass(frozen=True)
class PairSpec:
    prompt: PromptSpec
    max_pairs_per_set: int = 2  # 0: no limit
    rules: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_RULES))


@dataclass(frozen=True)
class SplitSpec:
    validation: float  # share of task groups, 0..1
    seed: int
    isolate_screenshots: bool = False


@dataclass(frozen=True)
class LabelSpec:
    """Which labels of a set feed SFT rows and pairs."""

    teacher: str | None = None
    rule: Literal["first", "majority"] = "first"


@dataclass(frozen=True)
class GateSpec:
    leakage: Literal["error", "warn"] = "error"
    secrets: Literal["error", "warn"] = "error"  # looked at before publishing
    max_excluded: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BuildSpec:
    """One dataset version to build."""

    name: str
    namespace: str
    version: str
    license: str
    sources: tuple[SourceSpec, ...]
    split: SplitSpec
    tables: tuple[str, ...]  # published, besides exclusions
    images: Mapping[str, Images]  # per table with pictures
    selection: SelectionSpec | None = None
    pairs: PairSpec | None = None
    labels: LabelSpec = LabelSpec()
    gates: GateSpec = GateSpec()
    shards: int | None = None
    description: str = ""
    redact: tuple[Redaction, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """Everything but the input bytes that decides the build, as JSON: staleness compares it."""

        def prompt(spec: PromptSpec) -> dict[str, Any]:
            # an external file by its content only: its path is the publisher's own business
            return {"id": spec.id or (spec.file and f"sha256:{spec.file[1]}"), "options": dict(spec.options)}

        return {
            "split": {
                "rule": "sha256(seed, task_group)",
                "validation": self.split.validation,
                "seed": self.split.seed,
                "isolate_screenshots": self.split.isolate_screenshots,
            },
            "labels": {"teacher": self.labels.teacher, "rule": self.labels.rule},
            "tables": list(self.tables),
            "images": dict(self.images),
            "selection_sft": self.selection
            and {
                "prompt": prompt(self.selection.prompt),
                "duplicates": self.selection.duplicates,
                "shuffle": self.selection.shuffle,
            },
            "bt_pairs": self.pairs
            and {
                "prompt": prompt(self.pairs.prompt),
                "max_pairs_per_set": self.pairs.max_pairs_per_set,
                "rules": dict(self.pairs.rules),
            },
            "redact": sorted(self.redact),
            "gates": {
                "leakage": self.gates.leakage,
                "secrets": self.gates.secrets,
                "max_excluded": dict(self.gates.max_excluded),
            },
            "shards": self.shards,
        }
