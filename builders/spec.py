"""What to build: plain frozen data, made by the registry (or by hand) and handed to the runner and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..schemas.arrow import Images
from ..schemas.store import UNSPLIT

if TYPE_CHECKING:
    from .generate.spec import GenerateSpec

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
READY = ("selection_sft", "bt_pairs", "pointwise_scores", "bench_items")  # kinds of rows that may come ready-made
Kind = Literal[
    "episodes",
    "states",
    "candidate_sets",
    "teacher_labels",
    "candidate_scores",
    "reviews",
    "selection_sft",
    "bt_pairs",
    "pointwise_scores",
    "bench_items",
]


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

    kind: Kind
    format: str
    files: tuple[tuple[str, Path], ...]
    license: str
    dialect: str | None = None
    space: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)  # actor, actor_revision, sampling, teacher, score_source
    on_invalid: Literal["error", "exclude"] = "error"
    on_conflict: Literal["error", "quarantine"] = "error"
    origin: Origin | None = None  # None: the publisher's own files
    generate: GenerateSpec | None = None  # how its file is made; None: it is there

    @cached_property
    def yields(self) -> tuple[str, ...]:
        """Kinds of what its records hold."""
        from .importers import yields

        return yields(self.kind, self.format)


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
class ScorePairSpec:
    """Pairs of two scored candidates of one set, the higher score chosen."""

    min_gap: float = 0.05  # of the scores; the gap must be larger
    choose: Literal["all", "extreme", "random"] = "all"  # extreme: the best against the worst first
    budget: Literal["none", "selection"] = "none"  # selection: as many a set as its selected candidate gives


@dataclass(frozen=True)
class NegativeSpec:
    """Rejected sides that nobody sampled, for each usable label."""

    corrupted: int = 0  # the chosen action, spoilt
    cross_task: int = 0  # actions chosen in other tasks


@dataclass(frozen=True)
class TrajectorySpec:
    """Pairs of whole episodes of one task, the better outcome chosen."""

    prompt: PromptSpec
    min_gap: float = 0.5  # of the outcomes; the gap must be at least this
    max_pairs_per_task: int = 4  # 0: no limit


@dataclass(frozen=True)
class PairSpec:
    prompt: PromptSpec
    max_pairs_per_set: int = 2  # 0: no limit
    rules: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_RULES))
    origins: tuple[Literal["selection", "scores"], ...] = ("selection",)
    max_pairs_per_state: int = 0  # 0: no limit
    scores: ScorePairSpec = ScorePairSpec()
    negatives: NegativeSpec = NegativeSpec()
    trajectories: TrajectorySpec | None = None


@dataclass(frozen=True)
class PointwiseSpec:
    prompt: PromptSpec


@dataclass(frozen=True)
class ActorSpec:
    """Chosen responses as targets of the actor."""

    selected_by: Literal["teacher", "scores"] = "teacher"  # scores: the candidate with the highest score
    quality_floor: float | None = None  # least score of a target; None asks for no score
    random_control: bool = False  # beside each target, a candidate chosen by a hash, for the control run


@dataclass(frozen=True)
class TokenSpec:
    """The longest row in tokens, as the named processor cuts it; ``folder`` holds its files."""

    name: str  # that of the folder, to be shown
    folder: Path
    sha256: str  # over the files that decide tokens
    max_tokens: int


@dataclass(frozen=True)
class BenchmarkSpec:
    """Tasks of a benchmark that no training row may come from."""

    name: str
    path: Path
    sha256: str
    near: float = 0.8  # Jaccard similarity of word triples from which a task counts as the same


@dataclass(frozen=True)
class SplitSpec:
    validation: float  # share of task groups, 0..1
    seed: int
    isolate_screenshots: bool = False
    rule: Literal["task_group", "legacy_draws"] = "task_group"


@dataclass(frozen=True)
class LabelSpec:
    """Which labels of a set feed SFT rows and pairs."""

    teacher: str | None = None
    rule: Literal["first", "majority"] = "first"
    conflicting: Literal["keep", "quarantine"] = "keep"  # picks that differ for equal alternatives of equal states


Level = Literal["error", "warn"]


@dataclass(frozen=True)
class GateSpec:
    leakage: Level = "error"
    secrets: Level = "error"  # looked at before publishing
    benchmark_tasks: Level = "error"  # tasks of a declared benchmark among ours
    near_tasks: Level = "warn"  # nearly equal tasks in both splits
    screenshots: Level = "warn"  # equal or nearly equal screenshots in both splits
    conflicting_picks: Level = "warn"
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
    pointwise: PointwiseSpec | None = None
    actor_sft: ActorSpec | None = None
    tokens: TokenSpec | None = None
    benchmarks: tuple[BenchmarkSpec, ...] = ()
    ready_rules: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_RULES))  # of pairs without a prompt

    @property
    def pair_rules(self) -> Mapping[str, str]:
        """What happens to a pair by the relation of its actions, made here or ready."""
        return self.pairs.rules if self.pairs else self.ready_rules

    @cached_property
    def actors(self) -> frozenset[str | None]:
        """The policies that the sources of candidate sets declare; None stands for a source that declares none."""
        drawn = [source for source in self.sources if "candidate_sets" in source.yields]
        return frozenset(source.constants.get("actor") for source in drawn)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Kinds of what the sources hold."""
        return frozenset(kind for source in self.sources for kind in source.yields)

    @cached_property
    def published(self) -> tuple[str, ...]:
        """The tables of the dataset: those that are declared, and those that say what became of the rest."""
        said = [table for table in UNSPLIT if table != "reviews" or "reviews" in self.kinds]
        return tuple(dict.fromkeys((*self.tables, *said)))

    def parameters(self) -> dict[str, Any]:
        """Everything but the input bytes that decides the build, as JSON: staleness compares it."""

        def prompt(spec: PromptSpec) -> dict[str, Any]:
            # an external file by its content only: its path is the publisher's own business
            return {"id": spec.id or (spec.file and f"sha256:{spec.file[1]}"), "options": dict(spec.options)}

        split, labels, gates = self.split, self.labels, self.gates
        return {
            "split": {
                "rule": RULES[split.rule],
                "validation": split.validation,
                "seed": split.seed,
                "isolate_screenshots": split.isolate_screenshots,
            },
            "labels": {"teacher": labels.teacher, "rule": labels.rule, **_changed(labels, "conflicting")},
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
                **_changed(self.pairs, "origins", "max_pairs_per_state", "scores", "negatives"),
                **(
                    {
                        "trajectories": {
                            **_plain(self.pairs.trajectories),
                            "prompt": prompt(self.pairs.trajectories.prompt),
                        }
                    }
                    if self.pairs.trajectories
                    else {}
                ),
            },
            **({"ready_rules": dict(self.ready_rules)} if self.ready_rules != DEFAULT_RULES else {}),
            **({"pointwise_scores": {"prompt": prompt(self.pointwise.prompt)}} if self.pointwise else {}),
            **({"actor_sft": _plain(self.actor_sft)} if self.actor_sft else {}),
            **({"tokens": _plain(self.tokens, "folder")} if self.tokens else {}),
            **({"benchmarks": [_plain(b, "path") for b in self.benchmarks]} if self.benchmarks else {}),
            "redact": sorted(self.redact),
            "gates": {
                "leakage": gates.leakage,
                "secrets": gates.secrets,
                **_changed(gates, "benchmark_tasks", "near_tasks", "screenshots", "conflicting_picks"),
                "max_excluded": dict(gates.max_excluded),
            },
            "shards": self.shards,
        }


# What a manifest calls the rules of the split.
RULES: Mapping[str, str] = {"task_group": "sha256(seed, task_group)", "legacy_draws": "legacy_draws"}


def _changed(spec: Any, *names: str) -> dict[str, Any]:
    """The named fields that are not at their default: what was built before a field existed keeps its parameters."""
    defaults = {f.name: f.default for f in fields(spec)}
    return {n: v for n, v in _plain(spec).items() if n in names and getattr(spec, n) != defaults[n]}


def _plain(spec: Any, *but: str) -> dict[str, Any]:
    """The fields of a spec as JSON, without ``but`` and without prompts, which hold paths."""
    made = {f.name: getattr(spec, f.name) for f in fields(spec) if f.name not in but}
    return {name: _json(value) for name, value in made.items() if not isinstance(value, PromptSpec | TrajectorySpec)}


def _json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return list(value) if isinstance(value, tuple) else value
