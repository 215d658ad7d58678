"""The declared gates, judged from a manifest: a build may only warn of them, a publication never lets an error pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from .errors import ArmError, Issue
from .store import UNSPLIT

# Gate -> its level where registry.yaml says none.
DEFAULTS: Mapping[str, str] = {
    "leakage": "error",
    "secrets": "error",
    "benchmark_tasks": "error",
    "near_tasks": "warn",
    "screenshots": "warn",
    "conflicting_picks": "warn",
}


@dataclass(frozen=True)
class Violation:
    """A gate that is not kept, at ``path`` below its dataset (``$.gates.leakage``); ``value`` is one that it keeps."""

    path: str
    message: str
    value: str
    comment: str  # what whoever writes that value should think of

    @property
    def allow(self) -> str:
        """The line of registry.yaml that allows it."""
        return allowing([self])


def violations(identity: Mapping[str, Any]) -> list[Violation]:
    """The gates that are violated and stop a publication. ``identity`` is that half of a manifest."""
    return [*_of_level(identity, "error"), *_excluded(identity)]


def warnings(identity: Mapping[str, Any]) -> list[str]:
    """What is violated and is a warning, by declaration or by default."""
    return [violation.message for violation in _of_level(identity, "warn")]


def secrets_stop(identity: Mapping[str, Any]) -> bool:
    """Whether secrets and addresses that are found stop a publication, as they do unless it says otherwise."""
    return _level(identity, "secrets") != "warn"


def allowing(violated: Sequence[Violation]) -> str:
    """The line of registry.yaml that allows them all."""
    settings: dict[str, Any] = {}
    for violation in violated:
        *outer, key = violation.path.removeprefix("$.").split(".")
        inner = settings
        for step in outer:
            inner = inner.setdefault(step, {})
        inner[key] = violation.value
    comments = "; ".join(dict.fromkeys(violation.comment for violation in violated))
    return f"{_flow(settings)[1:-1]}   # {comments}"


def refusal(violated: Sequence[Violation], *, where: str | None = None) -> ArmError:
    """The error that names every violated gate and the line that allows them."""
    if len(violated) == 1:
        return ArmError(violated[0].message, where=where, next_command=allowing(violated))
    issues = [Issue("registry.yaml", 0, violation.path, violation.message) for violation in violated]
    return ArmError(f"{len(violated)} gates are violated", where=where, issues=issues, next_command=allowing(violated))


def _level(identity: Mapping[str, Any], gate: str) -> str:
    return str((identity["parameters"].get("gates") or {}).get(gate, DEFAULTS[gate]))


def _of_level(identity: Mapping[str, Any], level: str) -> Iterator[Violation]:
    # What was built before there were audits has none.
    audits: Mapping[str, Any] = identity["statistics"].get("audits", {})
    yield from (v for v in _leaks(identity, audits) if _level(identity, "leakage") == level)
    for gate, judge, comment in (
        ("benchmark_tasks", _benchmarks, "publishes tasks of a benchmark; say why"),
        ("near_tasks", _near_tasks, "if nearly equal tasks may stand in both splits"),
        ("screenshots", _screenshots, "if they may stand in both splits; isolate_screenshots takes equal ones out"),
        ("conflicting_picks", _conflicts, "or labels: {conflicting: quarantine}"),
    ):
        if _level(identity, gate) == level:
            yield from (Violation(f"$.gates.{gate}", message, "warn", comment) for message in judge(identity, audits))


def _leaks(identity: Mapping[str, Any], audits: Mapping[str, Any]) -> Iterator[Violation]:
    comment = "publishes a leaky split; say why"
    crossing = {table: facts["prompt"]["both"] for table, facts in _rows(identity, audits) if "prompt" in facts}
    for table, prompts in (crossing | identity["statistics"].get("leakage", {})).items():
        if prompts:
            message = f"{table}: {prompts} prompts with their pictures stand in both splits"
            yield Violation("$.gates.leakage", message, "warn", comment)
    for table, facts in _rows(identity, audits):
        found = [
            f"{facts[fact]['both']} of {facts[fact]['validation']} {fact}s"
            for fact in ("state", "episode", "task")
            if fact in facts and facts[fact]["both"]
        ]
        if found:
            message = f"{table}: {', '.join(found)} of validation stand in train, too"
            yield Violation("$.gates.leakage", message, "warn", comment)


def _rows(identity: Mapping[str, Any], audits: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The overlaps that a model would profit from: of training rows, or of states in a dataset without such tables."""
    trained = set(identity.get("tables", ())) - {"states", "candidate_sets", "teacher_labels", *UNSPLIT}
    overlap: Mapping[str, Any] = audits.get("overlap", {})
    return [(table, facts) for table, facts in overlap.items() if table != "states" or not trained]


def _benchmarks(_: Mapping[str, Any], audits: Mapping[str, Any]) -> Iterator[str]:
    for found in audits.get("benchmarks", ()):
        ways = [f"{how} {found[how]}" for how in ("exact", "normalised", "near") if found[how]]
        if ways:
            first = found["named"][0]
            such = f"such as {first['ours']!r} of {first['state']}"
            states = sum(found["states"].values())
            yield f"{found['name']} has tasks of ours ({', '.join(ways)}; {states} states), {such}"


def _near_tasks(_: Mapping[str, Any], audits: Mapping[str, Any]) -> Iterator[str]:
    found = audits.get("near_tasks")
    if found and found["near"]:
        first = found["named"][0]
        such = f"such as {first['validation']!r} and {first['train']!r}"
        yield f"{found['near']} of {found['validation']} tasks of validation are nearly tasks of train, {such}"


def _screenshots(identity: Mapping[str, Any], audits: Mapping[str, Any]) -> Iterator[str]:
    for table, facts in _rows(identity, audits):
        if (found := facts.get("screenshot")) and (found["both"] or found["near"]):
            what = f"{found['both']} equal, {found['near']} nearly equal"
            yield f"{table}: of {found['validation']} screenshots of validation, train has {what}"


def _conflicts(_: Mapping[str, Any], audits: Mapping[str, Any]) -> Iterator[str]:
    found = audits.get("conflicting_picks")
    if found and found["labels"] and found["handling"] == "keep":
        first = found["named"][0]
        such = f"such as {first['label']} and {first['contradicts']}"
        yield f"{found['labels']} labels pick different actions for equal states and alternatives, {such}"


def _excluded(identity: Mapping[str, Any]) -> Iterator[Violation]:
    for table, limit in ((identity["parameters"].get("gates") or {}).get("max_excluded") or {}).items():
        stage = identity["ledger"].get(table, {"in": 0})
        share = 1 - stage["out"] / stage["in"] if stage["in"] else 0.0
        if share > limit:
            reasons = ", ".join(f"{reason} {n}" for reason, n in stage["excluded"].items())
            what = f"{share:.1%} of {stage['in']} {stage['unit']} are excluded, more than {limit:.1%}"
            message = f"{table}: {what} ({reasons})"
            least = f"{min(1.0, ceil(share * 100) / 100):.2f}"
            yield Violation(f"$.gates.max_excluded.{table}", message, least, "if that is right")


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    return str(value)
