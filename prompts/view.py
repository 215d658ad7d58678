"""A state as a prompt shows it: everything that is the same for all candidate sets of the state, built once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..schemas.actions import DIALECTS, SPACES, Dialect, calls_from_json, convert
from ..schemas.actions.model import Call, is_point
from ..schemas.errors import ArmError, UsageError
from . import trajectory
from .escape import escape
from .options import PromptOptions
from .substitution import Text, nested, splice
from .template import Template

_LABEL_CHARACTERS: Final = 80  # of an element's tag and text; part of the renderer version
_HOLES: Final = {"image", "candidates", "count"}


class Unrenderable(ArmError):  # noqa: N818 - an outcome with a name
    """This state or label cannot be shown as the prompt asks; the caller excludes it by ``reason``.

    reason: no_screenshot, no_observation_text, no_size, no_reasoning or reasoning_conflicts.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Space:
    """How points of one state get into the prompt.

    target: the space they are shown in, to one decimal, or None to show action texts verbatim.
    """

    dialect: str
    source: str | None
    target: str | None
    width: int | None
    height: int | None

    def shown(self, calls: tuple[Call, ...]) -> str:
        """The action text of ``calls``, in the target space and without the dialect's tags."""
        assert self.source is not None
        assert self.target is not None
        moved = [_rounded(c) for c in convert(calls, self.source, self.target, self.width, self.height)]
        texts = self._texts()
        return texts.parse(texts.render(moved)).action

    def _texts(self) -> Dialect:
        dialect = DIALECTS[self.dialect]
        return dialect.texts or dialect

    def shown_candidate(self, candidate: Mapping[str, Any]) -> str:
        """A candidate's action; one that could not be parsed has no points and is shown as it is."""
        if self.target is None or candidate["parse_error"] is not None:
            return str(candidate["action"])
        return self.shown(calls_from_json(candidate["action_json"]))

    def shown_step(self, action: str) -> str:
        """An earlier action, which is only recorded as text without tags; unreadable ones are shown as they are."""
        if self.target is None:
            return action
        dialect = self._texts()
        for bodies in ([action], action.split("\n")):  # several calls are joined by newlines
            calls = dialect.parse("".join(f"{dialect.opener}{b}{dialect.closer}" for b in bodies)).calls
            if calls:
                return self.shown(calls)
        return action


@dataclass(frozen=True, slots=True)
class StateView:
    """A state, rendered up to what depends on the candidates. Belongs to the prompt with hash ``prompt_sha256``.

    segments: texts, escaped, each followed by what comes after it: "image", "candidates", "count" or "" (the end).
    images: sha256 of the pictures in order; as many as there are "image" segments.
    labels: what to say of a recorded element, by its index; empty without element_labels.
    """

    prompt_sha256: str
    segments: tuple[tuple[str, str], ...]
    images: tuple[str, ...]
    labels: Mapping[int, str]
    space: Space


def user_text(template: Template, options: PromptOptions) -> Text:
    """The user turn with the fragments that ``options`` ask for; ArmError if the template cannot ask for them."""
    words = template.fragments
    asks = options.reasoning == "before" if template.kind == "selection" else options.candidate_reasoning
    if template.kind == "scalar" and options.reasoning != "none":
        raise ArmError("a scalar prompt has no completion, so reasoning: before says nothing; leave it out")
    if template.kind == "trajectory":
        trajectory.check(options)
    if template.kind == "selection" and asks and "{{answer}}" not in template.user:
        raise ArmError("reasoning: before needs {{answer}} in the template, or the model is not asked for reasoning")
    fragments = {
        "history": words["history" if options.history_window else "no_history"],
        "observation": words["screenshot" if options.observation == "screenshot" else "text"],
        "answer": words["answer_after_reasoning" if asks else "answer"],
    }
    return Text(splice(template.user, fragments))


def build(
    template: Template,
    options: PromptOptions,
    user: Text,
    sha256: str,
    row: Mapping[str, Any],
    *,
    dialect: str,
    space: str | None,
    recorded: tuple[str, str | None],
) -> StateView:
    """Return the view of a ``states`` row. See ``Prompt.state``."""
    for name in (space, recorded[1]):
        if name is not None and name not in SPACES:
            raise UsageError(f"unknown coordinate space {name!r}; known: {', '.join(SPACES)}")
    points = _space(options, row, dialect, space)
    steps = points if recorded == (dialect, space) else _space(options, row, *recorded)
    mixed = (steps.target or steps.source) != (points.target or points.source)
    if mixed and options.history_window and row["history"]:
        raise ArmError(
            f"earlier steps are in {steps.source} and candidates in {points.source}: a prompt shows one space",
            next_command="options: {coordinate_space: norm1000} below the table",
        )
    images = _images(options, row)
    words, indent = template.fragments, template.fragments["indent"]
    values = {
        "task": nested(row["task"] or "", indent) or words["not_recorded"],
        "url": nested(row["url"] or "", indent) or words["not_recorded"],
        "steps": _steps(words, options.history_window, row, steps),
        "points": _points(words, points),
        "observation_text": nested(row["observation_text"] or "", indent),
    }
    segments: list[tuple[str, str]] = []
    run = user.head
    for name, literal in user.rest:
        if name in _HOLES:
            segments.append((escape(run), name))
            run = literal
        else:
            run += values[name] + literal
    segments.append((escape(run), ""))
    assert sum(hole == "image" for _, hole in segments) == len(images)
    labels = {e["index"]: _label(words, e) for e in row["elements"]} if options.element_labels else {}
    return StateView(sha256, tuple(segments), images, labels, points)


def _images(options: PromptOptions, row: Mapping[str, Any]) -> tuple[str, ...]:
    if options.observation == "text":
        if row["observation_text"] is None:
            raise Unrenderable("no_observation_text", "the prompt shows the page as text, and the state has none")
        return ()
    if row["screenshot_sha256"] is None:
        raise Unrenderable("no_screenshot", "the prompt shows a screenshot, and the state has none")
    return (row["screenshot_sha256"],)


def _space(options: PromptOptions, row: Mapping[str, Any], dialect: str, space: str | None) -> Space:
    width, height = row["width"], row["height"]
    wanted = None if options.coordinate_space in ("source", space) else options.coordinate_space
    if wanted is not None:
        if space is None:
            raise ArmError(f"points are to be shown as {wanted}, and the space of the source is not declared")
        if not width or not height:
            raise Unrenderable("no_size", f"{space} -> {wanted} needs the size of the screenshot")
    return Space(dialect, space, wanted, width, height)


def _points(words: Mapping[str, str], space: Space) -> str:
    size = f"{space.width} x {space.height}" if space.width and space.height else words["unknown_size"]
    return Text(words[f"points_{space.target or space.source or 'unknown'}"]).fill({"size": size})


def _steps(words: Mapping[str, str], window: int, row: Mapping[str, Any], space: Space) -> str:
    history = row["history"]
    if not history:
        return words["no_steps" if history is not None and not row.get("turn") else "not_recorded"]
    indent, step = words["indent"], Text(words["step"])
    first = max(len(history) - window, 0)
    lines = [Text(words["earlier_steps"]).fill({"hidden": str(first)})] if first else []
    for entry in history[first:]:
        action = nested(space.shown_step(entry["action"] or ""), indent) or words["no_action"]
        lines.append(step.fill({"turn": str(entry["turn"] + 1), "action": action}))
    return "\n".join(lines)


def _rounded(call: Call) -> Call:
    """Points to one decimal: enough to tell any two pixels of a 10,000-pixel screen apart, and still readable."""
    arguments = {
        key: tuple(int(v) if v == int(v) else v for v in (round(float(c), 1) for c in value))
        if is_point(key, value)
        else value
        for key, value in call.arguments.items()
    }
    return Call(call.name, call.verb, arguments)


def _label(words: Mapping[str, str], element: Mapping[str, Any]) -> str:
    return Text(words["element"]).fill({"tag": _short(element["tag"]), "text": _short(element["text"])})


def _short(text: str | None) -> str:
    """On one line, with its beginning kept."""
    line = " ".join((text or "").split())
    return line if len(line) <= _LABEL_CHARACTERS else line[: _LABEL_CHARACTERS - 1] + "…"
