"""The tables of a dataset that are made for training: what registry.yaml says of them, as specs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..builders import processor
from ..builders.importers import IMPORTERS, yields
from ..builders.spec import (
    DEFAULT_RULES,
    READY,
    ActorSpec,
    BenchmarkSpec,
    BuildSpec,
    NegativeSpec,
    PairSpec,
    PointwiseSpec,
    PromptSpec,
    ScorePairSpec,
    SelectionSpec,
    TokenSpec,
    TrajectorySpec,
)
from ..builders.views import load as load_prompt
from ..schemas.errors import ArmError, Issue
from ..schemas.ids import file_sha256
from .files import is_file

Complain = Callable[[str, str], None]  # (place in registry.yaml, message)
TRAINING = ("selection_sft", "bt_pairs", "pointwise_scores", "actor_sft", "reserve")
ALL_STEPS = 1000  # of an episode, unless its prompt asks for fewer


class Training:
    """Reads the options of training tables; ``complain`` takes what is wrong with them, ``issues`` what prompt files
    say themselves. ``folder`` is that of registry.yaml."""

    def __init__(self, folder: Path, complain: Complain) -> None:
        self._folder, self._complain = folder, complain
        self.issues: list[Issue] = []

    def added(self, spec: BuildSpec, data: Mapping[str, Any], where: str) -> BuildSpec:
        """``spec`` with what the dataset at ``where`` declares of its training tables."""
        tables, at = data["tables"], f"{where}.tables"
        if (options := tables.get("selection_sft")) is not None and "prompt" in options:
            prompt = self._prompt(options, "selection", f"{at}.selection_sft")
            spec = replace(spec, selection=SelectionSpec(prompt, **_given(options, "duplicates", "shuffle")))
        if (options := tables.get("bt_pairs")) is not None and "prompt" in options:
            spec = replace(spec, pairs=self._pairs(options, f"{at}.bt_pairs"))
            self._one_score(spec, f"{at}.bt_pairs.origins")
        elif options is not None:
            spec = replace(spec, ready_rules={**DEFAULT_RULES, **options.get("rules", {})})
        if (options := tables.get("pointwise_scores")) is not None and "prompt" in options:
            prompt = self._prompt(options, "scalar", f"{at}.pointwise_scores")
            spec = replace(spec, pointwise=PointwiseSpec(prompt))
        if (options := tables.get("actor_sft")) is not None:
            given = _given(options, "selected_by", "quality_floor", "random_control")
            spec = replace(spec, actor_sft=ActorSpec(**given))
        for table, kind in self._missing(spec, tables, at):
            self._complain(f"{at}.{table}", f"needs a source of {kind}{self._why(table, kind)}: {_who_gives(kind)}")
        for table in ("selection_sft", "bt_pairs", "pointwise_scores"):
            if table in tables and "prompt" not in tables[table]:
                self._without_prompt(spec, table, tables[table], f"{at}.{table}")
        if "tokens" in data:
            spec = replace(spec, tokens=self._tokens(data["tokens"], f"{where}.tokens"))
        if "benchmarks" in data:
            found = [self._benchmark(b, f"{where}.benchmarks[{i}]") for i, b in enumerate(data["benchmarks"])]
            names = [b["name"] for b in data["benchmarks"]]
            for i, name in enumerate(names):
                if name in names[:i]:
                    self._complain(f"{where}.benchmarks[{i}].name", f"{name!r} is declared twice")
            spec = replace(spec, benchmarks=tuple(b for b in found if b))
        return spec

    def _pairs(self, options: Mapping[str, Any], where: str) -> PairSpec:
        origins = tuple(options.get("origins", ("selection",)))
        if len(set(origins)) != len(origins):
            self._complain(f"{where}.origins", "names one twice")
        if "scores" in options and "scores" not in origins:
            self._complain(f"{where}.scores", "means nothing unless origins names scores")
        trajectories = None
        if said := options.get("trajectories"):
            whole = {**said, "options": {"history_window": ALL_STEPS, **said.get("options", {})}}
            prompt = self._prompt(whole, "trajectory", f"{where}.trajectories")
            trajectories = TrajectorySpec(prompt, **_given(said, "min_gap", "max_pairs_per_task"))
        return PairSpec(
            self._prompt(options, "scalar", where),
            rules={**DEFAULT_RULES, **options.get("rules", {})},
            origins=origins,
            scores=ScorePairSpec(**options.get("scores", {})),
            negatives=NegativeSpec(**options.get("negatives", {})),
            trajectories=trajectories,
            **_given(options, "max_pairs_per_set", "max_pairs_per_state"),
        )

    def _one_score(self, spec: BuildSpec, where: str) -> None:
        """Pairs compare the scores of one thing with each other; which one, the sources say."""
        scored = [source for source in spec.sources if "candidate_scores" in source.yields]
        names = sorted({name for source in scored if (name := source.constants.get("score_source"))})
        if spec.pairs and "scores" in spec.pairs.origins and len(names) > 1:
            message = f"scores come from {' and '.join(names)}, and pairs are made of one of them"
            self._complain(where, f"{message}: put the others into a dataset of their own")

    def _missing(self, spec: BuildSpec, tables: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
        """(table, what kinds of source it needs and the dataset has not)."""
        for table in tables:
            if table in spec.kinds and table in READY:
                continue
            needs: dict[str, tuple[str, ...]] = {
                "states": ("states",),
                "candidate_sets": ("candidate_sets",),
                "teacher_labels": ("teacher_labels",),
                "selection_sft": ("teacher_labels",),
                "bt_pairs": self._behind_pairs(spec),
                "pointwise_scores": ("candidate_scores",),
                "actor_sft": ("teacher_labels",),
                "reserve": ("teacher_labels",),
                "bench_items": ("bench_items",),
            }
            if spec.actor_sft and (spec.actor_sft.selected_by == "scores" or spec.actor_sft.quality_floor is not None):
                needs["actor_sft"] = ("candidate_scores",)
            for kind in needs[table]:
                if kind not in spec.kinds:
                    yield table, kind
                    break
                if kind in ("teacher_labels", "candidate_scores") and "candidate_sets" not in spec.kinds:
                    yield table, "candidate_sets"
                    break
            if table == "reserve" and (spec.pairs is None or "selection" not in spec.pairs.origins):
                self._complain(f"{where}.reserve", "holds the picks of which bt_pairs makes no pair, so that bt_pairs "
                "needs a prompt and the origin selection")  # fmt: skip

    @staticmethod
    def _why(table: str, kind: str) -> str:
        """What asks for a kind that the table can do without."""
        if table == "actor_sft" and kind == "candidate_scores":
            return ", since it is declared with selected_by: scores or a quality_floor"
        if table == "bt_pairs" and kind == "candidate_scores":
            return ", since origins names scores"
        return ""

    @staticmethod
    def _behind_pairs(spec: BuildSpec) -> tuple[str, ...]:
        if (pairs := spec.pairs) is None:
            return ()
        labels = "selection" in pairs.origins or pairs.scores.budget == "selection" or pairs.negatives != NegativeSpec()
        scores = ("candidate_scores",) if "scores" in pairs.origins else ()
        return (*(("teacher_labels",) if labels else ()), *scores)

    def _without_prompt(self, spec: BuildSpec, table: str, options: Mapping[str, Any], where: str) -> None:
        """A table without a prompt holds only rows that come ready-made."""
        if table not in spec.kinds:
            usual = "selection/1" if table == "selection_sft" else "scalar/1"
            self._complain(where, f"has no prompt; rows are made with one, such as prompt: {usual}")
        for name in sorted(set(options) - {"images", *(("rules",) if table == "bt_pairs" else ())}):
            self._complain(f"{where}.{name}", "means nothing without a prompt: ready-made rows are taken as they are")

    def _tokens(self, data: Mapping[str, Any], where: str) -> TokenSpec:
        folder = self._folder / data["processor"]
        digest = processor.digest(folder)
        if digest is None:
            message = f"is no folder with a {processor.TOKENIZER}: {data['processor']}"
            self._complain(f"{where}.processor", f"{message}; save_pretrained of the base model's tokenizer writes one")
        name = folder.resolve().name  # the way there is the publisher's own business
        return TokenSpec(name, folder, digest or "", data["max_tokens"])

    def _benchmark(self, data: Mapping[str, Any], where: str) -> BenchmarkSpec | None:
        path = self._folder / data["path"]
        if not is_file(path):
            self._complain(f"{where}.path", f"names no file: {data['path']}")
            return None
        return BenchmarkSpec(data["name"], path, file_sha256(path), **_given(data, "near"))

    def asked(self, options: Mapping[str, Any], where: str) -> PromptSpec:
        """The prompt with which teachers are asked."""
        return self._prompt(options, "selection", where, "a teacher is asked with")

    def _prompt(self, options: Mapping[str, Any], kind: str, where: str, needs: str = "this table needs") -> PromptSpec:
        declared = options["prompt"]
        if isinstance(declared, str):
            spec = PromptSpec(id=declared, options=options.get("options", {}))
        else:
            path = self._folder / declared["file"]
            spec = PromptSpec(file=(path, declared["sha256"]), options=options.get("options", {}))
        try:
            prompt = load_prompt(spec)
        except ArmError as error:
            hint = f" ({error.next_command})" if error.next_command else ""
            self._complain(f"{where}.prompt", f"{error.message}{hint}")
            self.issues += error.issues  # of an external file, with its own lines
            return spec
        if prompt.kind != kind:
            self._complain(f"{where}.prompt", f"is a {prompt.kind} prompt; {needs} a {kind} prompt")
        return spec


def _who_gives(kind: str) -> str:
    """The kinds and formats of sources that hold ``kind``."""
    found: dict[str, list[str]] = {}
    for source, name in IMPORTERS:
        if kind in yields(source, name):
            found.setdefault(source, []).append(name)
    return ", or ".join(f"kind: {source} with format: {' or '.join(names)}" for source, names in found.items())


def _given(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}
