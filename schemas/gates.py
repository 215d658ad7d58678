"""The declared gates, judged from a manifest: a build may only warn of them, a publication never lets an error pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from .errors import ArmError, Issue


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
    return [*(_leaks(identity) if _level(identity, "leakage") == "error" else ()), *_excluded(identity)]


def warnings(identity: Mapping[str, Any]) -> list[str]:
    """What is violated and was declared to be a warning."""
    return [violation.message for violation in _leaks(identity)] if _level(identity, "leakage") == "warn" else []


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
    return str((identity["parameters"].get("gates") or {}).get(gate, "error"))


def _leaks(identity: Mapping[str, Any]) -> Iterator[Violation]:
    for table, crossing in identity["statistics"].get("leakage", {}).items():
        if crossing:
            message = f"{table}: {crossing} prompts with their pictures stand in both splits"
            yield Violation("$.gates.leakage", message, "warn", "publishes a leaky split; say why")


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
