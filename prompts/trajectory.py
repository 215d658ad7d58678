"""A whole episode as a prompt shows it: the task, and all steps as one reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..schemas.errors import ArmError
from .escape import escape
from .options import PromptOptions
from .substitution import Text, nested
from .template import Template


def check(options: PromptOptions) -> None:
    """Refuse options that an episode cannot follow. Raises ArmError."""
    if options.coordinate_space != "source" or options.element_labels or options.reasoning != "none":
        raise ArmError(
            "a trajectory prompt shows the steps as they were written: coordinate_space, element_labels and reasoning "
            "say nothing; leave them out"
        )


def asked(template: Template, user: Text, task: str | None) -> str:
    """The user's turn."""
    words = template.fragments
    return escape(user.fill({"task": nested(task or "", words["indent"]) or words["not_recorded"]}))


def told(template: Template, options: PromptOptions, steps: Sequence[Mapping[str, Any]]) -> str:
    """The reply: ``steps`` hold turn (0-based), thought, action and observation; the newest ``history_window``."""
    words, indent = template.fragments, template.fragments["indent"]
    first = max(len(steps) - options.history_window, 0)
    lines = [Text(words["earlier_steps"]).fill({"hidden": str(first)})] if first else []
    for step in steps[first:]:
        values = {"action": nested(step["action"] or "", indent) or words["no_action"], "element": ""}
        if options.candidate_reasoning and step["thought"]:
            text = Text(words["candidate_with_thought"]).fill({**values, "thought": nested(step["thought"], indent)})
        else:
            text = Text(words["candidate"]).fill(values)
        lines.append(Text(words["step"]).fill({"turn": str(step["turn"] + 1), "action": nested(text, indent)}))
        if options.observation == "text" and step["observation"]:
            seen = Text(words["text"]).fill({"observation_text": nested(step["observation"], indent)})
            lines.append(seen)
    return escape("\n".join(lines) or words["no_steps"])
