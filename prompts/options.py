"""What a prompt shows. Every field is part of the prompt's hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, cast, get_args

from ..schemas.errors import ArmError, Issue
from ..schemas.validate import nearest

CoordinateSpace = Literal["source", "pixel", "norm1000"]
Reasoning = Literal["none", "before"]
Observation = Literal["screenshot", "text"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "coordinate_space": get_args(CoordinateSpace),
    "reasoning": get_args(Reasoning),
    "observation": get_args(Observation),
}


@dataclass(frozen=True)
class PromptOptions:
    """Options of a prompt, as ``registry.yaml`` and recipes write them.

    history_window: earlier turns shown, the newest ones; 0 leaves the whole section out.
    candidate_reasoning: candidates are shown with their thought.
    element_labels: tag and text (first 80 characters) of the recorded element that a candidate hits.
    coordinate_space: space of the points in candidates and history; ``source`` shows the action text verbatim.
    reasoning: ``before`` asks for reasoning ahead of the verdict, and completions carry the teacher's.
    observation: ``text`` shows ``observation_text`` and attaches no image.

    Raises ArmError with one issue per wrong value.
    """

    history_window: int = 8
    candidate_reasoning: bool = True
    element_labels: bool = False
    coordinate_space: CoordinateSpace = "source"
    reasoning: Reasoning = "none"
    observation: Observation = "screenshot"

    def __post_init__(self) -> None:
        _raise([_issue(f.name, problem) for f in fields(self) if (problem := _problem(f.name, getattr(self, f.name)))])

    def to_json(self) -> dict[str, Any]:
        """Return all options, defaults included, as plain JSON data."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Return the options of ``mapping``; absent keys take their default.

        Raises ArmError with every unknown key (and the nearest known one) and every wrong value.
        """
        known = [f.name for f in fields(cls)]
        issues = [_issue(str(key), _unknown(str(key), known)) for key in mapping if key not in known]
        issues += [_issue(k, problem) for k, v in mapping.items() if k in known and (problem := _problem(k, v))]
        _raise(issues)
        return cls(**cast(dict[str, Any], dict(mapping)))


def _problem(name: str, value: object) -> str | None:
    if name in _CHOICES:
        choices = _CHOICES[name]
        return None if isinstance(value, str) and value in choices else f"is {value!r}; one of {', '.join(choices)}"
    if name == "history_window":  # True is an int to Python, not to a reader
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return None if fits else f"is {value!r}; a whole number of turns, 0 or more"
    return None if isinstance(value, bool) else f"is {value!r}; true or false"


def _unknown(key: str, known: list[str]) -> str:
    close = nearest(key, known)
    hint = f"did you mean {close}?" if close else f"known: {', '.join(known)}"
    return f"is not a prompt option; {hint}"


def _issue(key: str, message: str) -> Issue:
    return Issue("prompt options", 0, f"$.{key}", message)


def _raise(issues: list[Issue]) -> None:
    if issues:
        raise ArmError(f"prompt options have {len(issues)} problem{'s' if len(issues) > 1 else ''}", issues=issues)
